/* Several ranks on GPUs of their own or on one that they share, for tests/gpu/nccl.cmake and tools/gpu_two:
 *     gpu_nccl equal            layers and outputs of random cases by NCCL, by MPI and on one rank: the same bits; and
 *                               in chunks, where the lists do not fit
 *     gpu_nccl refused          one rank may take hardly any memory of its GPU: all ranks fail alike
 *     gpu_nccl late             one rank sleeps before an exchange through NCCL: the deadline ends the run
 *     gpu_nccl absent           one rank never comes to an exchange at all
 *     gpu_nccl host             as equal, by MPI alone
 * late and absent end as the program does: one line, then MPI_Abort; exit code 1 says that it went as expected only
 * together with that line. Without a GPU, and but for host without NCCL, all of them end with code 77. */
#include "ff_eval.h"
#include "ff_gpu_ranks.h"
#include "ff_log.h"
#include "ff_random_case.h"
#include "ff_timer.h"

#include <stdlib.h>
#include <time.h>

enum { SKIP = 77, DEADLINE_S = 5 };

#define MODEL                                                                                                \
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"C_f\": 1},"                              \
    " \"boundary_source_data_ranks\": {\"body\": {}, \"floor\": {\"heat\": 0, \"u\": 1}, \"far\": {}},"      \
    " \"reference_length_names\": [\"L\", \"delta\"], \"hidden_layer_sizes\": [32, 32],"                     \
    " \"n_latent_scalars\": 3, \"n_latent_vectors\": 2, \"latent_compression_scale\": 10.0,"                 \
    " \"self_regularization_beta\": 0.01, "

static const ff_random_shape shapes[] = {
    {MODEL "\"theta\": 1.0, \"leaf_size\": 1, \"expand_far_targets\": true}", {9000, 700, 330}, -1},
    {MODEL "\"theta\": 1.6, \"leaf_size\": 3}", {7000, 900, 40}, 1111},
    {MODEL "\"theta\": 1.0, \"leaf_size\": 4}", {3000, 0, 20}, -1}, /* an empty boundary */
    {MODEL "\"theta\": 0.8, \"leaf_size\": 2}", {1, 3, -1}, 2},     /* a rank without targets */
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, SEED = 77 };

typedef struct rows {
    double *v;
    int64_t n, cap, n_calls;
    int64_t nap_after; /* calls until this rank sleeps; 0: never */
} rows;

static void nap(double seconds)
{
    (void)nanosleep(&(struct timespec){.tv_sec = (time_t)seconds}, NULL);
}

static ff_status keep(void *ctx, int layer, int source, int64_t n_home, const double *v)
{
    rows *r = ctx;
    (void)source;
    int64_t n = n_home * (layer < 2 ? 11 : 4); /* 3 latents, 2 vectors, 2 strengths; C_p and C_f */
    FF_TRY(ff_mem_reserve(&r->v, &r->cap, r->n + n + 1, sizeof *r->v));
    if (n > 0) memcpy(r->v + r->n, v, (size_t)n * sizeof *v);
    r->n += n;
    if (++r->n_calls == r->nap_after) nap(120);
    return FF_OK;
}

/* All rows that stand at home here, layer by layer, and the outputs. */
static ff_status evaluate(ff_comm *comm, const ff_pair_backend *b, const ff_random_shape *s, rows *r)
{
    ff_random_case rc;
    ff_eval *e = NULL;
    double *out = NULL;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.backend = b;
    opts.device_only = true;
    opts.layer = keep;
    opts.ctx = r;
    ff_status st = ff_agree(comm, ff_random_case_make(s, SEED, comm->rank, comm->size, &rc));
    if (st == FF_OK) st = ff_eval_create(comm, rc.c, &opts, &e);
    if (st == FF_OK) st = ff_agree(comm, FF_NEW(out, ff_eval_n_targets_home(e) * 4 + 1));
    if (st == FF_OK) st = ff_eval_run(e, out);
    if (st == FF_OK) st = keep(r, 2, -1, ff_eval_n_targets_home(e), out);
    if (st == FF_OK && comm->size > 1) {
        const ff_eval_stats *q = ff_eval_get_stats(e);
        printf("  %s: %lld bytes sent, exchange %.3f ms, waited for %.3f ms\n",
               b->device_comm != NULL ? b->device_comm->name : "host", (long long)q->bytes_sent,
               1e3 * q->t_exchange_s, 1e3 * q->t_wait_s);
    }
    ff_free(out);
    ff_eval_destroy(&e);
    ff_random_case_free(&rc);
    return st;
}

/* This rank's share of the rows of one rank's run, call by call. */
static bool same_share(const ff_mt *t, const ff_random_shape *s, const rows *many, const rows *one)
{
    int64_t at_many = 0, at_one = 0;
    for (int call = 0; at_one < one->n; call++) {
        int comp = 11;
        int64_t n = 0, n_bc = 0;
        for (int k = 0; k < 3; k++) n_bc += s->n_faces[k] >= 0;
        if (call < 2 * n_bc) {
            for (int k = 0, left = call % (int)n_bc; k < 3; k++)
                if (s->n_faces[k] >= 0 && left-- == 0) n = s->n_faces[k];
        } else {
            n = s->n_targets >= 0 ? s->n_targets : s->n_faces[0];
            comp = 4;
        }
        int64_t from = n * t->rank / t->size, mine = n * (t->rank + 1) / t->size - from;
        if (at_many + mine * comp > many->n || at_one + n * comp > one->n) return false;
        if (mine > 0 && memcmp(many->v + at_many, one->v + at_one + from * comp,
                               (size_t)(mine * comp) * sizeof(double)) != 0)
            return false;
        at_many += mine * comp;
        at_one += n * comp;
    }
    return at_many == many->n;
}

