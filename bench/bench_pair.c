/* Processor time of the GLOBE pair kernel on one core, beside sgemm of the same core in the same run.
 *   bench_pair [repetitions]     (default 7; the best of each is reported)
 * sgemm: the better of 2048^3 and 512^3, OpenBLAS with its own choice of kernel (leave OPENBLAS_CORETYPE unset).
 * FLOP = 2 x ff_globe_pair_madds: the network of one pair after hoisting, unpadded. */
#include "ff_globe.h"
#include "ff_log.h"
#include "ff_mem.h"
#include "ff_rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef FF_HAVE_OPENBLAS
#include <cblas.h>
#endif

enum { N_SOURCE = 480, MAX_FIELD = 24 };

typedef struct bench_case {
    const char *name;
    int n_scalar, n_vector, hidden,
        n_strength; /* of a communication layer: latents and normals in, latents out */
    int n_call;
} bench_case;

/* wide: 8 + 4 latents, 2 lengths; default: 12 + 6 latents, 2 lengths (docs/theory.md, reference
 * configurations) */
static const bench_case cases[] = {{"wide", 8, 4, 256, 2, 80}, {"default", 12, 6, 64, 2, 500}};
enum { N_CASE = sizeof cases / sizeof *cases };
static const char *const isas[] = {"avx512", "avx2", "generic"};

/* Processor time of this thread: other work on a shared machine does not count. */
static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float draw(uint64_t stream, uint64_t i)
{
    return (float)(2.0 * ff_rng_uniform(1, stream, i) - 1.0);
}

#ifdef FF_HAVE_OPENBLAS
/* GFLOP/s of one sgemm of n^3 on one thread; abc: three matrices of 2048^2. */
static double sgemm_rate(float *abc, int n)
{
    float *a = abc, *b = abc + 2048 * 2048, *c = abc + 2 * 2048 * 2048;
    double t = cpu_s();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
    return 2e-9 * n * n * n / (cpu_s() - t);
}
#endif

typedef struct bench_net {
    ff_globe_shape s;
    int rank[MAX_FIELD];
    ff_globe_net_f32 *net;
    float *src, *rec, *scratch, dx[FF_GLOBE_TILE * 3], strength[FF_GLOBE_TILE], *out;
    float *rec_bar, *grad, dx_bar[FF_GLOBE_TILE * 3], strength_bar[FF_GLOBE_TILE];
} bench_net;

static ff_status bench_open(bench_net *n, const bench_case *c)
{
    float *w[4] = {0}, *b[4] = {0};
    double gscalar = 0.3;
    ff_status st = FF_OK;
    memset(n, 0, sizeof *n);
    n->s = (ff_globe_shape){.dim = 3,
                            .n_gscalar = 1,
                            .n_sscalar = c->n_scalar,
                            .n_svector = 1 + c->n_vector,
                            .n_harm = 4,
                            .n_hidden = 3,
                            .n_field = c->n_scalar + c->n_vector + c->n_strength,
                            .field_rank = n->rank,
                            .beta = 0.01,
                            .eps = 1e-8};
    for (int l = 0; l < 3; l++) n->s.hidden[l] = c->hidden;
    for (int f = 0; f < c->n_vector; f++) n->rank[c->n_scalar + f] = 1;
    for (int l = 0; l < 4; l++) {
        int n_in = l == 0 ? ff_globe_n_in(&n->s) : c->hidden,
            n_out = l == 3 ? ff_globe_n_net_out(&n->s) : c->hidden;
        FF_GO(FF_NEW(w[l], n_in * n_out));
        FF_GO(FF_NEW(b[l], n_out));
        float gain = sqrtf(3.0f / (float)n_in);
        for (int i = 0; i < n_in * n_out; i++) w[l][i] = gain * draw((uint64_t)l, (uint64_t)i);
        for (int i = 0; i < n_out; i++) b[l][i] = draw((uint64_t)l + 10, (uint64_t)i);
    }
    FF_GO(ff_globe_create_f32(&n->s, (const float *const *)w, (const float *const *)b, &gscalar, NULL, 1.0,
                              &n->net));
    size_t n_src = (size_t)ff_globe_n_source(&n->s);
    FF_GO(FF_NEW(n->src, N_SOURCE * n_src));
    FF_GO(FF_NEW(n->rec, N_SOURCE * ff_globe_record_len_f32(n->net)));
    FF_GO(ff_globe_adjoint_prepare_f32(n->net));
    FF_GO(FF_NEW(n->scratch, ff_globe_adjoint_scratch_len_f32(n->net))); /* a tile's own is shorter */
    FF_GO(FF_NEW(n->rec_bar, FF_GLOBE_TILE * ff_globe_record_len_f32(n->net)));
    FF_GO(FF_NEW0(n->grad, ff_globe_grad_len_f32(n->net)));
    FF_GO(FF_NEW(n->out, FF_GLOBE_TILE * ff_globe_n_comp(&n->s)));
    for (size_t i = 0; i < N_SOURCE * n_src; i++) n->src[i] = draw(20, i);
    for (int i = 0; i < FF_GLOBE_TILE * 3; i++) n->dx[i] = 3.0f * draw(21, (uint64_t)i);
    for (int i = 0; i < FF_GLOBE_TILE; i++) n->strength[i] = 1.0f;
done:
    for (int l = 0; l < 4; l++) {
        ff_free(w[l]);
        ff_free(b[l]);
    }
    return st;
}

