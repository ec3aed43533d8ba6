/* The treecode over ranks: values, gradients and adjoint equal to the bit with those of one process, wherever the points
 * are at home. Seed 5. */
#include "ff_mpi_test.h"

#include "ff_generate.h"
#include "ff_rng.h"
#include "ff_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
    const char *kernel, *generator;
    int64_t n_s, n_t;  /* n_t = 0: targets are the sources */
    int order, n_dens; /* BY_RTOL: what rtol 1e-3 chooses for the points */
    bool single, triangles;
} setting;
enum { BY_RTOL = -1 };

static const setting settings[] = {{"1/r", "uniform", 4000, 0, 3, 1, false, false},
                                   {"1/r", "sphere", 3000, 1000, 2, 2, false, false},
                                   {"dipole", "plummer", 2500, 900, 2, 1, false, false},
                                   {"stokeslet", "galaxies", 2000, 0, 2, 1, true, false},
                                   {"log", "line", 1500, 0, 4, 3, false, false},
                                   {"yukawa", "uniform", 2000, 500, 0, 1, true, false},
                                   {"1/r", "uniform", 1, 0, 2, 1, false, false},
                                   {"1/r", "uniform", 0, 3, 2, 1, false, false},
                                   {"plummer", "point", 300, 0, 2, 1, false, false},
                                   {"yukawa", "point", 6000, 0, 2, 1, false, false},
                                   {"1/r", "every second", 9000, 0, 3, 2, false, false},
                                   {"stokeslet", "every second", 3000, 800, BY_RTOL, 1, false, false},
                                   {"1/r", "sphere", 40000, 0, 4, 1, false, false},
                                   {"1/r", "galaxies", 5000, 800, BY_RTOL, 1, false, false},
                                   {"1/r", "sphere", 3000, 0, 3, 1, false, true},
                                   {"1/r", "sphere", 3000, 700, 3, 2, true, true}};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

typedef struct arrays {
    double *x, *t, *q, *u, *g, *cot, *dq;
    ff_sum_error *e; /* [2] of 20 targets */
    double *corner;  /* [..][9] */
} arrays;

static double *numbers(uint64_t stream, int64_t n)
{
    double *v = malloc(sizeof *v * (size_t)(n + 1));
    for (int64_t i = 0; v != NULL && i < n; i++) v[i] = 2 * ff_rng_uniform(5, stream, (uint64_t)i) - 1;
    return v;
}

/* Home: rank r has items [n r^2 / size^2, ...): uneven, nothing on rank 0 of many. */
static int64_t home(int64_t n, int r, int size)
{
    return n * r * r / ((int64_t)size * size);
}

/* Also a kind with every second point at one place. */
static ff_status generate(const char *kind, uint64_t seed, int64_t n, int dim, double *x)
{
    const bool half = strcmp(kind, "every second") == 0;
    FF_TRY(ff_generate(half ? "uniform" : kind, seed, 0, n, dim, x));
    for (int64_t i = dim; i < n * dim && half; i++)
        if (i / dim % 2 == 0) x[i] = x[i % dim];
    return FF_OK;
}

static ff_status run(ff_comm *comm, const ff_sum_opts *given, bool two, const arrays *a, int64_t n_s,
                     int64_t n_t)
{
    ff_sum *s = NULL;
    ff_status st;
    ff_sum_opts o = *given;
    o.corners = a->corner;
    FF_GO(ff_sum_create_dist(comm, two ? a->t : NULL, n_t, a->x, n_s, &o, &s));
    FF_GO(ff_sum_apply(s, a->q, a->u, a->g));
    FF_GO(ff_sum_adjoint(s, a->cot, NULL, a->dq));
    FF_GO(ff_sum_check(s, a->q, a->u, a->g, 20, &a->e[0], &a->e[1]));
done:
    ff_sum_destroy(&s);
    return st;
}

static arrays part(const arrays *a, int64_t s, int64_t t, int dim, int in, int out)
{
    return (arrays){a->x + s * dim,   a->t + t * dim, a->q + s * in, a->u + t * out,   a->g + t * out * dim,
                    a->cot + t * out, a->dq + s * in, a->e,          a->corner + 9 * s};
}

