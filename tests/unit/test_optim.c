/* Optimisers against their formulas written out again, Muon's orthogonal updates, schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_mem.h"
#include "ff_optim.h"
#include "ff_rng.h"
#include "ff_schedule.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { SEED = 5 };

static const char *const json =
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0}, \"boundary_source_data_ranks\": "
    "{\"body\": {}}, "
    "\"reference_length_names\": [\"L\"], \"reference_area\": 1.0, \"n_communication_hyperlayers\": 1, "
    "\"n_latent_scalars\": 2, \"n_latent_vectors\": 1, \"hidden_layer_sizes\": [8, 5]}";

static ff_model *model(void)
{
    ff_model *m = NULL;
    assert_int_equal(ff_model_random(json, SEED, &m), FF_OK);
    return m;
}

static void grads_free(const ff_model *m, float **g)
{
    for (int i = 0; i < m->n_tensors; i++) ff_free(g[i]);
    ff_free(g);
}

static float **grads(const ff_model *m, uint64_t stream, double scale)
{
    float **g = NULL;
    assert_int_equal(FF_NEW0(g, m->n_tensors), FF_OK);
    for (int i = 0; i < m->n_tensors; i++) {
        assert_int_equal(FF_NEW(g[i], m->tensor[i].n), FF_OK);
        for (int64_t k = 0; k < m->tensor[i].n; k++)
            g[i][k] = (float)(scale * (ff_rng_uniform(SEED, stream * 100 + (uint64_t)i, (uint64_t)k) - 0.5));
    }
    return g;
}

/* One number followed by hand through five steps of each rule. */
static void adam_rules_follow_their_formulas(void **state)
{
    (void)state;
    for (int radam = 0; radam <= 1; radam++) {
        ff_model *m = model();
        ff_optim_opts opts = {
            .muon = false, .rest = radam ? FF_REST_RADAM : FF_REST_ADAMW, .weight_decay = 0.01};
        ff_optim *o = NULL;
        int at = 0;
        while (m->tensor[at].n_dim != 2 || strstr(m->tensor[at].name, ".network.") == NULL) at++;
        double w = (double)m->tensor[at].value[3], first = 0, second = 0, norm;
        assert_int_equal(ff_optim_create(m, &opts, &o), FF_OK);
        for (int t = 1; t <= 8; t++) {
            float **g = grads(m, (uint64_t)t, 0.1);
            double x = (double)g[at][3], lr = 0.01 * t;
            assert_int_equal(ff_optim_step(o, m, g, lr, &norm), FF_OK);
            first = 0.9 * first + 0.1 * x;
            second = 0.999 * second + 0.001 * x * x;
            double mh = first / (1 - pow(0.9, t)), vh = sqrt(second / (1 - pow(0.999, t))),
                   move = mh / (vh + 1e-8);
            if (radam) {
                double rho = 1999 - 2 * t * pow(0.999, t) / (1 - pow(0.999, t));
                double r = rho > 5 ? sqrt((rho - 4) * (rho - 2) * 1999 / (1995.0 * 1997 * rho)) : 0;
                move = rho > 5 ? mh * r / vh : mh;
                assert_true((t <= 5) == (rho <= 5));
            }
            w = w * (1 - lr * 0.01) - lr * move;
            /* the state is float32: 6e-8 of each step's terms; eps stands elsewhere in RAdam: 1e-8 / 1e-2 */
            assert_true(fabs((double)m->tensor[at].value[3] - w) < 2e-6);
            grads_free(m, g);
        }
        ff_optim_destroy(&o);
        ff_model_destroy(&m);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

/* Five Newton-Schulz steps bring singular values of any random matrix near 1 (0.68 .. 1.13 by design): x x^T has its
 * eigenvalues between their squares, so |x^T v| stays in that range for every v. */
static void muon_updates_are_nearly_orthogonal(void **state)
{
    (void)state;
    const int64_t shapes[4][2] = {{8, 40}, {40, 8}, {24, 24}, {1, 7}};
    for (int s = 0; s < 4; s++) {
        int64_t rows = shapes[s][0], cols = shapes[s][1], n = rows < cols ? rows : cols;
        float *g = NULL, *work = NULL;
        assert_int_equal(FF_NEW(g, rows * cols), FF_OK);
        assert_int_equal(FF_NEW(work, 2 * rows * cols + 2 * n * n), FF_OK);
        for (int64_t i = 0; i < rows * cols; i++)
            g[i] = (float)(1e-4 * (ff_rng_uniform(SEED, 40 + (uint64_t)s, (uint64_t)i) - 0.5));
        ff_muon_orthogonalise(g, rows, cols, work);
        for (int trial = 0; trial < 20; trial++) {
            double v[40], vv = 0, xx = 0;
            for (int64_t i = 0; i < n; i++) {
                v[i] = ff_rng_uniform(SEED, 50 + (uint64_t)trial, (uint64_t)i) - 0.5;
                vv += v[i] * v[i];
            }
            for (int64_t j = 0; j < rows + cols - n; j++) {
                double sum = 0;
                for (int64_t i = 0; i < n; i++)
                    sum += v[i] * (double)g[rows <= cols ? i * cols + j : j * cols + i];
                xx += sum * sum;
            }
            if (s != 2)
                assert_true(sqrt(xx / vv) > 0.6); /* square ones have singular values near 0 to begin with */
            assert_true(sqrt(xx / vv) < 1.3);
        }
        ff_free(g);
        ff_free(work);
    }
}

static void threads_do_not_change_a_step(void **state)
{
    (void)state;
    ff_model *m[2] = {model(), model()};
    ff_optim_opts opts = {.muon = true, .rest = FF_REST_RADAM, .weight_decay = 1e-4, .clip = 0.5, .ema = 0.9};
    double norm[2];
    for (int k = 0; k < 2; k++) {
        ff_optim *o = NULL;
        omp_set_num_threads(k == 0 ? 1 : 3);
        assert_int_equal(ff_optim_create(m[k], &opts, &o), FF_OK);
        for (int t = 0; t < 4; t++) {
            float **g = grads(m[k], (uint64_t)t, 1);
            assert_int_equal(ff_optim_step(o, m[k], g, 0.01, &norm[k]), FF_OK);
            double sum = 0; /* clipped to the limit */
            for (int i = 0; i < m[k]->n_tensors; i++)
                for (int64_t q = 0; q < m[k]->tensor[i].n; q++) sum += (double)g[i][q] * (double)g[i][q];
            assert_true(norm[k] > 0.5 && fabs(sqrt(sum) - 0.5) < 1e-6);
            grads_free(m[k], g);
        }
        assert_true(o->ema[0][0] != m[k]->tensor[0].value[0]);
        ff_optim_destroy(&o);
    }
    assert_true(norm[0] == norm[1]);
    for (int i = 0; i < m[0]->n_tensors; i++)
        assert_memory_equal(m[0]->tensor[i].value, m[1]->tensor[i].value, (size_t)m[0]->tensor[i].n * 4);
    ff_model_destroy(&m[0]);
    ff_model_destroy(&m[1]);
    omp_set_num_threads(1);
}

static void a_gradient_that_is_not_finite_is_left_out(void **state)
{
    (void)state;
    ff_model *m = model(), *same = model();
    ff_optim_opts opts = {.muon = true, .clip = 1};
    ff_optim *o = NULL;
    double norm;
    assert_int_equal(ff_optim_create(m, &opts, &o), FF_OK);
    float **g = grads(m, 1, 1);
    g[2][0] = INFINITY;
    assert_int_equal(ff_optim_step(o, m, g, 0.1, &norm), FF_OK);
    assert_int_equal(o->skipped, 1);
    assert_int_equal(o->step, 0);
    for (int i = 0; i < m->n_tensors; i++)
        assert_memory_equal(m->tensor[i].value, same->tensor[i].value, (size_t)m->tensor[i].n * 4);
    opts.ema = 1;
    ff_optim *bad = NULL;
    assert_int_equal(ff_optim_create(m, &opts, &bad), FF_E_ARG);
    grads_free(m, g);
    ff_optim_destroy(&o);
    ff_model_destroy(&m);
    ff_model_destroy(&same);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* beta2 decides how long the mean square remembers; 0 stands for the usual 0.999. */
static void the_mean_square_forgets(void **state)
{
    (void)state;
    const double beta2[3] = {0, 0.999, 0.5};
    float at[3];
    for (int k = 0; k < 3; k++) {
        ff_model *m = model();
        ff_optim_opts opts = {.rest = FF_REST_ADAMW, .beta2 = beta2[k]};
        ff_optim *o = NULL;
        double norm;
        assert_int_equal(ff_optim_create(m, &opts, &o), FF_OK);
        for (int t = 0; t < 3; t++) {
            float **g = grads(m, 1, t == 0 ? 100 : 1);
            assert_int_equal(ff_optim_step(o, m, g, 0.01, &norm), FF_OK);
            grads_free(m, g);
        }
        at[k] = o->second[0][0];
        opts.beta2 = 1;
        ff_optim *bad = NULL;
        assert_int_equal(ff_optim_create(m, &opts, &bad), FF_E_ARG);
        ff_optim_destroy(&o);
        ff_model_destroy(&m);
    }
    assert_true(at[0] == at[1]);
    /* g^2 (1 - b)(b^2 100^2 + b + 1) of both */
    assert_true(fabs((double)at[2] / (double)at[1] / (0.5 * 2501.5 / (0.001 * (0.998001e4 + 1.999))) - 1) <
                1e-4);
}

static void rates_by_step(void **state)
{
    (void)state;
    ff_schedule_state s = ff_schedule_start();
    ff_schedule_opts o = {.kind = FF_LR_COSINE, .lr = 1, .lr_end = 0.1, .warmup = 10, .steps = 111};
    assert_true(ff_schedule_rate(&o, &s, 0) == 0.1 && ff_schedule_rate(&o, &s, 9) == 1);
    assert_true(ff_schedule_rate(&o, &s, 10) == 1);
    assert_true(fabs(ff_schedule_rate(&o, &s, 60) - 0.55) < 1e-12);
    assert_true(fabs(ff_schedule_rate(&o, &s, 110) - 0.1) < 1e-12 &&
                fabs(ff_schedule_rate(&o, &s, 500) - 0.1) < 1e-12);
    o.kind = FF_LR_LINEAR;
    assert_true(ff_schedule_rate(&o, &s, 4) == 0.5 && ff_schedule_rate(&o, &s, 10) == 1);
    assert_true(fabs(ff_schedule_rate(&o, &s, 35) - 0.775) < 1e-12); /* a quarter of the way from 1 to 0.1 */
    assert_true(fabs(ff_schedule_rate(&o, &s, 110) - 0.1) < 1e-12 && ff_schedule_rate(&o, &s, 500) == 0.1);
    o = (ff_schedule_opts){
        .kind = FF_LR_PLATEAU, .lr = 1, .lr_end = 0.2, .patience = 10, .factor = 0.5, .threshold = 1e-3};
    int falls = 0;
    for (int t = 0; t < 42; t++) falls += ff_schedule_loss(&o, &s, t < 10 ? 10.0 - t : 5);
    assert_int_equal(falls, 2);
    assert_true(ff_schedule_rate(&o, &s, 42) == 0.25);
    for (int t = 0; t < 60; t++) (void)ff_schedule_loss(&o, &s, t % 5 == 0 ? (double)NAN : 5);
    assert_true(ff_schedule_rate(&o, &s, 100) == 0.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_rules_follow_their_formulas),
        cmocka_unit_test(muon_updates_are_nearly_orthogonal),
        cmocka_unit_test(threads_do_not_change_a_step),
        cmocka_unit_test(a_gradient_that_is_not_finite_is_left_out),
        cmocka_unit_test(the_mean_square_forgets),
        cmocka_unit_test(rates_by_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
