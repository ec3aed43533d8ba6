#include "ff_sums.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { STRIPE = 8192, CARRY_AFTER = 1024, LO_BITS = 48 };

/* |lo| grows by at most 2^47 a term: after 1024 terms 2^57. hi: by 2^51 a term, 2^61 after 1024; it is checked against
 * 2^61 at every carry, so it stays below 2^62. */
typedef struct stripe {
    omp_lock_t lock;
    int32_t n_added;
} stripe;

struct ff_sums {
    int64_t n, n_stripes;
    int64_t *hi, *lo;
    stripe *stripe;
    int bad; /* atomic */
};

static const int64_t sum_limit = INT64_C(1) << 61, term_carry = INT64_C(1) << 60;

ff_status ff_sums_create(int64_t n, ff_sums **out)
{
    ff_status st = FF_OK;
    ff_sums *s = NULL;
    *out = NULL;
    FF_GO(FF_NEW0(s, 1));
    s->n = n;
    FF_GO(FF_NEW0(s->hi, n + 1));
    FF_GO(FF_NEW0(s->lo, n + 1));
    FF_GO(FF_NEW0(s->stripe, n / STRIPE + 1));
    s->n_stripes = (n + STRIPE - 1) / STRIPE;
    for (int64_t k = 0; k < s->n_stripes; k++) omp_init_lock(&s->stripe[k].lock);
    *out = s;
    s = NULL;
done:
    ff_sums_destroy(&s);
    return st;
}

void ff_sums_destroy(ff_sums **sp)
{
    ff_sums *s = *sp;
    if (s == NULL) return;
    for (int64_t k = 0; k < s->n_stripes; k++) omp_destroy_lock(&s->stripe[k].lock);
    ff_free(s->hi);
    ff_free(s->lo);
    ff_free(s->stripe);
    FF_FREE(*sp);
}

void ff_sums_clear(ff_sums *s)
{
    memset(s->hi, 0, (size_t)s->n * sizeof *s->hi);
    memset(s->lo, 0, (size_t)s->n * sizeof *s->lo);
    for (int64_t k = 0; k < s->n_stripes; k++) s->stripe[k].n_added = 0;
    s->bad = 0;
}

void ff_sums_set_bad(ff_sums *s)
{
    __atomic_store_n(&s->bad, 1, __ATOMIC_RELAXED);
}

bool ff_sums_bad(const ff_sums *s)
{
    return __atomic_load_n(&s->bad, __ATOMIC_RELAXED) != 0;
}

/* Rounded to the nearest integer, |x| < 2^51: the low bits of x + 1.5 2^52. */
static inline int64_t nearest(double x)
{
    const double magic = 0x1.8p52;
    double t = x + magic;
    int64_t a, b;
    memcpy(&a, &t, sizeof a);
    memcpy(&b, &magic, sizeof b);
    return a - b;
}

static inline double nearest_back(double x)
{
    double t = x + 0x1.8p52;
    return t - 0x1.8p52;
}

/* Both words of a term; false if it is out of range. */
static inline bool split(double v, int64_t *hi, int64_t *lo)
{
    bool good = fabs(v) < 0x1p27;
    int64_t keep = -(int64_t)good; /* what is out of range must not wrap the words */
    double high = nearest_back(v * 0x1p24);
    *hi = nearest(high) & keep;
    *lo = nearest((v - high * 0x1p-24) * 0x1p72) & keep;
    return good;
}

static void carry(int64_t *hi, int64_t *lo)
{
    int64_t c = *lo >> LO_BITS; /* rounds down: lo becomes nonnegative */
    *hi += c;
    *lo -= c * (INT64_C(1) << LO_BITS);
}

static bool carry_range(ff_sums *s, int64_t from, int64_t to)
{
    bool good = true;
    for (int64_t i = from; i < to; i++) {
        carry(&s->hi[i], &s->lo[i]);
        good = good && s->hi[i] < sum_limit && s->hi[i] > -sum_limit;
    }
    return good;
}

/* All entries; false: one is out of range. */
static bool carry_all(ff_sums *s)
{
    int bad = 0;
#pragma omp parallel for schedule(static) reduction(| : bad) if (s->n_stripes > 4)
    for (int64_t k = 0; k < s->n_stripes; k++)
        bad |= !carry_range(s, k * STRIPE, (k + 1) * STRIPE < s->n ? (k + 1) * STRIPE : s->n);
    return bad == 0;
}

