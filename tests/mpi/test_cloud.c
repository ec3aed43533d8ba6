/* The distributed order against a plain sort of all points on each rank, and the routes between home and own.
 */
#include "ff_mpi_test.h"

#include "ff_cloud.h"
#include "ff_morton.h"
#include "ff_sets.h"

#include <string.h>

typedef struct key {
    uint64_t code;
    int64_t orig;
} key;

static int compare_keys(const void *a, const void *b)
{
    const key *p = a, *q = b;
    if (p->code != q->code) return p->code < q->code ? -1 : 1;
    return p->orig < q->orig ? -1 : p->orig > q->orig;
}

/* All points, and their order by (code, original id) from the C library's sort. */
static key *plain_order(ff_mt *t, ff_set_kind kind, int64_t n, int dim, float *x)
{
    key *k = ff_mem_alloc((size_t)n, sizeof *k);
    uint64_t *code = ff_mem_alloc((size_t)n, sizeof *code);
    float lo[3], hi[3];
    FF_EXPECT(t, k != NULL && code != NULL, "no memory");
    ff_set_fill(kind, 0, n, dim, x);
    ff_morton_box(x, n, dim, lo, hi);
    ff_morton_codes(x, n, dim, lo, hi, code);
    for (int64_t i = 0; i < n; i++) k[i] = (key){code[i], i};
    if (n > 0) qsort(k, (size_t)n, sizeof *k, compare_keys);
    ff_free(code);
    return k;
}

static void check_order(ff_mt *t, const ff_cloud *c, const key *want, const float *x, const char *what)
{
    int64_t begin = c->cut[t->rank], bad = 0;
    FF_EXPECT(t, c->n_own == c->cut[t->rank + 1] - begin && c->cut[0] == 0 && c->cut[t->size] == c->n,
              "%s: cut", what);
    for (int r = 0; r < t->size; r++)
        FF_EXPECT(t, c->cut[r] <= c->cut[r + 1] && ff_topo_border(c->n, c->leaf_size, c->cut[r]) == c->cut[r],
                  "%s: cut[%d] = %lld is no border", what, r, (long long)c->cut[r]);
    for (int64_t i = 0; i < c->n_own; i++) {
        int64_t orig = want[begin + i].orig;
        bad += c->orig[i] != orig ||
               memcmp(c->x + i * c->dim, x + orig * c->dim, (size_t)c->dim * sizeof *x) != 0;
    }
    FF_EXPECT(t, bad == 0, "%s: %lld of %lld points differ from the plain sort", what, (long long)bad,
              (long long)c->n_own);
}

/* Rows of any length come where the order says, and back. */
static void check_routes(ff_mt *t, const ff_cloud *c, size_t row_bytes, const char *what)
{
    unsigned char *home = ff_mem_alloc((size_t)c->n_home, row_bytes),
                  *own = ff_mem_alloc((size_t)c->n_own, row_bytes);
    FF_EXPECT(t, home != NULL && own != NULL, "no memory");
    int64_t bad_own = 0, bad_home = 0;
    for (int64_t i = 0; i < c->n_home; i++)
        for (size_t b = 0; b < row_bytes; b++)
            home[(size_t)i * row_bytes + b] = (unsigned char)(((c->home_begin + i) * 7 + (int64_t)b) % 251);
    FF_EXPECT_OK(t, ff_cloud_to_own(c, row_bytes, home, own));
    for (int64_t i = 0; i < c->n_own; i++)
        for (size_t b = 0; b < row_bytes; b++) {
            unsigned char *at = own + (size_t)i * row_bytes + b;
            bad_own += *at != (c->orig[i] * 7 + (int64_t)b) % 251;
            *at = (unsigned char)(*at + 1);
        }
    memset(home, 0, (size_t)c->n_home * row_bytes);
    FF_EXPECT_OK(t, ff_cloud_to_home(c, row_bytes, own, home));
    for (int64_t i = 0; i < c->n_home; i++)
        for (size_t b = 0; b < row_bytes; b++)
            bad_home += home[(size_t)i * row_bytes + b] != ((c->home_begin + i) * 7 + (int64_t)b) % 251 + 1;
    FF_EXPECT(t, bad_own == 0 && bad_home == 0,
              "%s: rows of %zu bytes: %lld wrong at own, %lld wrong at home", what, row_bytes,
              (long long)bad_own, (long long)bad_home);
    ff_free(home), ff_free(own);
}

/* A cut as uneven as borders allow: rank r's run ends near n (r / size)^3; the last but one owns nothing. */
static void uneven_cut(const ff_cloud *c, int64_t *cut)
{
    int size = ff_comm_size(c->comm);
    for (int r = 0; r <= size; r++) {
        double f = (double)r / size;
        cut[r] = ff_topo_border(c->n, c->leaf_size, (int64_t)((double)c->n * f * f * f));
    }
    cut[size] = c->n;
    if (size > 1) cut[size - 1] = cut[size - 2];
}

