/* Sums over several ranks against the same sums by one GPU alone: values, gradients, both adjoints, equal to the bit; counts
 * of pairs, errors of the check, bad input by its number over all ranks. Seed 23.
 *     gpu_sum_ranks host [--small]     payload through the host
 *     gpu_sum_ranks staged             as between devices, but by a row that copies through the host
 *     gpu_sum_ranks nccl               by NCCL
 * Each rank has all points for its own run alone, and gives a share of uneven size to that of all; rank 1 gives none.
 * Ranks share a GPU where there are too few; without one, or without NCCL, it ends with code 77. */
#include "farfield_sum.h"
#include "ff_cuda_copy.h"
#include "ff_cuda_sum.h"
#include "ff_generate.h"
#include "ff_gpu_ranks.h"
#include "ff_rng.h"
#include "ff_sum.h"
#include "ff_sum_tile.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SKIP = 77, SEED = 23, SAMPLED = 60 };

typedef struct sum_case {
    const char *generator, *kernel;
    int64_t n, n_t; /* n_t 0: the sources */
    double theta;
    int order, densities;
    bool single;
} sum_case;

static const sum_case cases[] = {
    {"uniform", "1/r", 60000, 0, 0.7, 6, 1, true},
    {"galaxies", "plummer", 40000, 0, 0.6, 4, 1, true},
    {"sphere", "yukawa", 30000, 0, 0.6, 5, 1, false},
    {"uniform", "stokeslet", 20000, 9000, 0.6, 3, 1, false},
    {"sphere", "dipole", 9000, 30000, 0.7, 4, 2, true},
    {"line", "log", 20000, 0, 0.5, 6, 1, false},
    {"point", "plummer", 9000, 0, 0.7, 3, 1, true},
    {"uniform", "1/r^k", 12000, 5000, 0, 6, 1, false},
    {"plate", "1/r", 9000, 0, 0, 6, 2, true},
    {"uniform", "1/r", 700, 100, 0.5, 6, 1, true},
    {"uniform", "1/r", 3, 0, 0.5, 6, 1, false},
    {"uniform", "1/r", 0, 50, 0.5, 6, 1, false},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Everything of one case on the host: x, xt, densities, cotangents, and results. */
enum { X, XT, Q, CV, CG, VALUE, GRAD, D_Q, D_X, D_T, N_ARRAYS };

typedef struct problem {
    sum_case c;
    ff_sum_opts o;
    int64_t n_s, n_t;
    int64_t rows[N_ARRAYS], width[N_ARRAYS];
    double *all[N_ARRAYS], *alone[N_ARRAYS];
} problem;

static bool is_target(int a, bool apart)
{
    return apart && (a == XT || a == CV || a == CG || a == VALUE || a == GRAD || a == D_T);
}

static bool make(problem *p, const sum_case *c)
{
    const ff_sum_opts init = FF_SUM_OPTS_INIT;
    *p = (problem){.c = *c, .o = init};
    if (ff_sum_kernel_find(c->kernel, &p->o) != FF_OK) return false;
    p->o.parameter = p->o.kernel == FF_SUM_PLUMMER ? 0.01 : p->o.kernel == FF_SUM_POWER ? 2.5 : 1;
    p->o.dim = p->o.kernel == FF_SUM_LOG ? 2 : 3;
    p->o.gradient = p->o.adjoint = true;
    p->o.single = c->single;
    p->o.n_densities = c->densities;
    p->o.rtol = 0;
    p->o.theta = c->theta;
    p->o.order = c->order;
    const int64_t n_in = ff_sum_opts_in(&p->o), n_out = ff_sum_opts_out(&p->o), d = p->o.dim,
                  k = c->densities;
    const int64_t width[N_ARRAYS] = {
        d, d, k * n_in, k * n_out, k * n_out * d, k * n_out, k * n_out * d, k * n_in, d, d};
    p->n_s = c->n;
    p->n_t = c->n_t > 0 ? c->n_t : c->n;
    for (int a = 0; a < N_ARRAYS; a++) {
        p->width[a] = width[a];
        p->rows[a] = is_target(a, true) ? p->n_t : p->n_s;
        if (FF_NEW0(p->all[a], p->rows[a] * width[a] + 1) != FF_OK) return false;
        if (a >= VALUE && FF_NEW0(p->alone[a], p->rows[a] * width[a] + 1) != FF_OK) return false;
        for (int64_t i = 0; i < p->rows[a] * width[a] && a < VALUE; i++)
            p->all[a][i] = 2 * ff_rng_uniform(SEED, (uint64_t)a, (uint64_t)i) - 1;
    }
    return ff_generate(c->generator, SEED, 0, p->n_s, (int)d, p->all[X]) == FF_OK &&
           ff_generate("sphere", SEED, 0, p->n_t, (int)d, p->all[XT]) == FF_OK;
}

static void drop(problem *p)
{
    for (int a = 0; a < N_ARRAYS; a++) ff_free(p->all[a]), ff_free(p->alone[a]);
}

/* Share of rank r of n rows: uneven, none of rank 1 where there are three. */
static int64_t begin_of(int64_t n, int r, int size)
{
    if (size == 3 && r > 0) return r == 3 ? n : 2 * n / 5;
    return n * r * (r + 1) / (size * (size + 1));
}

typedef struct place {
    ff_comm *comm; /* NULL: alone */
    const ff_device_comm *row;
    ff_cuda_pool *pool;
} place;

/* All calls on rows [first, first + n) of each array; results to out. */
static ff_status run(const problem *p, const place *w, int rank, int size, double *const *out,
                     ff_sum_info *info, ff_sum_error *check)
{
    ff_status st = FF_OK;
    ff_sum_cuda *s = NULL;
    double *d[N_ARRAYS] = {NULL}, l2[2];
    const bool apart = p->c.n_t > 0, stokes = p->o.kernel == FF_SUM_STOKESLET;
    int64_t first[N_ARRAYS], n[N_ARRAYS];
    void *stream = ff_cuda_pool_stream(w->pool);
    for (int a = 0; a < N_ARRAYS && st == FF_OK; a++) {
        first[a] = begin_of(p->rows[a], rank, size);
        n[a] = begin_of(p->rows[a], rank + 1, size) - first[a];
        if (!apart && (a == XT || a == D_T)) continue;
        const size_t bytes = (size_t)(n[a] * p->width[a]) * sizeof(double);
        st = ff_cuda_alloc(w->pool, bytes, &d[a]);
        if (st == FF_OK && bytes > 0)
            st = ff_cuda_copy_in(w->pool, d[a], p->all[a] + first[a] * p->width[a], bytes);
    }
    FF_GO(st);
    FF_GO(w->comm == NULL ? ff_sum_cuda_create(apart ? d[XT] : NULL, n[XT], d[X], n[X], &p->o, stream, &s)
                          : ff_sum_cuda_create_dist(w->comm, w->row, apart ? d[XT] : NULL, n[XT], d[X], n[X],
                                                    &p->o, stream, &s));
    FF_GO(ff_sum_cuda_apply(s, d[Q], d[VALUE], d[GRAD]));
    ff_sum_cuda_get_info(s, info);
    FF_GO(ff_sum_cuda_check(s, d[XT], d[X], d[Q], d[VALUE], d[GRAD], SAMPLED, &check[0], &check[1], l2));
    FF_GO(ff_sum_cuda_adjoint(s, d[CV], stokes ? NULL : d[CG], d[D_Q]));
    if (!p->o.dipole) FF_GO(ff_sum_cuda_adjoint_points(s, d[Q], d[CV], d[D_T], d[D_X]));
    for (int a = VALUE; a < N_ARRAYS; a++)
        if (d[a] != NULL && n[a] > 0)
            FF_GO(ff_cuda_copy_out(w->pool, out[a] + first[a] * p->width[a], d[a],
                                   (size_t)(n[a] * p->width[a]) * sizeof(double)));
done:
    ff_sum_cuda_destroy(&s);
    for (int a = 0; a < N_ARRAYS; a++) ff_cuda_free(w->pool, d[a]);
    return st;
}

static void compare(ff_mt *t, const problem *p, const char *what)
{
    static const char *const name[] = {"",      "",         "",          "",          "",
                                       "value", "gradient", "d_density", "d_sources", "d_targets"};
    for (int a = VALUE; a < N_ARRAYS; a++) {
        const int64_t first = begin_of(p->rows[a], t->rank, t->size) * p->width[a],
                      end = begin_of(p->rows[a], t->rank + 1, t->size) * p->width[a];
        int64_t wrong = 0, at = -1;
        for (int64_t i = first; i < end; i++)
            if (memcmp(&p->all[a][i], &p->alone[a][i], sizeof(double)) != 0 && wrong++ == 0) at = i;
        FF_EXPECT(t, wrong == 0, "%s: %s: %lld of %lld numbers differ, first %lld: %.17g, alone %.17g", what,
                  name[a], (long long)wrong, (long long)(end - first), (long long)at,
                  at < 0 ? 0 : p->all[a][at], at < 0 ? 0 : p->alone[a][at]);
    }
}

static void one_case(ff_mt *t, const place *ranks, const place *alone, const sum_case *c)
{
    problem p;
    ff_sum_info info[2] = {{0}};
    ff_sum_error check[2][2] = {{{0}}};
    char what[100];
    (void)snprintf(what, sizeof what, "%s, %s, %lld, %lld, theta %g, order %d, %s", c->generator, c->kernel,
                   (long long)c->n, (long long)c->n_t, c->theta, c->order, c->single ? "f32" : "f64");
    ff_status st = make(&p, c) ? FF_OK : FF_E_INTERNAL;
    if (st == FF_OK) st = run(&p, alone, 0, 1, p.alone, &info[0], check[0]);
    FF_EXPECT(t, st == FF_OK, "%s: alone: %s", what, ff_error_text());
    if (ff_agree(t->world, st) == FF_OK) {
        st = run(&p, ranks, t->rank, t->size, p.all, &info[1], check[1]);
        FF_EXPECT(t, st == FF_OK, "%s: %s", what, ff_error_text());
    }
    if (st == FF_OK) {
        compare(t, &p, what);
        FF_EXPECT(t, info[0].direct_pairs == info[1].direct_pairs && info[0].far_pairs == info[1].far_pairs,
                  "%s: %lld and %lld direct, %lld and %lld far pairs", what, (long long)info[0].direct_pairs,
                  (long long)info[1].direct_pairs, (long long)info[0].far_pairs,
                  (long long)info[1].far_pairs);
        FF_EXPECT(t, memcmp(check[0], check[1], sizeof check[0]) == 0, "%s: errors %g %g, alone %g %g", what,
                  check[1][0].p99, check[1][1].p99, check[0][0].p99, check[0][1].p99);
    }
    drop(&p);
}

/* The least bad coordinate of all ranks, by its number over all, on every rank. */
static void bad_input(ff_mt *t, const place *ranks)
{
    double x[30], *d_x = NULL;
    const ff_sum_opts o = FF_SUM_OPTS_INIT;
    ff_sum_cuda *s = NULL;
    for (int i = 0; i < 30; i++) x[i] = t->rank + 0.1 * i;
    if (t->rank == t->size - 1) x[3 * 4 + 2] = NAN;
    ff_status st = ff_cuda_new(ranks->pool, x, sizeof x, &d_x);
    if (ff_agree(t->world, st) != FF_OK) return;
    st = ff_sum_cuda_create_dist(t->world, ranks->row, NULL, 0, d_x, 10, &o, ff_cuda_pool_stream(ranks->pool),
                                 &s);
    char want[60];
    (void)snprintf(want, sizeof want, "sources: point %d: z is not finite", 10 * (t->size - 1) + 4);
    FF_EXPECT(t, st == FF_E_INPUT && s == NULL && strstr(ff_error_text(), want) != NULL, "status %d: %s",
              (int)st, ff_error_text());
    ff_error_clear();
    ff_cuda_free(ranks->pool, d_x);
}

/* ---- a row of device messages through the host ---- */

static ff_status staged_check(void *ctx, double waited_s)
{
    (void)ctx, (void)waited_s;
    return FF_OK;
}

static ff_status staged_exchange(void *ctx, const ff_msg *send, int n_send, const ff_msg *recv, int n_recv,
                                 void *stream)
{
    ff_comm *comm = ctx;
    ff_msg *host = NULL;
    ff_request *req = NULL;
    ff_status st = FF_NEW0(host, n_send + n_recv + 1);
    if (cudaStreamSynchronize(stream) != cudaSuccess) st = ff_fail(FF_E_INTERNAL, "staged: a stream failed");
    for (int i = 0; i < n_send + n_recv && st == FF_OK; i++) {
        char *buf = NULL;
        host[i] = i < n_send ? send[i] : recv[i - n_send];
        st = FF_NEW(buf, host[i].bytes);
        if (st == FF_OK && i < n_send &&
            cudaMemcpy(buf, host[i].buf, host[i].bytes, cudaMemcpyDeviceToHost) != cudaSuccess)
            st = ff_fail(FF_E_INTERNAL, "staged: a copy failed");
        host[i].buf = buf;
    }
    if (st == FF_OK) st = ff_comm_exchange_begin(comm, host, n_send, host + n_send, n_recv, &req);
    if (st == FF_OK) st = ff_comm_exchange_end(comm, &req);
    for (int i = 0; i < n_recv && st == FF_OK; i++)
        if (cudaMemcpyAsync(recv[i].buf, host[n_send + i].buf, recv[i].bytes, cudaMemcpyHostToDevice,
                            stream) != cudaSuccess)
            st = ff_fail(FF_E_INTERNAL, "staged: a copy failed");
    if (cudaStreamSynchronize(stream) != cudaSuccess) st = ff_fail(FF_E_INTERNAL, "staged: a stream failed");
    for (int i = 0; host != NULL && i < n_send + n_recv; i++) ff_free(host[i].buf);
    ff_free(host);
    return st;
}

/* ---- */

static void run_all(ff_mt *t, const char *mode, bool is_small, int device)
{
    ff_nccl *n = NULL;
    const ff_device_comm staged = {.name = "staged",
                                   .ctx = t->world,
                                   .comm = t->world,
                                   .exchange = staged_exchange,
                                   .check = staged_check};
    place alone = {NULL, NULL, NULL}, ranks = {t->world, NULL, NULL};
    ff_status st = ff_cuda_stream_open(device, &alone.pool);
    if (st == FF_OK) st = ff_cuda_stream_open(device, &ranks.pool);
    FF_EXPECT_OK(t, ff_agree(t->world, st));
    if (ff_mt_good(t) && strcmp(mode, "nccl") == 0) FF_EXPECT_OK(t, ff_nccl_create(t->world, 60, &n));
    if (n != NULL) ranks.row = ff_nccl_row(n);
    if (strcmp(mode, "staged") == 0) ranks.row = &staged;
    for (int i = 0; i < N_CASES && ff_mt_good(t); i++) {
        sum_case c = cases[i];
        if (is_small && i > 4 && i < 8) continue;
        if (is_small && c.n > 5000) c.n = 5000;
        if (is_small && c.n_t > 4500) c.n_t = 4500;
        one_case(t, &ranks, &alone, &c);
    }
    if (ff_mt_good(t)) bad_input(t, &ranks);
    ff_nccl_destroy(&n);
    ff_cuda_stream_close(&alone.pool);
    ff_cuda_stream_close(&ranks.pool);
}

int main(int argc, char **argv)
{
    ff_mt t = {0};
    int device = 0;
    const char *mode = argc > 1 ? argv[1] : "host";
    const bool is_small = argc > 2 && strcmp(argv[2], "--small") == 0;
    if (ff_mpi_start(&argc, &argv, &t.world) != FF_OK) return 1;
    t.rank = ff_comm_rank(t.world);
    t.size = ff_comm_size(t.world);
    if (!ff_gpu_enough(&t, strcmp(mode, "nccl") == 0, &device)) {
        ff_mpi_stop(&t.world);
        return SKIP;
    }
    if (t.rank == 0) printf("seed %d, %d ranks, %s\n", SEED, t.size, mode);
    run_all(&t, mode, is_small, device);
    bool good = ff_mt_good(&t);
    ff_mpi_stop(&t.world);
    return good && ff_mem_blocks() == 0 ? 0 : 2;
}