/* nccl NULL: by MPI alone */
static void compare(ff_mt *t, ff_pair_backend *b, const ff_device_comm *nccl, const ff_random_shape *s,
                    const char *what)
{
    rows one = {0}, by_mpi = {0}, by_nccl = {0};
    printf("%s\n", what);
    FF_EXPECT_OK(t, evaluate(ff_comm_self(), b, s, &one));
    b->device_comm = NULL;
    FF_EXPECT_OK(t, evaluate(t->world, b, s, &by_mpi));
    b->device_comm = nccl;
    if (nccl != NULL) FF_EXPECT_OK(t, evaluate(t->world, b, s, &by_nccl));
    FF_EXPECT(t, one.n > 0, "%s: no rows", what);
    FF_EXPECT(t, same_share(t, s, &by_mpi, &one), "%s: MPI differs from one rank", what);
    FF_EXPECT(t, nccl == NULL || same_share(t, s, &by_nccl, &one), "%s: NCCL differs from one rank", what);
    ff_free(one.v);
    ff_free(by_mpi.v);
    ff_free(by_nccl.v);
}

static void equal(ff_mt *t, ff_pair_backend *b, ff_nccl *n)
{
    char what[64];
    int64_t budget = ff_cuda_backend_budget(b);
    for (int whole = 0; whole < 2; whole++) {
        const char *trees = whole ? "whole trees" : "parts of trees";
        b->whole_bytes = whole ? INT64_MAX : 0;
        ff_cuda_backend_set_budget(b, budget);
        for (int k = 0; k < N_SHAPES; k++) {
            (void)snprintf(what, sizeof what, "%s, case %d", trees, k);
            compare(t, b, n != NULL ? ff_nccl_row(n) : NULL, &shapes[k], what);
        }
        (void)snprintf(what, sizeof what, "%s, case 0 in 160 MiB", trees);
        ff_cuda_backend_set_budget(b, INT64_C(160)
                                          << 20); /* lists in chunks, or all at once: results do not tell */
        compare(t, b, n != NULL ? ff_nccl_row(n) : NULL, &shapes[0], what);
    }
}

static void refused(ff_mt *t, ff_pair_backend *b, ff_nccl *n)
{
    rows r = {0};
    b->device_comm = ff_nccl_row(n);
    if (t->rank == t->size - 1) ff_cuda_backend_set_budget(b, 1 << 20);
    double t0 = ff_now_s();
    ff_status st = evaluate(t->world, b, &shapes[0], &r);
    FF_EXPECT(t, st == FF_E_MEM, "status %d: %s", (int)st, ff_error_text());
    FF_EXPECT(t, ff_now_s() - t0 < 30, "after %.1f s", ff_now_s() - t0);
    if (t->rank == 0) printf("refused after %.2f s: %s\n", ff_now_s() - t0, ff_error_text());
    ff_free(r.v);
    ff_error_clear();
}

/* The other ranks find out and end the job; the last rank would sleep for two minutes. */
static void lost(ff_mt *t, ff_pair_backend *b, ff_nccl *n, bool absent)
{
    rows r = {0};
    bool victim = t->rank == t->size - 1;
    double t0 = ff_now_s();
    b->device_comm = ff_nccl_row(n);
    b->deadline_s = DEADLINE_S;
    ff_nccl_set_deadline(n, DEADLINE_S);
    if (victim && absent) r.nap_after = 3; /* layer 0 has three boundaries */
    if (victim && !absent)
        ff_nccl_sleep_before(n, 4, 120); /* rows of layer 0, after two groups of geometry */
    ff_status st = evaluate(t->world, b, &shapes[0], &r);
    if (st == FF_OK || !ff_comm_lost(t->world)) {
        FF_EXPECT(t, false, "rank %d found nobody lost: status %d: %s", t->rank, (int)st, ff_error_text());
        return;
    }
    if (ff_mpi_comm_speaks(t->world))
        fprintf(stderr, "lost after %.2f s: %s\n", ff_now_s() - t0, ff_error_text());
    ff_mpi_abort(1);
}

static void run(ff_mt *t, const char *mode, ff_pair_backend *b, ff_nccl *n)
{
    if (strcmp(mode, "equal") == 0 || strcmp(mode, "host") == 0)
        equal(t, b, n);
    else if (strcmp(mode, "refused") == 0)
        refused(t, b, n);
    else
        lost(t, b, n, strcmp(mode, "absent") == 0);
}

int main(int argc, char **argv)
{
    ff_mt t = {0};
    ff_pair_backend *b = NULL;
    ff_nccl *n = NULL;
    int device = 0;
    const char *mode = argc > 1 ? argv[1] : "equal";
    if (ff_mpi_start(&argc, &argv, &t.world) != FF_OK) return 1;
    t.rank = ff_comm_rank(t.world);
    t.size = ff_comm_size(t.world);
    bool host = strcmp(mode, "host") == 0;
    if (!ff_gpu_enough(&t, !host, &device)) {
        ff_mpi_stop(&t.world);
        return SKIP;
    }
    FF_EXPECT_OK(&t, ff_agree(t.world, ff_cuda_backend_create(device, FF_CUDA_F32, &b)));
    if (t.n_failed == 0 && !host) FF_EXPECT_OK(&t, ff_nccl_create(t.world, 60, &n));
    if (t.n_failed == 0) run(&t, mode, b, n);
    bool good = ff_mt_good(&t);
    ff_nccl_destroy(&n);
    ff_cuda_backend_destroy(&b);
    ff_mpi_stop(&t.world);
    return good && ff_mem_blocks() == 0 ? 0 : 2;
}
