/* Gradients over ranks and threads equal those of one rank and thread to the bit. */
#include "ff_adj_backend.h"
#include "ff_grad.h"
#include "ff_mpi_test.h"
#include "ff_random_case.h"

#include <omp.h>

#define THREE_BC                                                                                             \
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"C_f\": 1},"                              \
    " \"boundary_source_data_ranks\": {\"body\": {}, \"floor\": {\"heat\": 0, \"u\": 1}, \"far\": {}},"      \
    " \"reference_length_names\": [\"L\", \"delta\"], \"hidden_layer_sizes\": [10, 9],"                      \
    " \"global_data_ranks\": {\"U\": 1, \"lnRe\": 0}, \"n_spherical_harmonics\": 2,"                         \
    " \"n_latent_scalars\": 3, \"n_latent_vectors\": 2, \"latent_compression_scale\": 10.0,"                 \
    " \"self_regularization_beta\": 0.01, "

static const ff_random_shape shapes[] = {
    {THREE_BC "\"theta\": 1.0, \"leaf_size\": 1}", {700, 70, 33}, -1},
    {THREE_BC "\"theta\": 1.0, \"leaf_size\": 1, \"expand_far_targets\": true}", {300, 70, 33}, 90},
    {THREE_BC "\"theta\": 1.6, \"leaf_size\": 3}", {500, 90, 40}, 111},
    {THREE_BC "\"theta\": 1.3, \"leaf_size\": 4, \"expand_far_targets\": true}", {350, 80, 20}, -1},
    {THREE_BC "\"theta\": 1.0, \"leaf_size\": 4}", {200, 0, 20}, -1}, /* an empty boundary */
    {THREE_BC "\"theta\": 0.8, \"leaf_size\": 2}",
     {5, 3, -1},
     2}, /* fewer faces than ranks; a boundary absent */
    {THREE_BC "\"theta\": 0.0, \"leaf_size\": 8}", {100, 12, 9}, 40}, /* nothing is far */
    {"{\"n_spatial_dims\": 2, \"output_field_ranks\": {\"p\": 0}, \"boundary_source_data_ranks\": {\"foil\": "
     "{\"r\": 0}}, \"reference_length_names\": [\"c\"], \"hidden_layer_sizes\": [20], \"n_latent_scalars\": "
     "2,"
     " \"n_latent_vectors\": 1, \"global_data_ranks\": {\"U\": 1, \"lnRe\": 0}, \"network_type\": \"mlp\","
     " \"theta\": 1.2, \"leaf_size\": 2}",
     {400, -1, -1},
     64},
    /* more than 64 blocks a run: bottoms of the trees differ between rank counts */
    {"{\"n_spatial_dims\": 2, \"output_field_ranks\": {\"p\": 1}, \"boundary_source_data_ranks\": {\"foil\": "
     "{\"r\": 0}}, \"reference_length_names\": [\"c\"], \"hidden_layer_sizes\": [3], \"n_latent_scalars\": 1,"
     " \"n_latent_vectors\": 1, \"n_communication_hyperlayers\": 1, \"n_spherical_harmonics\": 1,"
     " \"theta\": 1.5, \"leaf_size\": 1}",
     {6000, -1, -1},
     -1},
};

/* All values of a gradient on one rank, in a fixed order: parts that all ranks have alike, then home rows. */
typedef struct flat {
    double *v;
    int64_t n, cap;
    int64_t begin[64], comp[64]; /* of home rows: where an array begins, its components */
    int n_home;
    int64_t n_common;
} flat;

static ff_status append(flat *f, const double *v, int64_t n)
{
    FF_TRY(ff_mem_reserve(&f->v, &f->cap, f->n + n, sizeof *f->v));
    if (n > 0) memcpy(f->v + f->n, v, (size_t)n * sizeof *v);
    f->n += n;
    return FF_OK;
}

static ff_status append_rows(flat *f, const double *v, int64_t rows, int comp)
{
    f->begin[f->n_home] = f->n;
    f->comp[f->n_home++] = comp;
    return append(f, v, rows * comp);
}

