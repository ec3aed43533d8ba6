/* Fields, patches, and the last step of every reader. */
#include "ff_test_mesh.h"

#include "ff_builder.h"

#include <math.h>

/* Triangles (3 i, 3 i + 1, 3 i + 2) on points with coordinates 0, 1, 2, ... */
static ff_mesh *triangles(int64_t n)
{
    ff_builder b;
    ff_error_clear();
    assert_int_equal(ff_builder_begin(&b, 3), FF_OK);
    for (int64_t i = 0; i < 3 * n; i++) {
        double x[3] = {(double)(3 * i), (double)(3 * i + 1), (double)(3 * i + 2)};
        assert_int_equal(ff_builder_point(&b, x), FF_OK);
    }
    for (int64_t c = 0; c < n; c++) {
        int64_t ids[3] = {3 * c, 3 * c + 1, 3 * c + 2};
        assert_int_equal(ff_builder_cell(&b, ids, 3), FF_OK);
    }
    return ff_builder_take(&b);
}

static void fields_are_found_by_name_and_names_are_unique(void **state)
{
    (void)state;
    ff_field_set s = {0};
    double *a = ff_mem_alloc0(6, sizeof *a), *b = ff_mem_alloc0(2, sizeof *b),
           *c = ff_mem_alloc0(2, sizeof *c);
    a[5] = 7;
    ff_error_clear();
    assert_int_equal(ff_field_set_add(&s, "U", 3, 2, &a), FF_OK);
    assert_int_equal(ff_field_set_add(&s, "p", 1, 2, &b), FF_OK);
    assert_null(a);
    ff_test_refused(ff_field_set_add(&s, "U", 1, 2, &c), "\"U\" occurs twice");
    assert_null(c);
    assert_int_equal(s.n, 2);
    const ff_field *f = ff_field_set_find(&s, "U");
    assert_true(f != NULL && f->n_comp == 3 && f->value[5] == 7);
    assert_null(ff_field_set_find(&s, "u"));
    ff_field_set_free(&s);
    assert_int_equal(s.n, 0);
}

static void patches_appear_with_their_first_cell_and_merge_by_name(void **state)
{
    (void)state;
    enum { N = 3000 };
    ff_builder b;
    char name[32];
    int64_t ids[3] = {0, 0, 0};
    double x[3] = {0, 0, 0};
    assert_int_equal(ff_builder_begin(&b, 3), FF_OK);
    assert_int_equal(ff_builder_point(&b, x), FF_OK);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < N; i++) {
            (void)snprintf(name, sizeof name, "patch %d", i);
            assert_int_equal(ff_builder_patch(&b, name, strlen(name)), FF_OK);
            if (i % 3 != 0) assert_int_equal(ff_builder_cell(&b, ids, 3), FF_OK);
        }
    ff_mesh *m = ff_builder_take(&b);
    assert_int_equal(m->n_cells, 2 * (N - N / 3));
    assert_int_equal(m->n_patches, N - N / 3);
    assert_string_equal(m->patch_name[0], "patch 1");
    assert_string_equal(m->patch_name[2], "patch 4");
    for (int64_t c = 0; c < m->n_cells; c++) assert_int_equal(m->cell_patch[c], c % m->n_patches);
    ff_mesh_destroy(&m);
}

