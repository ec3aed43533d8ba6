#define FF_T(name) name##_f32
#define real       float

#include "ff_embed_impl.h"