static ff_status flatten(const ff_random_case *rc, const ff_grad_values *v, int64_t n_targets, flat *f)
{
    const ff_model *m = rc->model;
    const ff_model_config *c = m->config;
    for (int t = 0; t < m->n_tensors; t++) FF_TRY(append(f, v->tensor[t], m->tensor[t].n));
    FF_TRY(append(f, v->global, ff_names_comp(&c->globals, c->dim)));
    FF_TRY(append(f, v->length, c->n_len));
    f->n_common = f->n;
    FF_TRY(append_rows(f, v->points, n_targets, c->dim));
    for (int j = 0; j < rc->c->n_sources; j++) {
        const ff_source *s = &rc->c->source[j];
        FF_TRY(append_rows(f, v->field[j], s->n, ff_names_comp(&c->bc[s->bc].fields, c->dim)));
        FF_TRY(append_rows(f, v->centroid[j], s->n, c->dim));
        FF_TRY(append_rows(f, v->normal[j], s->n, c->dim));
        FF_TRY(append_rows(f, v->mu[j], s->n, 1));
    }
    f->begin[f->n_home] = f->n;
    return FF_OK;
}

/* b: NULL, or evaluates pair adjoints. */
static ff_status evaluate_on(ff_comm *comm, const ff_random_shape *s, uint64_t seed, bool f64,
                             const ff_pair_backend *b, flat *f)
{
    ff_random_case rc;
    ff_eval *e = NULL;
    ff_grad *g = NULL;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    double *out = NULL, *cot = NULL;
    memset(f, 0, sizeof *f);
    opts.f64 = f64;
    opts.keep = true;
    opts.adjoint = b;
    ff_status st = ff_agree(comm, ff_random_case_make(s, seed, comm->rank, comm->size, &rc));
    int n_comp = st == FF_OK ? ff_names_comp(&rc.model->config->outputs, rc.model->config->dim) : 1;
    if (st == FF_OK) st = ff_eval_create(comm, rc.c, &opts, &e);
    if (st == FF_OK) st = ff_grad_create(e, FF_GRAD_ALL, &g);
    int64_t n = st == FF_OK ? ff_eval_n_targets_home(e) : 0, from = rc.n_targets * comm->rank / comm->size;
    if (st == FF_OK) st = ff_agree(comm, FF_NEW(out, n * n_comp + 1));
    if (st == FF_OK) st = ff_agree(comm, FF_NEW(cot, n * n_comp + 1));
    for (int64_t k = 0; k < n * n_comp && st == FF_OK; k++)
        cot[k] = ff_rc_draw(seed, 4000, from * n_comp + k);
    if (st == FF_OK) st = ff_eval_run(e, out);
    if (st == FF_OK) st = ff_grad_run(g, cot);
    if (st == FF_OK) st = ff_agree(comm, flatten(&rc, ff_grad_get(g), n, f));
    ff_free(out);
    ff_free(cot);
    ff_grad_destroy(&g);
    ff_eval_destroy(&e);
    ff_random_case_free(&rc);
    return st;
}

static ff_status evaluate(ff_comm *comm, const ff_random_shape *s, uint64_t seed, bool f64, flat *f)
{
    return evaluate_on(comm, s, seed, f64, NULL, f);
}

/* The same by rank 0 alone; all get it. Collective */
static ff_status evaluate_alone(ff_mt *t, const ff_random_shape *s, uint64_t seed, bool f64,
                                const ff_pair_backend *b, flat *f)
{
    memset(f, 0, sizeof *f);
    ff_status st = t->rank == 0 ? evaluate_on(ff_comm_self(), s, seed, f64, b, f) : FF_OK;
    double *v = f->v;
    FF_TRY(ff_agree(t->world, st));
    FF_TRY(ff_comm_bcast(t->world, f, sizeof *f, 0));
    f->v = v;
    FF_TRY(ff_agree(t->world, t->rank == 0 ? FF_OK : FF_NEW(f->v, f->n + 1)));
    return ff_comm_bcast(t->world, f->v, (size_t)f->n * sizeof *f->v, 0);
}