static void compare(ff_mt *t, const setting *s)
{
    ff_sum_opts o = FF_SUM_OPTS_INIT;
    FF_EXPECT_OK(t, ff_sum_kernel_find(s->kernel, &o));
    const bool two = s->n_t > 0;
    const int64_t n_s = s->n_s, n_t = two ? s->n_t : n_s;
    o.dim = o.kernel == FF_SUM_LOG ? 2 : 3;
    o.rtol = 0, o.theta = 1.2, o.order = s->order, o.leaf_size = 65, o.n_densities = s->n_dens;
    if (s->order == BY_RTOL) o.rtol = 1e-3, o.leaf_size = 0;
    o.gradient = true, o.adjoint = true, o.single = s->single;
    const int in = (o.kernel == FF_SUM_STOKESLET ? 3 : o.dipole ? o.dim : 1) * s->n_dens;
    const int out = (o.kernel == FF_SUM_STOKESLET ? 3 : 1) * s->n_dens;
    ff_sum_error e[4];
    arrays a = {numbers(1, n_s * 3),       numbers(2, n_t * 3),   numbers(3, n_s * in), numbers(4, n_t * out),
                numbers(5, n_t * out * 3), numbers(6, n_t * out), numbers(7, n_s * in), e,
                numbers(11, 9 * n_s)};
    arrays b = a;
    b.e = e + 2;
    b.u = numbers(8, n_t * out), b.g = numbers(9, n_t * out * 3), b.dq = numbers(10, n_s * in);
    FF_EXPECT_OK(t, generate(s->generator, 5, n_s, o.dim, a.x));
    FF_EXPECT_OK(t, generate(s->generator, 6, n_t, o.dim, a.t));
    for (int64_t i = 0; i < 9 * n_s; i++) a.corner[i] = a.x[i / 9 * 3 + i % 3] + 0.05 * a.corner[i];
    o.exact_within = s->triangles ? 3 : 0;
    FF_EXPECT_OK(t, run(ff_comm_self(), &o, two, &a, n_s, n_t));
    const int64_t s0 = home(n_s, t->rank, t->size), s1 = home(n_s, t->rank + 1, t->size);
    const int64_t t0 = home(n_t, t->rank, t->size), t1 = home(n_t, t->rank + 1, t->size);
    const arrays mine = part(&b, s0, t0, o.dim, in, out);
    FF_EXPECT_OK(t, run(t->world, &o, two, &mine, s1 - s0, t1 - t0));
    const size_t real = sizeof(double);
    FF_EXPECT(t, memcmp(a.u + t0 * out, b.u + t0 * out, (size_t)((t1 - t0) * out) * real) == 0,
              "%s %s: values", s->kernel, s->generator);
    FF_EXPECT(
        t,
        memcmp(a.g + t0 * out * o.dim, b.g + t0 * out * o.dim, (size_t)((t1 - t0) * out * o.dim) * real) == 0,
        "%s %s: gradients", s->kernel, s->generator);
    FF_EXPECT(t, memcmp(a.dq + s0 * in, b.dq + s0 * in, (size_t)((s1 - s0) * in) * real) == 0,
              "%s %s: adjoint", s->kernel, s->generator);
    FF_EXPECT(t, memcmp(e, e + 2, 2 * sizeof *e) == 0, "%s %s: errors of a sample", s->kernel, s->generator);
    double *const owned[] = {a.x, a.t, a.q, a.u, a.g, a.cot, a.dq, b.u, b.g, b.dq, a.corner};
    for (int i = 0; i < 11; i++) free(owned[i]);
}

static void same_bits_on_any_number_of_ranks(void **state)
{
    ff_mt *t = *state;
    for (int i = 0; i < N_SETTINGS; i++) compare(t, &settings[i]);
    ff_mt_verdict(t);
}

/* Half of the targets lie among the sources, the others far away: with equal counts one rank of two has all the work. The
 * values are those of one process. */