/* ---- runs of terms ---- */

enum { RUN = 64 };

/* Both words of each of RUN terms; the return value has a bit set if one is out of range. All factors are powers of two, so
 * the words do not depend on the instruction set. */
static inline __attribute__((always_inline)) int64_t split_body(const double *v, int64_t *hi, int64_t *lo)
{
    int64_t bad = 0;
    for (int i = 0; i < RUN; i++) {
        int64_t keep = fabs(v[i]) < 0x1p27 ? -1 : 0;
        double high = nearest_back(v[i] * 0x1p24);
        hi[i] = nearest(high) & keep;
        lo[i] = nearest((v[i] - high * 0x1p-24) * 0x1p72) & keep;
        bad |= ~keep;
    }
    return bad;
}

static int64_t split_plain(const double *v, int64_t *hi, int64_t *lo)
{
    return split_body(v, hi, lo);
}

#if defined(__x86_64__) && defined(__GNUC__)
static __attribute__((target("avx2"))) int64_t split_avx2(const double *v, int64_t *hi, int64_t *lo)
{
    return split_body(v, hi, lo);
}

static __attribute__((target("avx512f"))) int64_t split_avx512(const double *v, int64_t *hi, int64_t *lo)
{
    return split_body(v, hi, lo);
}

static int64_t split_run(const double *v, int64_t *hi, int64_t *lo)
{
    if (__builtin_cpu_supports("avx512f")) return split_avx512(v, hi, lo);
    return __builtin_cpu_supports("avx2") ? split_avx2(v, hi, lo) : split_plain(v, hi, lo);
}
#else
static int64_t split_run(const double *v, int64_t *hi, int64_t *lo)
{
    return split_plain(v, hi, lo);
}
#endif

/* RUN terms; whether all are zero of either sign. */
static bool zero_f32(const float *v)
{
    int some = 0;
    for (int i = 0; i < RUN; i++) some |= v[i] != 0;
    return some == 0;
}

static bool zero_f64(const double *v)
{
    int64_t some = 0;
    for (int i = 0; i < RUN; i++) some |= v[i] != 0 ? -1 : 0;
    return some == 0;
}

/* m terms in double, zeros behind them; false if all are zero. */
static bool get_run(int64_t m, const float *f32, const double *f64, double *v)
{
    if (m == RUN && f32 != NULL) {
        if (zero_f32(f32)) return false;
        for (int i = 0; i < RUN; i++) v[i] = (double)f32[i];
        return true;
    }
    memset(v, 0, RUN * sizeof *v);
    for (int64_t i = 0; i < m; i++) v[i] = f32 != NULL ? (double)f32[i] : f64[i];
    return !zero_f64(v);
}

/* Runs of zeros are passed over: many terms touch a part of the entries only. */
static void add_in_stripe(ff_sums *s, int64_t k, int64_t from, int64_t n, const float *f32, const double *f64)
{
    stripe *p = &s->stripe[k];
    int64_t bad = 0, a[RUN], b[RUN];
    double v[RUN];
    omp_set_lock(&p->lock);
    for (int64_t r = 0; r < n; r += RUN) {
        int64_t m = n - r < RUN ? n - r : RUN, *hi = s->hi + from + r, *lo = s->lo + from + r;
        if (!get_run(m, f32 != NULL ? f32 + r : NULL, f64 != NULL ? f64 + r : NULL, v)) continue;
        bad |= split_run(v, a, b);
        for (int64_t i = 0; i < m; i++) {
            hi[i] += a[i];
            lo[i] += b[i];
        }
    }
    if (bad == 0 && ++p->n_added >= CARRY_AFTER) {
        int64_t end = (k + 1) * STRIPE < s->n ? (k + 1) * STRIPE : s->n;
        bad = !carry_range(s, k * STRIPE, end);
        p->n_added = 0;
    }
    omp_unset_lock(&p->lock);
    if (bad != 0) ff_sums_set_bad(s);
}

static void add(ff_sums *s, int64_t from, int64_t n, const float *f32, const double *f64)
{
    if (n <= 0 || ff_sums_bad(s)) return; /* terms out of range must not wrap the words either */
    int64_t first = from / STRIPE, n_k = (from + n - 1) / STRIPE - first + 1;
    for (int64_t q = 0, turn = omp_get_thread_num() % n_k; q < n_k; q++) {
        int64_t k = first + (turn + q) % n_k;
        int64_t a = k * STRIPE > from ? k * STRIPE : from;
        int64_t b = (k + 1) * STRIPE < from + n ? (k + 1) * STRIPE : from + n;
        add_in_stripe(s, k, a, b - a, f32 != NULL ? f32 + (a - from) : NULL,
                      f64 != NULL ? f64 + (a - from) : NULL);
    }
}

