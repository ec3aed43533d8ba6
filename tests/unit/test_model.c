/* Constructor arguments, tensors, and the evaluation on one rank. */
#include "ff_eval.h"
#include "ff_integral.h"
#include "ff_random_case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#define HEAD                                                                                                 \
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"C_f\": 1},"                              \
    " \"boundary_source_data_ranks\": {\"body\": {\"flow\": {\"b\": 0, \"A\": 0}, \"u\": 1}, \"floor\": "    \
    "{}},"                                                                                                   \
    " \"reference_length_names\": [\"L\", \"delta\"], \"hidden_layer_sizes\": [12, 9],"                      \
    " \"global_data_ranks\": {\"mach\": 0, \"Re\": 0, \"g\": 1}, \"n_latent_scalars\": 3, "                  \
    "\"n_latent_vectors\": 2"

static ff_model_config *parse(const char *json)
{
    ff_model_config *c = NULL;
    ff_error_clear();
    if (ff_model_config_parse(json, "test", &c) != FF_OK) return NULL;
    return c;
}

static void names_are_dotted_and_sorted(void **state)
{
    (void)state;
    ff_model_config *c = parse(HEAD "}");
    assert_non_null(c);
    assert_string_equal(c->outputs.item[0].name, "C_f");
    assert_string_equal(c->outputs.item[1].name, "C_p");
    assert_string_equal(c->bc[0].fields.item[0].name, "flow.A"); /* upper case before lower */
    assert_string_equal(c->bc[0].fields.item[1].name, "flow.b");
    assert_string_equal(c->bc[0].fields.item[2].name, "u");
    assert_string_equal(c->globals.item[0].name, "Re");
    assert_int_equal(c->leaf_size, 1);
    assert_true(c->theta == 1.0 && c->beta == 0 && !c->expand_far);
    ff_model_config_destroy(&c);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void log_ratios_take_their_place_among_the_globals(void **state)
{
    (void)state;
    ff_model_config *c = parse(HEAD "}");
    assert_non_null(c);
    double values[5] = {5, 1, 2, 3, 0.3}, length[2] = {2, 0.5}, s[3], v[3]; /* Re, g, mach: sorted */
    assert_int_equal(ff_model_globals(c, values, length, s, v), FF_OK);
    assert_true(s[0] == 5 && s[1] == log(4.0) && s[2] == 0.3);
    assert_true(v[0] == 1 && v[1] == 2 && v[2] == 3);
    ff_model_config_destroy(&c);
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *json, *word;
    } bad[] = {
        {"[1]", "JSON"},
        {"{\"n_spatial_dims\": 3", "JSON"},
        {"{\"n_spatial_dims\": 4}", "n_spatial_dims"},
        {"{\"n_spatial_dims\": 3}", "output_field_ranks"},
        {"{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"p\": 2}}", "p"},
        {HEAD ", \"theta\": -1}", "theta"},
        {HEAD ", \"leaf_size\": 0}", "leaf_size"},
        {HEAD ", \"leaf_size\": 65}", "leaf_size"},
        {HEAD ", \"network_type\": \"rbf\"}", "network_type"},
        {HEAD ", \"network_type\": 1}", "network_type"},
        {HEAD ", \"expand_far_targets\": \"no\"}", "expand_far_targets"},
        {HEAD ", \"reference_area\": 0}", "reference_area"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_null(parse(bad[i].json));
        assert_non_null(strstr(ff_error_text(), bad[i].word));
        assert_int_equal(ff_mem_blocks(), 0);
    }
}

static void a_missing_field_says_which(void **state)
{
    (void)state;
    ff_model *model = NULL;
    ff_case *c = NULL;
    ff_mesh *mesh = NULL;
    static const double no_shift[3] = {0, 0, 0};
    assert_int_equal(ff_model_random(HEAD "}", 1, &model), FF_OK);
    assert_int_equal(ff_case_create(model, &c), FF_OK);
    assert_int_equal(ff_mesh_create(&mesh), FF_OK);
    ff_error_clear();
    assert_int_equal(ff_case_add_mesh(c, "body", mesh, no_shift), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "flow.A"));
    ff_error_clear();
    assert_int_equal(ff_case_add_mesh(c, "bodi", mesh, no_shift), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "floor"));
    mesh->dim = 2;
    ff_error_clear();
    assert_int_equal(ff_case_add_mesh(c, "floor", mesh, no_shift), FF_E_INPUT);
    ff_mesh_destroy(&mesh);
    ff_case_destroy(&c);
    ff_model_destroy(&model);
    assert_int_equal(ff_mem_blocks(), 0);
}

static const ff_random_shape exact_shape = {HEAD ", \"theta\": 0.0, \"leaf_size\": 5}", {60, 31, -1}, 23};

