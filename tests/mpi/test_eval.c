/* Evaluation over ranks equals the evaluation on one rank to the bit, layer by layer. */
#include "ff_eval.h"
#include "ff_mpi_test.h"
#include "ff_random_case.h"

#include <omp.h>

#define THREE_BC                                                                                             \
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"C_f\": 1},"                              \
    " \"boundary_source_data_ranks\": {\"body\": {}, \"floor\": {\"heat\": 0, \"u\": 1}, \"far\": {}},"      \
    " \"reference_length_names\": [\"L\", \"delta\"], \"hidden_layer_sizes\": [16, 12],"                     \
    " \"n_latent_scalars\": 3, \"n_latent_vectors\": 2, \"latent_compression_scale\": 10.0,"                 \
    " \"self_regularization_beta\": 0.01, "

static const ff_random_shape shapes[] = {
    {THREE_BC "\"theta\": 1.0, \"leaf_size\": 1, \"expand_far_targets\": true}", {900, 70, 33}, -1},
    {THREE_BC "\"theta\": 1.6, \"leaf_size\": 3}", {700, 90, 40}, 111},
    {THREE_BC "\"theta\": 1.0, \"leaf_size\": 4}", {300, 0, 20}, -1}, /* an empty boundary */
    {THREE_BC "\"theta\": 0.8, \"leaf_size\": 2}",
     {5, 3, -1},
     2}, /* fewer faces than ranks; a boundary absent */
    {THREE_BC "\"theta\": 0.0, \"leaf_size\": 8}", {150, 12, 9}, 40}, /* nothing is far */
    {"{\"n_spatial_dims\": 2, \"output_field_ranks\": {\"p\": 0}, \"boundary_source_data_ranks\": {\"foil\": "
     "{\"r\": 0}},"
     " \"reference_length_names\": [\"c\"], \"hidden_layer_sizes\": [20], \"n_latent_scalars\": 2,"
     " \"n_latent_vectors\": 1, \"global_data_ranks\": {\"U\": 1, \"lnRe\": 0}, \"network_type\": \"mlp\","
     " \"theta\": 1.2, \"leaf_size\": 2}",
     {400, -1, -1},
     64},
};

typedef struct layer_log {
    int64_t n;
    double *row; /* all layers' home rows, one after the other */
    int64_t cap;
    int64_t n_call;
    int64_t begin[32], count[32], comp[32];
} layer_log;

typedef struct run {
    layer_log log;
    double *out;
    int n_out;
    const ff_model_config *config;
    int64_t pairs;
} run;

static ff_status keep(void *ctx, int layer, int source, int64_t n_home, const double *rows)
{
    run *r = ctx;
    layer_log *l = &r->log;
    ff_name_list f;
    (void)source;
    FF_TRY(ff_model_layer_fields(r->config, layer, &f));
    int comp = ff_names_comp(&f, r->config->dim);
    int64_t n = n_home * comp;
    ff_name_list_free(&f);
    FF_TRY(ff_mem_reserve(&l->row, &l->cap, l->n + n, sizeof *l->row));
    if (n > 0) memcpy(l->row + l->n, rows, (size_t)n * sizeof *rows);
    l->begin[l->n_call] = l->n;
    l->comp[l->n_call] = comp;
    l->count[l->n_call++] = n;
    l->n += n;
    return FF_OK;
}

static ff_status evaluate(ff_comm *comm, const ff_random_shape *s, uint64_t seed, bool f64, run *r)
{
    ff_random_case rc;
    ff_eval *e = NULL;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    memset(r, 0, sizeof *r);
    opts.f64 = f64;
    opts.layer = keep;
    opts.ctx = r;
    ff_status st = ff_agree(comm, ff_random_case_make(s, seed, comm->rank, comm->size, &rc));
    if (st == FF_OK) {
        r->config = rc.model->config;
        r->n_out = ff_names_comp(&r->config->outputs, r->config->dim);
        st = ff_eval_create(comm, rc.c, &opts, &e);
    }
    if (st == FF_OK) st = ff_agree(comm, FF_NEW(r->out, ff_eval_n_targets_home(e) * r->n_out + 1));
    if (st == FF_OK) st = ff_eval_run(e, r->out);
    if (st == FF_OK) r->pairs = ff_eval_get_stats(e)->pairs;
    ff_eval_destroy(&e);
    ff_random_case_free(&rc);
    return st;
}

static void run_free(run *r)
{
    ff_free(r->log.row);
    ff_free(r->out);
}

/* Rows at home here against the same rows of the one-rank run. */
static void expect_equal(ff_mt *t, const run *many, const run *one)
{
    FF_EXPECT(t, many->log.n_call == one->log.n_call, "%lld layers, expected %lld",
              (long long)many->log.n_call, (long long)one->log.n_call);
    for (int64_t k = 0; k < many->log.n_call && k < one->log.n_call; k++) {
        int64_t comp = one->log.comp[k], rows = one->log.count[k] / comp,
                from = rows * t->rank / t->size * comp;
        int64_t n = rows * (t->rank + 1) / t->size * comp - from;
        bool same = many->log.count[k] == n && (n == 0 || memcmp(many->log.row + many->log.begin[k],
                                                                 one->log.row + one->log.begin[k] + from,
                                                                 (size_t)n * sizeof(double)) == 0);
        FF_EXPECT(t, same, "layer call %lld: rows differ from the one-rank run", (long long)k);
    }
}

static void check_shape(ff_mt *t, const ff_random_shape *s, uint64_t seed, bool f64)
{
    run one, many;
    FF_EXPECT_OK(t, evaluate(ff_comm_self(), s, seed, f64, &one));
    FF_EXPECT_OK(t, evaluate(t->world, s, seed, f64, &many));
    if (ff_mt_good(t)) {
        int64_t n = s->n_targets < 0 ? s->n_faces[0] : s->n_targets, from = n * t->rank / t->size;
        int64_t mine = n * (t->rank + 1) / t->size - from;
        expect_equal(t, &many, &one);
        FF_EXPECT(t,
                  mine == 0 || memcmp(many.out, one.out + from * one.n_out,
                                      (size_t)(mine * one.n_out) * sizeof(double)) == 0,
                  "outputs differ from the one-rank run");
        for (int64_t k = 0; k < mine * one.n_out; k++)
            FF_EXPECT(t, isfinite(many.out[k]), "output %lld is not finite", (long long)k);
    }
    run_free(&one);
    run_free(&many);
}

static void outputs_do_not_know_the_rank_count(void **state)
{
    ff_mt *t = *state;
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++)
        check_shape(t, &shapes[k], 20 + k, k % 3 == 2);
    ff_mt_verdict(t);
}

static void outputs_do_not_know_the_thread_count(void **state)
{
    ff_mt *t = *state;
    run one, two;
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    FF_EXPECT_OK(t, evaluate(t->world, &shapes[1], 5, false, &one));
    omp_set_num_threads(3);
    FF_EXPECT_OK(t, evaluate(t->world, &shapes[1], 5, false, &two));
    omp_set_num_threads(before);
    FF_EXPECT(t,
              one.log.n == two.log.n &&
                  memcmp(one.log.row, two.log.row, (size_t)one.log.n * sizeof(double)) == 0,
              "3 threads differ from 1");
    run_free(&one);
    run_free(&two);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {FF_MT(outputs_do_not_know_the_rank_count),
                                          FF_MT(outputs_do_not_know_the_thread_count)};
FF_MT_MAIN(tests)
