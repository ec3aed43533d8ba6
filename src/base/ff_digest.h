/* SHA-256 of bytes that come in pieces (libcrypto). Local */
#ifndef FF_DIGEST_H
#define FF_DIGEST_H

#include "ff_status.h"

#include <stddef.h>

enum { FF_DIGEST_HEX = 65 }; /* 64 digits and the end */

typedef struct ff_digest ff_digest;

ff_status ff_digest_begin(ff_digest **out); /* FF_E_MEM */
void ff_digest_add(ff_digest *d, const void *data, size_t bytes);
/* The digest in hexadecimal; *d is freed and becomes NULL. FF_E_INTERNAL if the library failed on the way. */
ff_status ff_digest_end(ff_digest **d, char hex[FF_DIGEST_HEX]);

#endif
