#define FF_T(name) name##_f64
#define real       double

#include "ff_embed_impl.h"
