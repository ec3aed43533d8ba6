#include "ff_sort.h"

#include "ff_mem.h"

enum { DIGIT_BITS = 8, N_DIGITS = 1 << DIGIT_BITS, CHUNK_MIN = 1 << 15, CHUNKS_MAX = 64 };

/* One pass works on fixed chunks of the input, so its result does not depend on the number of threads. */
typedef struct radix {
    int64_t n;
    int n_chunks;
    int64_t (*place)[N_DIGITS]; /* [n_chunks]: counts of a digit, then where a chunk's first such key goes */
} radix;

static int64_t chunk_begin(const radix *r, int c)
{
    return r->n * c / r->n_chunks;
}

/* Bits in which any two keys differ. */
static uint64_t varying_bits(const uint64_t *key, int64_t n)
{
    uint64_t any = 0, all = ~UINT64_C(0);
#pragma omp parallel for schedule(static) reduction(| : any) reduction(& : all) if (n > CHUNK_MIN)
    for (int64_t i = 0; i < n; i++) {
        any |= key[i];
        all &= key[i];
    }
    return any & ~all;
}

static void count_digits(radix *r, const uint64_t *key, int shift)
{
#pragma omp parallel for schedule(static) if (r->n_chunks > 1)
    for (int c = 0; c < r->n_chunks; c++) {
        int64_t *count = r->place[c];
        for (int d = 0; d < N_DIGITS; d++) count[d] = 0;
        for (int64_t i = chunk_begin(r, c); i < chunk_begin(r, c + 1); i++)
            count[(key[i] >> shift) & (N_DIGITS - 1)]++;
    }
    int64_t sum = 0;
    for (int d = 0; d < N_DIGITS; d++) {
        for (int c = 0; c < r->n_chunks; c++) {
            int64_t count = r->place[c][d];
            r->place[c][d] = sum;
            sum += count;
        }
    }
}

static void scatter(radix *r, const uint64_t *key, const int64_t *value, uint64_t *key_out,
                    int64_t *value_out, int shift)
{
#pragma omp parallel for schedule(static) if (r->n_chunks > 1)
    for (int c = 0; c < r->n_chunks; c++) {
        int64_t *place = r->place[c];
        for (int64_t i = chunk_begin(r, c); i < chunk_begin(r, c + 1); i++) {
            int64_t to = place[(key[i] >> shift) & (N_DIGITS - 1)]++;
            key_out[to] = key[i];
            if (value != NULL) value_out[to] = value[i];
        }
    }
}

static void copy_back(int64_t n, uint64_t *key, int64_t *value, const uint64_t *key_from,
                      const int64_t *value_from)
{
#pragma omp parallel for schedule(static) if (n > CHUNK_MIN)
    for (int64_t i = 0; i < n; i++) {
        key[i] = key_from[i];
        if (value != NULL) value[i] = value_from[i];
    }
}

ff_status ff_sort_u64(uint64_t *key, int64_t *value, int64_t n)
{
    ff_status st = FF_OK;
    uint64_t *key_b = NULL;
    int64_t *value_b = NULL;
    int64_t chunks = n / CHUNK_MIN;
    radix r = {.n = n, .n_chunks = chunks < 1 ? 1 : chunks > CHUNKS_MAX ? CHUNKS_MAX : (int)chunks};
    uint64_t vary = varying_bits(key, n);
    if (n < 2 || vary == 0) return FF_OK;

    FF_GO(FF_NEW(r.place, r.n_chunks));
    FF_GO(FF_NEW(key_b, n));
    if (value != NULL) FF_GO(FF_NEW(value_b, n));

    uint64_t *from = key, *to = key_b;
    int64_t *value_from = value, *value_to = value_b;
    for (int shift = 0; shift < 64; shift += DIGIT_BITS) {
        if (((vary >> shift) & (N_DIGITS - 1)) == 0) continue;
        count_digits(&r, from, shift);
        scatter(&r, from, value_from, to, value_to, shift);
        uint64_t *k = from;
        int64_t *v = value_from;
        from = to, value_from = value_to;
        to = k, value_to = v;
    }
    if (from != key) copy_back(n, key, value, from, value_from);
done:
    ff_free(r.place);
    ff_free(key_b);
    ff_free(value_b);
    return st;
}