static void cell_off_appears_only_when_cells_differ(void **state)
{
    (void)state;
    ff_mesh *m = triangles(2);
    ff_read_opts opts = FF_READ_OPTS_INIT;
    int64_t n, quad[4] = {0, 1, 2, 3};
    assert_null(m->cell_off);
    assert_int_equal(ff_mesh_cell(m, 1, &n), 3);
    assert_int_equal(n, 3);
    ff_mesh_destroy(&m);

    ff_builder b;
    double x[3] = {0, 0, 0};
    assert_int_equal(ff_builder_begin(&b, 3), FF_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(ff_builder_point(&b, x), FF_OK);
    assert_int_equal(ff_builder_cell(&b, quad, 3), FF_OK);
    assert_int_equal(ff_builder_cell(&b, quad, 4), FF_OK);
    assert_int_equal(ff_builder_cell(&b, quad, 3), FF_OK);
    m = ff_builder_take(&b);
    assert_int_equal(ff_mesh_cell(m, 2, &n), 7);
    assert_int_equal(n, 3);
    assert_int_equal(ff_mesh_cell(m, 1, &n), 3);
    assert_int_equal(n, 4);
    assert_int_equal(ff_mesh_finish(m, "mem", &opts), FF_OK);
    assert_non_null(m->cell_off);
    ff_mesh_destroy(&m);

    m = triangles(2); /* one that says nothing goes */
    assert_int_equal(FF_NEW(m->cell_off, 3), FF_OK);
    for (int i = 0; i < 3; i++) m->cell_off[i] = 3 * i;
    assert_int_equal(ff_mesh_finish(m, "mem", &opts), FF_OK);
    assert_null(m->cell_off);
    ff_mesh_destroy(&m);
}

static void finish_scales_and_counts(void **state)
{
    (void)state;
    ff_mesh *m = triangles(2);
    ff_read_opts opts = {0.001, 0, false};
    assert_int_equal(ff_mesh_finish(m, "mem", &opts), FF_OK);
    assert_true(m->points[17] == 17 * 0.001);
    assert_int_equal(m->cell_begin, 0);
    assert_int_equal(m->n_cells_global, 2);
    assert_int_equal(m->n_patches, 1);
    assert_string_equal(m->patch_name[0], FF_PATCH_DEFAULT); /* the builder's, where no name was given */
    assert_int_equal(ff_mesh_set_patch(m, "hull"), FF_OK);
    assert_string_equal(m->patch_name[0], "hull");
    ff_mesh_destroy(&m);
    m = triangles(1);
    ff_free(m->patch_name[0]);
    m->n_patches = 0;
    assert_int_equal(ff_mesh_finish(m, "mem", &opts), FF_OK);
    assert_int_equal(m->n_patches, 1);
    assert_string_equal(m->patch_name[0], FF_PATCH_SINGLE);
    ff_mesh_destroy(&m);
    m = triangles(0);
    assert_int_equal(ff_mesh_finish(m, "mem", &opts), FF_OK);
    assert_int_equal(m->n_patches, 0);
    ff_mesh_destroy(&m);
}

static void refuse_finish(ff_mesh *m, double scale, ff_status code, const char *words)
{
    ff_read_opts opts = {scale, 0, false};
    ff_error_clear();
    ff_status st = ff_mesh_finish(m, "mem", &opts);
    assert_int_equal(st, code);
    ff_test_refused(st, words);
    ff_mesh_destroy(&m);
}

static void finish_refuses_what_no_solver_can_use(void **state)
{
    (void)state;
    const double bad[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) refuse_finish(triangles(1), bad[i], FF_E_ARG, "mem: scale = ");
    ff_mesh *m = triangles(2);
    m->points[7] = NAN;
    refuse_finish(m, 1, FF_E_INPUT, "mem: point 2: y = nan");
    m = triangles(2); /* squares of more leave float32 */
    m->points[8] = -2e18;
    refuse_finish(m, 1, FF_E_INPUT, "mem: point 2: z = -2e+18");
    refuse_finish(triangles(2), 1e300, FF_E_INPUT, "mem: point 0: y = 1e+300");
    m = triangles(2);
    m->points[9] = 1e300;
    refuse_finish(m, 1e10, FF_E_INPUT, "mem: point 3: x = inf");
    m = triangles(2);
    m->cell_pts[4] = 6;
    refuse_finish(m, 1, FF_E_INPUT, "mem: cell 1: point id 6, expected 0 <= id < 6");
    m = triangles(2);
    m->cell_pts[0] = -1;
    refuse_finish(m, 1, FF_E_INPUT, "mem: cell 0: point id -1");
    m = triangles(1);
    assert_int_equal(FF_NEW(m->cell_off, 2), FF_OK);
    m->cell_off[0] = 0, m->cell_off[1] = 2;
    refuse_finish(m, 1, FF_E_INPUT, "mem: cell 0 has 2 points, expected at least 3");
}

static ff_mesh *curve(double z0, double z1)
{
    ff_builder b;
    int64_t ids[2] = {0, 1};
    double x[2][3] = {{0, 0, z0}, {1, 0, z1}}, unused[3] = {5, 5, 5};
    ff_error_clear();
    assert_int_equal(ff_builder_begin(&b, 2), FF_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(ff_builder_point(&b, x[i]), FF_OK);
    assert_int_equal(ff_builder_point(&b, unused), FF_OK);
    assert_int_equal(ff_builder_cell(&b, ids, 2), FF_OK);
    return ff_builder_take(&b);
}

static void a_curve_lies_in_the_plane(void **state)
{
    (void)state;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh *m = curve(3, 3);
    assert_int_equal(ff_mesh_finish(m, "mem", &opts), FF_OK);
    for (int i = 0; i < 3; i++) assert_true(m->points[3 * i + 2] == 0);
    ff_mesh_destroy(&m);
    refuse_finish(curve(0, 0.5), 1, FF_E_INPUT, "mem: a curve with z from 0 to 0.5, expected a plane");
}

static int no_block_left(void **state)
{
    (void)state;
    return ff_mem_blocks() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(fields_are_found_by_name_and_names_are_unique, no_block_left),
        cmocka_unit_test_teardown(patches_appear_with_their_first_cell_and_merge_by_name, no_block_left),
        cmocka_unit_test_teardown(cell_off_appears_only_when_cells_differ, no_block_left),
        cmocka_unit_test_teardown(finish_scales_and_counts, no_block_left),
        cmocka_unit_test_teardown(finish_refuses_what_no_solver_can_use, no_block_left),
        cmocka_unit_test_teardown(a_curve_lies_in_the_plane, no_block_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