static void try_cloud(ff_mt *t, ff_set_kind kind, int64_t n, int dim, int leaf_size, int spread)
{
    char what[96];
    (void)snprintf(what, sizeof what, "%s n %lld dim %d leaf %d spread %d", ff_set_name(kind), (long long)n,
                   dim, leaf_size, spread);
    float *x = ff_mem_alloc((size_t)(n * dim), sizeof *x);
    key *want = plain_order(t, kind, n, dim, x);
    int64_t begin = ff_set_home(n, t->size, t->rank, spread),
            end = ff_set_home(n, t->size, t->rank + 1, spread);
    int64_t cut[64];
    ff_cloud *c = NULL;
    FF_EXPECT_OK(t, ff_cloud_create(t->world, x + begin * dim, end - begin, dim, leaf_size, &c));
    if (ff_mt_good(t)) {
        FF_EXPECT(t, c->n == n && c->home_begin == begin && c->n_home == end - begin, "%s: counts", what);
        check_order(t, c, want, x, what);
        check_routes(t, c, 12, what);
        uneven_cut(c, cut);
        FF_EXPECT_OK(t, ff_cloud_recut(c, cut));
        FF_EXPECT(t, memcmp(c->cut, cut, (size_t)(t->size + 1) * sizeof *cut) == 0, "%s: cut not taken",
                  what);
        check_order(t, c, want, x, what);
        check_routes(t, c, 5, what);
    }
    ff_cloud_destroy(&c);
    ff_free(want), ff_free(x);
}

static void order_and_routes(void **state)
{
    ff_mt *t = *state;
    static const int64_t counts[] = {0, 1, 2, 3, 33, 64, 65, 1000};
    if (t->rank == 0) printf("seed %d\n", (int)FF_SET_SEED);
    for (int kind = 0; kind < FF_SET_KINDS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (int spread = 0; spread < FF_SPREADS; spread++) {
                int dim = 2 + (int)(i + (size_t)spread) % 2, leaf = spread % 2 == 0 ? 1 : 4;
                try_cloud(t, (ff_set_kind)kind, counts[i], dim, spread == 4 ? 64 : leaf, spread);
            }
    try_cloud(t, FF_SET_SPHERE, 20011, 3, 4, 0);
    try_cloud(t, FF_SET_CLUSTERS, 20011, 2, 1, 3);
    ff_mt_verdict(t);
}

/* Equal counts: no rank has more than its share and one block. */
static void first_cut_is_even(void **state)
{
    ff_mt *t = *state;
    int64_t n = 10000, begin = ff_set_home(n, t->size, t->rank, 2),
            end = ff_set_home(n, t->size, t->rank + 1, 2);
    float *x = ff_mem_alloc((size_t)(n * 3), sizeof *x);
    ff_cloud *c = NULL;
    ff_set_fill(FF_SET_SPHERE, begin, end - begin, 3, x);
    FF_EXPECT_OK(t, ff_cloud_create(t->world, x, end - begin, 3, 1, &c));
    if (c != NULL)
        FF_EXPECT(t, llabs(c->n_own - n / t->size) <= FF_BLOCK_POINTS, "%lld points of %lld on %d ranks",
                  (long long)c->n_own, (long long)n, t->size);
    ff_cloud_destroy(&c);
    ff_free(x);
    ff_mt_verdict(t);
}

/* One text on all ranks, and it names the original id. */
static void bad_input_is_agreed(void **state)
{
    ff_mt *t = *state;
    int64_t n = 50, begin = ff_set_home(n, t->size, t->rank, 0),
            end = ff_set_home(n, t->size, t->rank + 1, 0);
    float x[50 * 3];
    ff_cloud *c = NULL;
    ff_set_fill(FF_SET_SPHERE, begin, end - begin, 3, x);
    for (int64_t i = begin; i < end; i++)
        if (i == 41 || i == 47) x[(i - begin) * 3 + 1] = i == 41 ? NAN : INFINITY;
    FF_EXPECT(t, ff_cloud_create(t->world, x, end - begin, 3, 4, &c) == FF_E_INPUT && c == NULL,
              "NaN is accepted");
    FF_EXPECT(t, strstr(ff_error_text(), "point 41: y") != NULL, "text '%s'", ff_error_text());
    ff_error_clear();
    int leaf = t->rank == t->size - 1 ? 8193 : 4; /* wrong on one rank only */
    FF_EXPECT(t, ff_cloud_create(t->world, x, 0, 3, leaf, &c) == FF_E_ARG && c == NULL,
              "leaf_size 8193 is accepted");
    FF_EXPECT(t, strstr(ff_error_text(), "leaf_size = 8193") != NULL, "text '%s'", ff_error_text());
    ff_error_clear();
    FF_EXPECT(t, ff_cloud_create(t->world, x, 0, 4, 1, &c) == FF_E_ARG && c == NULL, "dim 4 is accepted");
    ff_mt_verdict(t);
}

static void bad_cuts_are_refused(void **state)
{
    ff_mt *t = *state;
    float x[100 * 2];
    int64_t cut[64] = {0};
    ff_cloud *c = NULL;
    ff_set_fill(FF_SET_GRID, 100 * t->rank, 100, 2, x);
    FF_EXPECT_OK(t, ff_cloud_create(t->world, x, 100, 2, 4, &c));
    if (ff_mt_good(t)) {
        for (int r = 1; r <= t->size; r++)
            cut[r] = 100 * t->size - (r < t->size); /* not a border, or not the end */
        if (t->size == 1) cut[1] = 99;
        FF_EXPECT(t, ff_cloud_recut(c, cut) == FF_E_ARG, "a cut inside a block is accepted");
        check_routes(t, c, 4, "after a refused cut");
    }
    ff_cloud_destroy(&c);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {
    FF_MT(order_and_routes),
    FF_MT(first_cut_is_even),
    FF_MT(bad_input_is_agreed),
    FF_MT(bad_cuts_are_refused),
};
FF_MT_MAIN(tests)
