/* Checkpoints: what is written comes back to the bit; every failing write leaves the one before; damaged files are passed
 * over; two are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../ff_test_scratch.h"

#include "ff_checkpoint.h"
#include "ff_io.h"
#include "ff_mem.h"
#include "ff_rng.h"

#include <dirent.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { SEED = 21 };

static char scratch[64];

static const char *const json =
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0}, \"boundary_source_data_ranks\": "
    "{\"bo/dy\": {}}, "
    "\"reference_length_names\": [\"L\"], \"reference_area\": 1.5, \"n_communication_hyperlayers\": 1, "
    "\"n_latent_scalars\": 2, \"n_latent_vectors\": 1, \"hidden_layer_sizes\": [8, 5]}";

typedef struct run {
    ff_model *m;
    ff_train_state s;
} run;

static void run_make(run *r, const char *config, uint64_t seed)
{
    ff_optim_opts opts = {.muon = true, .rest = FF_REST_RADAM, .ema = 0.9};
    memset(r, 0, sizeof *r);
    assert_int_equal(ff_model_random(config, seed, &r->m), FF_OK);
    assert_int_equal(ff_optim_create(r->m, &opts, &r->s.optim), FF_OK);
    r->s.schedule = ff_schedule_start();
    r->s.best = HUGE_VAL;
}

static void run_free(run *r)
{
    ff_optim_destroy(&r->s.optim);
    ff_model_destroy(&r->m);
}

/* A step with made-up gradients: weights and every part of the state change. */
static void advance(run *r)
{
    float **g = NULL;
    double norm;
    assert_int_equal(FF_NEW0(g, r->m->n_tensors), FF_OK);
    for (int i = 0; i < r->m->n_tensors; i++) {
        assert_int_equal(FF_NEW(g[i], r->m->tensor[i].n), FF_OK);
        for (int64_t k = 0; k < r->m->tensor[i].n; k++)
            g[i][k] = (float)ff_rng_uniform(SEED, (uint64_t)(100 * r->s.step + i), (uint64_t)k) - 0.5f;
    }
    assert_int_equal(ff_optim_step(r->s.optim, r->m, g, 0.01, &norm), FF_OK);
    for (int i = 0; i < r->m->n_tensors; i++) ff_free(g[i]);
    ff_free(g);
    r->s.step++;
    r->s.seed = 7;
    r->s.schedule.smooth = 0.1 / (double)r->s.step;
    r->s.elapsed_s += 1.25;
    r->s.best = 1.0 / (double)r->s.step;
}

static void same(const run *a, const run *b)
{
    assert_int_equal(a->s.step, b->s.step);
    assert_int_equal(a->s.optim->step, b->s.optim->step);
    assert_memory_equal(&a->s.schedule, &b->s.schedule, sizeof a->s.schedule);
    assert_true(a->s.best == b->s.best && a->s.elapsed_s == b->s.elapsed_s && a->s.seed == b->s.seed);
    for (int i = 0; i < a->m->n_tensors; i++) {
        size_t n = (size_t)a->m->tensor[i].n * sizeof(float);
        assert_memory_equal(a->m->tensor[i].value, b->m->tensor[i].value, n);
        assert_memory_equal(a->s.optim->first[i], b->s.optim->first[i], n);
        assert_memory_equal(a->s.optim->ema[i], b->s.optim->ema[i], n);
        if (a->s.optim->second[i] != NULL)
            assert_memory_equal(a->s.optim->second[i], b->s.optim->second[i], n);
    }
}