/* With theta 0 the tree changes nothing but the order of the sums. */
static void direct_sums_agree_with_the_run_at_theta_0(void **state)
{
    (void)state;
    ff_random_case rc;
    ff_eval *e = NULL;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    double out[23 * 4], exact[23 * 4], worst = 0, top = 0;
    int64_t pick[23];
    opts.f64 = true;
    assert_int_equal(ff_random_case_make(&exact_shape, 3, 0, 1, &rc), FF_OK);
    assert_int_equal(ff_eval_create(ff_comm_self(), rc.c, &opts, &e), FF_OK);
    assert_int_equal(ff_eval_run(e, out), FF_OK);
    for (int64_t i = 0; i < 23; i++) pick[i] = i;
    assert_int_equal(ff_eval_direct(e, pick, 23, exact), FF_OK);
    for (int i = 0; i < 23 * 4; i++) {
        worst = fmax(worst, fabs(out[i] - exact[i]));
        top = fmax(top, fabs(exact[i]));
    }
    printf("difference %.2e of %.2e: used %.3f of 1e-12 (double sums in another order)\n", worst, top,
           worst / top / 1e-12);
    assert_true(top > 0 && worst <= 1e-12 * top);
    ff_eval_destroy(&e);
    ff_random_case_free(&rc);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* The plan's error shrinks with theta: a wrong aggregate or a lost pair would leave a floor. */
static void the_far_field_converges_to_the_exact_sum(void **state)
{
    (void)state;
    static const double thetas[] = {1.0, 0.5, 0.2};
    double exact[40 * 4], out[40 * 4], before = HUGE_VAL;
    ff_random_shape shape = {HEAD ", \"theta\": 0.0, \"leaf_size\": 3}", {300, 50, -1}, 40};
    for (int k = -1; k < 3; k++) {
        ff_random_case rc;
        ff_eval *e = NULL;
        ff_eval_opts opts = FF_EVAL_OPTS_INIT;
        opts.f64 = true;
        assert_int_equal(ff_random_case_make(&shape, 4, 0, 1, &rc), FF_OK);
        if (k >= 0) rc.c->theta = thetas[k];
        assert_int_equal(ff_eval_create(ff_comm_self(), rc.c, &opts, &e), FF_OK);
        assert_int_equal(ff_eval_run(e, k < 0 ? exact : out), FF_OK);
        if (k >= 0) {
            double err = 0, top = 0;
            for (int i = 0; i < 40 * 4; i++) {
                err = fmax(err, fabs(out[i] - exact[i]));
                top = fmax(top, fabs(exact[i]));
            }
            printf("theta %.1f: error %.2e of the largest output\n", thetas[k], err / top);
            assert_true(err > 0 && err < 0.7 * before);
            before = err;
        }
        ff_eval_destroy(&e);
        ff_random_case_free(&rc);
    }
}

/* A closed surface under constant pressure feels no force; C_f alone gives its area mean. */
static void integrals_of_a_closed_box(void **state)
{
    (void)state;
    ff_random_case rc;
    ff_random_shape shape = {HEAD "}", {0, 12, -1}, 1};
    static const double corner[8][3] = {{0, 0, 0}, {2, 0, 0}, {2, 1, 0}, {0, 1, 0},
                                        {0, 0, 3}, {2, 0, 3}, {2, 1, 3}, {0, 1, 3}};
    static const int face[12][3] = {{0, 2, 1}, {0, 3, 2}, {4, 5, 6}, {4, 6, 7}, {0, 1, 5}, {0, 5, 4},
                                    {1, 2, 6}, {1, 6, 5}, {2, 3, 7}, {2, 7, 6}, {3, 0, 4}, {3, 4, 7}};
    static const double no_shift[3] = {0, 0, 0};
    ff_mesh *m = NULL;
    shape.n_faces[0] = -1;
    shape.n_faces[1] = -1;
    assert_int_equal(ff_random_case_make(&shape, 1, 0, 1, &rc), FF_OK);
    assert_int_equal(ff_mesh_create(&m), FF_OK);
    m->n_points = 8;
    m->n_cells = 12;
    assert_int_equal(FF_NEW(m->points, 24), FF_OK);
    assert_int_equal(FF_NEW(m->cell_pts, 36), FF_OK);
    memcpy(m->points, corner, sizeof corner);
    for (int i = 0; i < 36; i++) m->cell_pts[i] = face[i / 3][i % 3];
    assert_int_equal(ff_case_add_mesh(rc.c, "floor", m, no_shift), FF_OK);
    double rows[12 * 4];
    for (int i = 0; i < 12; i++) { /* C_f (0.5, 0, -1), C_p 2 */
        rows[4 * i] = 0.5;
        rows[4 * i + 1] = 0;
        rows[4 * i + 2] = -1;
        rows[4 * i + 3] = 2;
    }
    int32_t patch[12];
    for (int i = 0; i < 12; i++) patch[i] = i % 2;
    ff_integral_opts o = {.patch = patch, .n_patches = 2};
    ff_integrals q;
    assert_int_equal(ff_integrals_run(ff_comm_self(), rc.c, 0, rows, &o, &q), FF_OK);
    assert_true(q.force != NULL && q.area == 22 && q.force[0].area == 22);
    assert_true(q.mean[0] == 0.5 && q.mean[3] == 2);
    for (int d = 0; d < 3; d++)
        assert_true(q.force[0].pressure[d] == 0 && fabs(q.force[0].moment_pressure[d]) < 1e-15);
    assert_true(q.force[0].friction[0] == 11 && q.force[0].friction[2] == -22);
    assert_true(fabs(q.force[0].moment_friction[0] + 11) < 1e-14); /* (r x F)_x = y F_z, mean y 0.5 */
    for (int d = 0; d < 3; d++)                                    /* the patches make up the whole */
        assert_true(q.force[1].friction[d] + q.force[2].friction[d] == q.force[0].friction[d]);
    ff_integrals_free(&q);
    ff_mesh_destroy(&m);
    ff_random_case_free(&rc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_dotted_and_sorted),
        cmocka_unit_test(log_ratios_take_their_place_among_the_globals),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(a_missing_field_says_which),
        cmocka_unit_test(direct_sums_agree_with_the_run_at_theta_0),
        cmocka_unit_test(the_far_field_converges_to_the_exact_sum),
        cmocka_unit_test(integrals_of_a_closed_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