static void work_is_balanced(void **state)
{
    enum { N = 10000 };
    ff_mt *t = *state;
    ff_sum *s = NULL;
    ff_sum_opts o = FF_SUM_OPTS_INIT;
    double *x = numbers(12, 3 * N), *targets = numbers(13, 3 * N), *q = numbers(14, N), *u = numbers(15, N),
           *v = numbers(16, N), imbalance = 0;
    const int64_t first = home(N, t->rank, t->size), n = home(N, t->rank + 1, t->size) - first;
    FF_EXPECT_OK(t, ff_generate("uniform", 5, 0, N, 3, x));
    FF_EXPECT_OK(t, ff_generate("uniform", 6, 0, N, 3, targets));
    for (int64_t i = 0; i < N / 2; i++) targets[3 * i] += 50;
    FF_EXPECT_OK(t, ff_sum_create(targets, N, x, N, &o, &s));
    FF_EXPECT_OK(t, ff_sum_apply(s, q, u, NULL));
    ff_sum_destroy(&s);
    FF_EXPECT_OK(t, ff_sum_create_dist(t->world, targets + 3 * first, n, x + 3 * first, n, &o, &s));
    FF_EXPECT_OK(t, ff_sum_apply(s, q + first, v + first, NULL));
    FF_EXPECT_OK(t, ff_sum_imbalance(s, &imbalance));
    ff_sum_destroy(&s);
    if (t->rank == 0) print_message("largest work of a rank %.3f of the mean\n", imbalance);
    /* a group of targets is 1/64 of the work */
    FF_EXPECT(t, imbalance >= 1 && imbalance <= 1 + t->size / 32.0, "imbalance %g", imbalance);
    FF_EXPECT(t, memcmp(u + first, v + first, (size_t)n * sizeof *u) == 0, "values after a cut by work");
    double *const owned[] = {x, targets, q, u, v};
    for (int i = 0; i < 5; i++) free(owned[i]);
    ff_mt_verdict(t);
}

/* A leaf size that follows from how all points lie is that of one process, and so are the values. */
static void leaves_by_shape(void **state)
{
    enum { N = 70000 };
    ff_mt *t = *state;
    ff_sum *s = NULL;
    ff_sum_info info;
    ff_sum_opts o = FF_SUM_OPTS_INIT;
    double *x = numbers(12, 3 * N), *q = numbers(14, N), *u = numbers(15, N), *v = numbers(16, N);
    const int64_t first = home(N, t->rank, t->size), n = home(N, t->rank + 1, t->size) - first;
    FF_EXPECT_OK(t, ff_generate("sphere", 5, 0, N, 3, x));
    FF_EXPECT_OK(t, ff_sum_create(NULL, 0, x, N, &o, &s));
    FF_EXPECT_OK(t, ff_sum_apply(s, q, u, NULL));
    ff_sum_destroy(&s);
    FF_EXPECT_OK(t, ff_sum_create_dist(t->world, NULL, 0, x + 3 * first, n, &o, &s));
    FF_EXPECT_OK(t, ff_sum_apply(s, q + first, v + first, NULL));
    ff_sum_get_info(s, &info);
    ff_sum_destroy(&s);
    FF_EXPECT(t, info.leaf_size == 96, "leaf %d", info.leaf_size);
    FF_EXPECT(t, memcmp(u + first, v + first, (size_t)n * sizeof *u) == 0, "values with larger leaves");
    double *const owned[] = {x, q, u, v};
    for (int i = 0; i < 4; i++) free(owned[i]);
    ff_mt_verdict(t);
}

/* A bad coordinate on one rank is every rank's failure, named by its number over all ranks. */
static void a_bad_point_is_told_to_all(void **state)
{
    ff_mt *t = *state;
    double x[6] = {0.1 * t->rank, 0, 0, 1, 1, 1};
    ff_sum *s = NULL;
    char want[40];
    if (t->rank == t->size - 1) x[4] = NAN;
    (void)snprintf(want, sizeof want, "point %d: y", 2 * t->size - 1);
    FF_EXPECT(t, ff_sum_create_dist(t->world, NULL, 0, x, 2, NULL, &s) == FF_E_INPUT, "accepted");
    FF_EXPECT(t, strstr(ff_error_text(), want) != NULL, "text '%s'", ff_error_text());
    ff_sum_destroy(&s);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {FF_MT(same_bits_on_any_number_of_ranks), FF_MT(work_is_balanced),
                                          FF_MT(leaves_by_shape), FF_MT(a_bad_point_is_told_to_all)};
FF_MT_MAIN(tests)