static int64_t different(const double *a, const double *b, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += !(a[i] == b[i]);
    return count;
}

/* Common values, then the home rows at home here, against the one-rank run. */
static void expect_equal(ff_mt *t, const flat *many, const flat *one, const char *what)
{
    FF_EXPECT(t, many->n_common == one->n_common && many->n_home == one->n_home, "%s: shapes differ", what);
    if (!ff_mt_good(t)) return;
    int64_t bad = different(many->v, one->v, one->n_common);
    FF_EXPECT(t, bad == 0, "%s: %lld of %lld common values differ", what, (long long)bad,
              (long long)one->n_common);
    for (int k = 0; k < one->n_home; k++) {
        int64_t comp = one->comp[k], rows = comp > 0 ? (one->begin[k + 1] - one->begin[k]) / comp : 0;
        int64_t from = rows * t->rank / t->size, n = rows * (t->rank + 1) / t->size - from;
        FF_EXPECT(t, many->begin[k + 1] - many->begin[k] == n * comp, "%s: rows of array %d", what, k);
        if (!ff_mt_good(t)) return;
        bad = different(many->v + many->begin[k], one->v + one->begin[k] + from * comp, n * comp);
        FF_EXPECT(t, bad == 0, "%s: %lld of %lld values of array %d differ", what, (long long)bad,
                  (long long)(n * comp), k);
    }
}

static void gradients_do_not_know_the_rank_count(void **state)
{
    ff_mt *t = *state;
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        flat one, many;
        char what[32];
        bool f64 = k % 4 == 3;
        (void)snprintf(what, sizeof what, "shape %d", (int)k);
        FF_EXPECT_OK(t, evaluate_alone(t, &shapes[k], 60 + k, f64, NULL, &one));
        FF_EXPECT_OK(t, evaluate(t->world, &shapes[k], 60 + k, f64, &many));
        if (ff_mt_good(t)) expect_equal(t, &many, &one, what);
        ff_free(one.v);
        ff_free(many.v);
    }
    ff_mt_verdict(t);
}

/* Pair adjoints of a backend (the device's text on the host): lists, blocks and exact sums do not know the ranks. */
static void gradients_of_a_backend_do_not_know_the_rank_count(void **state)
{
    static const ff_random_shape small = {THREE_BC "\"theta\": 1.6, \"leaf_size\": 3}", {130, 40, 20}, 50};
    const ff_random_shape *const pick[] = {&small, &shapes[4], &shapes[5], &shapes[7]};
    ff_mt *t = *state;
    for (size_t k = 0; k < sizeof pick / sizeof *pick; k++) {
        flat one, many;
        char what[40];
        int prec = k % 2 == 0 ? FF_ADJ_F32 : FF_ADJ_BF16;
        ff_pair_backend b = ab_backend(&prec);
        (void)snprintf(what, sizeof what, "backend, shape %d", (int)k);
        FF_EXPECT_OK(t, evaluate_alone(t, pick[k], 80 + k, false, &b, &one));
        FF_EXPECT_OK(t, evaluate_on(t->world, pick[k], 80 + k, false, &b, &many));
        if (ff_mt_good(t)) expect_equal(t, &many, &one, what);
        ff_free(one.v);
        ff_free(many.v);
    }
    ff_mt_verdict(t);
}

static void gradients_do_not_know_the_thread_count(void **state)
{
    ff_mt *t = *state;
    flat one, three;
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    FF_EXPECT_OK(t, evaluate(t->world, &shapes[2], 5, false, &one));
    omp_set_num_threads(3);
    FF_EXPECT_OK(t, evaluate(t->world, &shapes[2], 5, false, &three));
    omp_set_num_threads(before);
    FF_EXPECT(t, one.n == three.n && different(one.v, three.v, one.n) == 0,
              "gradients of 1 and 3 threads differ");
    ff_free(one.v);
    ff_free(three.v);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {FF_MT(gradients_do_not_know_the_rank_count),
                                          FF_MT(gradients_of_a_backend_do_not_know_the_rank_count),
                                          FF_MT(gradients_do_not_know_the_thread_count)};
FF_MT_MAIN(tests)
