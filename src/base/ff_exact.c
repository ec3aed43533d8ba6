#include "ff_exact.h"

#include "ff_mem.h"

#include <math.h>

enum { WORDS = 5 }; /* four words of 32 bits and the count of bad terms */

void ff_exact_add(ff_exact *a, double v)
{
    if (!(fabs(v) < 0x1p46)) {
        a->bad = true;
        return;
    }
    /* 53 significant bits: split so that each part converts exactly, then shift. low may be 2^63 in a tie. */
    double high = nearbyint(v * 0x1p16), low = nearbyint((v - high * 0x1p-16) * 0x1p80);
    a->sum += (__int128)(int64_t)high * ((__int128)1 << 64) + (__int128)low;
    if (a->sum > ((__int128)1 << 126) || a->sum < -((__int128)1 << 126)) a->bad = true;
}

ff_status ff_exact_allreduce(ff_comm *comm, ff_exact *a, int n)
{
    int64_t *w = NULL;
    FF_TRY(FF_NEW_ALL(comm, w, (size_t)n * WORDS + 1));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++) w[i * WORDS + k] = (int64_t)((a[i].sum >> (32 * k)) & 0xffffffff);
        w[i * WORDS + 3] = (int64_t)(a[i].sum >> 96); /* carries the sign */
        w[i * WORDS + 4] = a[i].bad;
    }
    ff_status st = ff_comm_allreduce(comm, w, (int64_t)n * WORDS, FF_SUM_I64);
    for (int i = 0; i < n && st == FF_OK; i++) {
        __int128 sum = 0;
        for (int k = 0; k < 4; k++) sum += (__int128)w[i * WORDS + k] * ((__int128)1 << (32 * k));
        a[i].sum = sum;
        a[i].bad = w[i * WORDS + 4] != 0;
    }
    ff_free(w);
    return st;
}

double ff_exact_value(const ff_exact *a)
{
    return a->bad ? NAN : ldexp((double)a->sum, -80);
}