static void bench_close(bench_net *n)
{
    ff_globe_destroy_f32(&n->net);
    ff_free(n->src);
    ff_free(n->rec);
    ff_free(n->scratch);
    ff_free(n->out);
    ff_free(n->rec_bar);
    ff_free(n->grad);
}

/* Seconds a pair: tiles of n pairs whose sources stand scattered among the records, as a plan's lists do. */
static double tile_time(bench_net *n, int n_pair, int n_call)
{
    size_t len = ff_globe_record_len_f32(n->net);
    double t = cpu_s();
    for (int k = 0; k < n_call; k++) {
        const float *rec[FF_GLOBE_TILE];
        for (int i = 0; i < n_pair; i++) rec[i] = n->rec + (size_t)((k * 7 + i * 131) % N_SOURCE) * len;
        ff_globe_tile_f32(n->net, n_pair, n->dx, rec, n->strength, n->out, n->scratch);
    }
    return (cpu_s() - t) / n_call / n_pair;
}

/* The same for the adjoint, which evaluates the tile once more. */
static double adjoint_time(bench_net *n, int n_call)
{
    size_t len = ff_globe_record_len_f32(n->net);
    double t = cpu_s();
    for (int k = 0; k < n_call; k++) {
        const float *rec[FF_GLOBE_TILE];
        for (int i = 0; i < FF_GLOBE_TILE; i++)
            rec[i] = n->rec + (size_t)((k * 7 + i * 131) % N_SOURCE) * len;
        ff_globe_tile_adjoint_f32(n->net, FF_GLOBE_TILE, n->dx, rec, n->strength, n->out, n->rec_bar,
                                  n->strength_bar, n->dx_bar, n->grad, n->scratch);
    }
    return (cpu_s() - t) / n_call / FF_GLOBE_TILE;
}

static double record_time(bench_net *n)
{
    double t = cpu_s();
    ff_globe_records_f32(n->net, N_SOURCE, n->src, n->rec);
    return (cpu_s() - t) / N_SOURCE;
}

static ff_status bench(const bench_case *c, const char *isa, int n_rep)
{
    bench_net n;
    double pair = 1e9, one = 1e9, record = 1e9, back = 1e9, sgemm = 0.0;
    ff_status st = FF_OK;
#ifdef FF_HAVE_OPENBLAS
    float *a = ff_mem_alloc0(3 * 2048 * 2048, sizeof *a);
    if (a == NULL) return FF_E_MEM;
    openblas_set_num_threads(1);
#endif
    FF_GO(bench_open(&n, c));
    int n_call = strcmp(isa, "generic") == 0 ? c->n_call / 8 : c->n_call;
    for (int k = 0; k < n_rep; k++) { /* in turn, so that all see the same neighbours on the machine */
        record = fmin(record, record_time(&n));
        pair = fmin(pair, tile_time(&n, FF_GLOBE_TILE, n_call));
        one = fmin(one, tile_time(&n, 1, n_call));
        back = fmin(back, adjoint_time(&n, n_call / 4));
#ifdef FF_HAVE_OPENBLAS
        sgemm = fmax(sgemm, sgemm_rate(a, 2048));
        for (int i = 0; i < 20; i++)
            sgemm = fmax(sgemm, sgemm_rate(a, 512)); /* short: finds a quiet moment */
#endif
    }
    double rate = 2e-9 * (double)ff_globe_pair_madds(&n.s) / pair;
    ff_print("%-8s %-8s %7.3f us/pair  %6.1f GFLOP/s  sgemm %6.1f  %5.1f %%   1-pair tile %7.3f us  record "
             "%7.3f us  adjoint %7.3f us (%.2f of a pair)\n",
             c->name, isa, 1e6 * pair, rate, sgemm, sgemm > 0.0 ? 100.0 * rate / sgemm : 0.0, 1e6 * one,
             1e6 * record, 1e6 * back, back / pair);
done:
    bench_close(&n);
#ifdef FF_HAVE_OPENBLAS
    ff_free(a);
#endif
    return st;
}

int main(int argc, char **argv)
{
    int n_rep = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 7;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (ff_globe_set_isa(isas[i]) != FF_OK) {
            ff_warn("%s", ff_error_text());
            ff_error_clear();
            continue;
        }
        for (int c = 0; c < N_CASE; c++) {
            ff_status st = bench(&cases[c], isas[i], n_rep > 0 ? n_rep : 7);
            if (st != FF_OK) {
                ff_warn("%s", ff_error_text());
                return ff_exit_code(st);
            }
        }
    }
    return 0;
}