void ff_sums_add_f32(ff_sums *s, int64_t from, int64_t n, const float *v)
{
    add(s, from, n, v, NULL);
}

void ff_sums_add_f64(ff_sums *s, int64_t from, int64_t n, const double *v)
{
    add(s, from, n, NULL, v);
}

/* The low word carries by itself when it grows large; both halves of a carry commute with other terms. */
void ff_sums_add_one(ff_sums *s, int64_t i, double v)
{
    int64_t a, b;
    if (!split(v, &a, &b)) {
        ff_sums_set_bad(s);
        return;
    }
    int64_t lo = __atomic_add_fetch(&s->lo[i], b, __ATOMIC_RELAXED);
    if (lo > term_carry || lo < -term_carry) {
        int64_t c = lo >> LO_BITS;
        (void)__atomic_sub_fetch(&s->lo[i], c * (INT64_C(1) << LO_BITS), __ATOMIC_RELAXED);
        a += c;
    }
    int64_t hi = __atomic_add_fetch(&s->hi[i], a, __ATOMIC_RELAXED);
    if (hi > sum_limit || hi < -sum_limit) ff_sums_set_bad(s);
}

void ff_sums_get_words(ff_sums *s, int64_t i, int64_t words[2])
{
    if (!carry_range(s, i, i + 1)) ff_sums_set_bad(s);
    words[0] = s->hi[i];
    words[1] = s->lo[i];
}

void ff_sums_put_words(ff_sums *s, int64_t i, const int64_t words[2])
{
    if (!carry_range(s, i, i + 1)) ff_sums_set_bad(s);
    s->hi[i] += words[0];
    s->lo[i] += words[1];
    if (!carry_range(s, i, i + 1)) ff_sums_set_bad(s);
}

/* Three words an entry: the low 32 bits of hi, the rest of it, lo below 2^48: sums of 2^15 ranks fit. */
ff_status ff_sums_allreduce(ff_comm *comm, ff_sums *s)
{
    enum { WORDS = 3 };
    int64_t *w = NULL;
    if (!carry_all(s)) ff_sums_set_bad(s);
    if (comm->size == 1) return FF_OK;
    FF_TRY(FF_NEW_ALL(comm, w, WORDS * s->n + 1));
    for (int64_t i = 0; i < s->n; i++) {
        w[WORDS * i] = s->hi[i] & 0xffffffff;
        w[WORDS * i + 1] = s->hi[i] >> 32;
        w[WORDS * i + 2] = s->lo[i];
    }
    w[WORDS * s->n] = ff_sums_bad(s);
    ff_status st = ff_comm_allreduce(comm, w, WORDS * s->n + 1, FF_SUM_I64);
    bool good = st != FF_OK || w[WORDS * s->n] == 0;
    for (int64_t i = 0; i < s->n && st == FF_OK; i++) {
        int64_t top = w[WORDS * i + 1] + (w[WORDS * i] >> 32);
        good = good && top < INT64_C(1) << 29 && top > -(INT64_C(1) << 29);
        s->hi[i] = good ? top * (INT64_C(1) << 32) + (w[WORDS * i] & 0xffffffff) : 0;
        s->lo[i] = w[WORDS * i + 2];
    }
    if (st == FF_OK && (!good || !carry_all(s))) ff_sums_set_bad(s);
    ff_free(w);
    return st;
}

double ff_sums_value(const ff_sums *s, int64_t i)
{
    if (ff_sums_bad(s)) return NAN;
    int64_t hi = s->hi[i], lo = s->lo[i];
    carry(&hi, &lo);
    return (double)((__int128)hi * (INT64_C(1) << LO_BITS) + lo) *
           0x1p-72; /* one rounding: the power of two is exact */
}

ff_status ff_sums_exponents(ff_comm *comm, int n, double *top, int *e)
{
    FF_TRY(ff_comm_allreduce(comm, top, n, FF_MAX_F64));
    for (int i = 0; i < n; i++) {
        e[i] = 0;
        if (isfinite(top[i])) (void)frexp(top[i], &e[i]);
    }
    return FF_OK;
}
