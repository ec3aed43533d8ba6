#include "ff_digest.h"

#include "ff_mem.h"

#include <openssl/evp.h>

struct ff_digest {
    EVP_MD_CTX *ctx;
    bool good;
};

ff_status ff_digest_begin(ff_digest **out)
{
    ff_digest *d = NULL;
    *out = NULL;
    FF_TRY(FF_NEW0(d, 1));
    d->ctx = EVP_MD_CTX_new();
    if (d->ctx == NULL) {
        ff_free(d);
        return ff_fail(FF_E_MEM, "no memory for a digest");
    }
    d->good = EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) == 1;
    *out = d;
    return FF_OK;
}

void ff_digest_add(ff_digest *d, const void *data, size_t bytes)
{
    d->good = d->good && EVP_DigestUpdate(d->ctx, data, bytes) == 1;
}

ff_status ff_digest_end(ff_digest **dp, char hex[FF_DIGEST_HEX])
{
    static const char digit[] = "0123456789abcdef";
    unsigned char sum[32] = {0};
    ff_digest *d = *dp;
    bool good = d->good && EVP_DigestFinal_ex(d->ctx, sum, NULL) == 1;
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digit[sum[i] >> 4];
        hex[2 * i + 1] = digit[sum[i] & 15];
    }
    hex[64] = 0;
    EVP_MD_CTX_free(d->ctx);
    FF_FREE(*dp);
    return good ? FF_OK : ff_fail(FF_E_INTERNAL, "libcrypto cannot make a SHA-256 digest");
}