static int files(void)
{
    int n = 0;
    DIR *d = opendir(".");
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

static void clear(void)
{
    DIR *d = opendir(".");
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') (void)unlink(e->d_name);
    (void)closedir(d);
}

static ff_status put(const run *r)
{
    return ff_checkpoint_write(ff_comm_self(), ".", r->m, &r->s, "deck: 1\n");
}

static ff_status get(run *r, bool *found)
{
    return ff_checkpoint_read(ff_comm_self(), ".", r->m, &r->s, found);
}

static void what_goes_in_comes_back(void **state)
{
    (void)state;
    run a, b;
    bool found = true;
    run_make(&a, json, 1);
    run_make(&b, json, 2);
    assert_int_equal(get(&b, &found), FF_OK);
    assert_false(found);
    for (int k = 0; k < 4; k++) {
        advance(&a);
        assert_int_equal(put(&a), FF_OK);
    }
    assert_int_equal(files(), 2);
    assert_int_equal(get(&b, &found), FF_OK);
    assert_true(found);
    same(&a, &b);
    ff_model *read = NULL; /* a model file as well */
    assert_int_equal(ff_model_read(ff_comm_self(), "step_0000000004.h5", &read), FF_OK);
    assert_memory_equal(read->tensor[0].value, a.m->tensor[0].value,
                        (size_t)a.m->tensor[0].n * sizeof(float));
    assert_string_equal(read->tensor[0].name, a.m->tensor[0].name);
    ff_model_destroy(&read);
    clear();
    run_free(&a);
    run_free(&b);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void every_failing_write_leaves_the_one_before(void **state)
{
    (void)state;
    run a, b;
    bool found;
    int fired = 0;
    run_make(&a, json, 1);
    run_make(&b, json, 2);
    advance(&a);
    assert_int_equal(put(&a), FF_OK);
    int64_t step = a.s.step;
    for (int64_t n = 1;; n++) {
        ff_error_clear();
        if (n == 1) advance(&a);
        ff_io_fail_at(n);
        ff_status st = put(&a);
        bool hit = ff_io_fault_hit();
        ff_io_fail_at(0);
        if (!hit) {
            assert_int_equal(st, FF_OK);
            break;
        }
        fired++;
        assert_int_equal(st, FF_E_IO);
        assert_int_equal(files(), 1);
        assert_int_equal(get(&b, &found), FF_OK);
        assert_true(found);
        assert_int_equal(b.s.step, step);
    }
    assert_true(fired >= 3);
    assert_int_equal(get(&b, &found), FF_OK);
    same(&a, &b);
    clear();
    run_free(&a);
    run_free(&b);
}

/* The newest file cut at many lengths, and with single bytes changed in its last half: the older one is taken, or the
 * newest where the byte carries nothing; never a mixture. */
static void damaged_files_are_passed_over(void **state)
{
    (void)state;
    run a, b;
    bool found;
    struct stat info;
    run_make(&a, json, 1);
    run_make(&b, json, 2);
    advance(&a);
    assert_int_equal(put(&a), FF_OK);
    advance(&a);
    assert_int_equal(put(&a), FF_OK);
    assert_int_equal(stat("step_0000000002.h5", &info), 0);
    char *whole = NULL;
    size_t n = (size_t)info.st_size;
    assert_int_equal(FF_NEW(whole, n), FF_OK);
    FILE *f = fopen("step_0000000002.h5", "rb");
    assert_int_equal(fread(whole, 1, n, f), n);
    (void)fclose(f);
    for (int k = 0; k < 60; k++) {
        size_t at = (size_t)ff_rng_u64(SEED, 1, (uint64_t)k) % n, keep = k % 2 == 0 ? at : n;
        char was = whole[at];
        whole[at] = (char)(k % 2 == 0 ? was : was ^ 0x10);
        f = fopen("step_0000000002.h5", "wb");
        assert_int_equal(fwrite(whole, 1, keep, f), keep);
        (void)fclose(f);
        whole[at] = was;
        ff_error_clear();
        assert_int_equal(get(&b, &found), FF_OK);
        assert_true(found);
        assert_true(b.s.step == 1 || (b.s.step == 2 && k % 2 == 1));
        if (b.s.step == 2) same(&a, &b);
    }
    ff_free(whole);
    clear();
    run_free(&a);
    run_free(&b);
}

static void another_model_is_refused(void **state)
{
    (void)state;
    run a, b;
    bool found;
    char other[1024];
    run_make(&a, json, 1);
    advance(&a);
    assert_int_equal(put(&a), FF_OK);
    (void)snprintf(other, sizeof other, "%s", json);
    *strchr(other, '8') = '9';
    run_make(&b, other, 1);
    ff_error_clear();
    assert_int_equal(get(&b, &found), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "a checkpoint of another model"));
    clear();
    run_free(&a);
    run_free(&b);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* The right constructor arguments around tensors of another shape: no value is read beyond its room. */
static void other_shapes_are_refused(void **state)
{
    (void)state;
    run a, b;
    bool found;
    char other[1024], *own;
    (void)snprintf(other, sizeof other, "%s", json);
    *strstr(other, "5]}") = '9'; /* more columns in the last layers, as many rows in others */
    run_make(&a, json, 1);
    run_make(&b, other, 1);
    own = b.m->config->json;
    b.m->config->json = a.m->config->json;
    advance(&b);
    assert_int_equal(put(&b), FF_OK);
    b.m->config->json = own;
    ff_error_clear();
    assert_int_equal(get(&a, &found), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "has shape ["));
    clear();
    ff_optim_destroy(&a.s.optim); /* averages are in the file: a training without them is told so */
    advance(&b);
    assert_int_equal(put(&b), FF_OK);
    ff_optim_opts plain = {.muon = true, .rest = FF_REST_RADAM};
    assert_int_equal(ff_optim_create(b.m, &plain, &a.s.optim), FF_OK);
    run c = {b.m, a.s};
    ff_error_clear();
    assert_int_equal(get(&c, &found), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "averaged weights"));
    clear();
    run_free(&a);
    run_free(&b);
    assert_int_equal(ff_mem_blocks(), 0);
}

static int enter(void **state)
{
    (void)state;
    return ff_scratch_make(scratch) && chdir(scratch) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    return ff_scratch_remove(scratch) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_back),
        cmocka_unit_test(every_failing_write_leaves_the_one_before),
        cmocka_unit_test(damaged_files_are_passed_over),
        cmocka_unit_test(another_model_is_refused),
        cmocka_unit_test(other_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
