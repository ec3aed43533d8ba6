/* Surfaces written and read back in every format; failing writes and allocations leave no file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_bodies.h"
#include "ff_io.h"
#include "ff_mem.h"
#include "ff_mesh_write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const format[] = {"vtkhdf", "vtp", "h5", "stl", "obj", "msh", "su2"};
enum { N_FORMATS = sizeof format / sizeof *format };

static ff_mesh *body(void)
{
    const double axes[3] = {2, 1, 0.5}, centre[3] = {1, -2, 1e3};
    ff_mesh *m = NULL;
    assert_int_equal(ff_body_ellipsoid(axes, centre, 5, &m), FF_OK);
    return m;
}

static ff_mesh *read_back(const char *path)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh *m = NULL;
    if (ff_mesh_read(path, &opts, &m) != FF_OK) fail_msg("%s", ff_error_text());
    return m;
}

/* Corners of all cells, in order, equal as float32: every format keeps these to the bit. */
static void assert_same_corners(const ff_mesh *a, const ff_mesh *b)
{
    assert_int_equal(a->n_cells, b->n_cells);
    for (int64_t c = 0; c < a->n_cells; c++) {
        int64_t n, n_b, at = ff_mesh_cell(a, c, &n), at_b = ff_mesh_cell(b, c, &n_b);
        assert_int_equal(n, n_b);
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < 3; k++)
                assert_true((float)a->points[3 * a->cell_pts[at + i] + k] ==
                            (float)b->points[3 * b->cell_pts[at_b + i] + k]);
    }
}

static void triangles_come_back(void **state)
{
    (void)state;
    ff_mesh *m = body();
    for (int f = 0; f < N_FORMATS; f++) {
        char path[40];
        (void)snprintf(path, sizeof path, "mesh_write.%s", format[f]);
        assert_int_equal(ff_mesh_can_write(path), FF_OK);
        assert_int_equal(ff_mesh_write(m, path), FF_OK);
        ff_mesh *r = read_back(path);
        assert_same_corners(m, r);
        assert_int_equal(r->n_points, strcmp(format[f], "stl") == 0 ? 3 * m->n_cells : m->n_points);
        ff_mesh_destroy(&r);
        assert_int_equal(unlink(path), 0);
    }
    ff_mesh_destroy(&m);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void polygons_patches_and_doubles_survive_obj(void **state)
{
    (void)state;
    const double third = 1.0 / 3;
    const double p[] = {0, 0, 0, 1, 0, 0, 1, third, 0, 0, 1, 0, 2, 0, 1e-300};
    const int64_t c[] = {0, 1, 2, 3, 1, 4, 2}, off[] = {0, 4, 7};
    ff_mesh *m = NULL, *r = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    assert_int_equal(ff_mesh_create(&m), FF_OK);
    m->n_points = 5, m->n_cells = 2, m->n_patches = 2;
    assert_int_equal(FF_NEW(m->points, 15), FF_OK);
    assert_int_equal(FF_NEW(m->cell_pts, 7), FF_OK);
    assert_int_equal(FF_NEW(m->cell_off, 3), FF_OK);
    assert_int_equal(FF_NEW(m->patch_name, 2), FF_OK);
    assert_int_equal(FF_NEW(m->cell_patch, 2), FF_OK);
    memcpy(m->points, p, sizeof p);
    memcpy(m->cell_pts, c, sizeof c);
    memcpy(m->cell_off, off, sizeof off);
    m->patch_name[0] = ff_strdup("left side"), m->patch_name[1] = ff_strdup("rest");
    m->cell_patch[0] = 0, m->cell_patch[1] = 1;
    assert_int_equal(ff_mesh_finish(m, "test", &opts), FF_OK);
    assert_int_equal(ff_mesh_write(m, "polygons.obj"), FF_OK);
    r = read_back("polygons.obj");
    assert_same_corners(m, r);
    assert_true(r->points[7] == third && r->points[14] == 1e-300); /* float64 keeps all its digits */
    assert_int_equal(r->n_patches, 2);
    assert_string_equal(r->patch_name[0], "left_side"); /* a blank would make two groups */
    assert_string_equal(r->patch_name[1], "rest");
    assert_int_equal(r->cell_patch[1], 1);
    ff_mesh_destroy(&r);
    assert_int_equal(ff_mesh_write(m, "polygons.stl"), FF_OK); /* 2 + 1 triangles */
    r = read_back("polygons.stl");
    assert_int_equal(r->n_cells, 3);
    assert_true(r->points[3 * r->cell_pts[2] + 1] == third); /* text, as there are two patches */
    assert_int_equal(r->n_patches, 2);
    assert_string_equal(r->patch_name[0], "left side");
    assert_int_equal(r->cell_patch[1], 0);
    assert_int_equal(r->cell_patch[2], 1);
    ff_mesh_destroy(&r);
    ff_mesh_destroy(&m);
    assert_int_equal(unlink("polygons.obj") + unlink("polygons.stl"), 0);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* A quadrilateral, a concave pentagon and two triangles in patches a, b, a: elements of at most four corners. */
static void formats_of_volume_meshes(void **state)
{
    (void)state;
    const double third = 1.0 / 3;
    const double p[] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, third, 3, 0, 0, 3, 3, 0, 2, 0.5, 0, 9, 9, 9};
    const int64_t c[] = {0, 1, 2, 3, 1, 4, 5, 2, 6, 0, 1, 3, 3, 1, 2}, off[] = {0, 4, 9, 12, 15};
    const int32_t patch[] = {0, 1, 0, 1};
    static const char *const su2_names[] = {"the_left", "the___right_"}, *const names[] = {"the left",
                                                                                           "the % right="};
    ff_mesh *m = NULL, *r = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh_stats s, s_r;
    assert_int_equal(ff_mesh_create(&m), FF_OK);
    m->n_points = 8, m->n_cells = 4, m->n_patches = 2;
    assert_int_equal(FF_NEW(m->points, 24), FF_OK);
    assert_int_equal(FF_NEW(m->cell_pts, 15), FF_OK);
    assert_int_equal(FF_NEW(m->cell_off, 5), FF_OK);
    assert_int_equal(FF_NEW(m->patch_name, 2), FF_OK);
    assert_int_equal(FF_NEW(m->cell_patch, 4), FF_OK);
    memcpy(m->points, p, sizeof p);
    memcpy(m->cell_pts, c, sizeof c);
    memcpy(m->cell_off, off, sizeof off);
    memcpy(m->cell_patch, patch, sizeof patch);
    for (int i = 0; i < 2; i++) m->patch_name[i] = ff_strdup(names[i]);
    assert_int_equal(ff_mesh_finish(m, "test", &opts), FF_OK);
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    for (int f = 5; f < N_FORMATS; f++) {
        const char *path = f == 5 ? "volume.msh" : "volume.su2";
        assert_int_equal(ff_mesh_write(m, path), FF_OK);
        r = read_back(path);
        assert_int_equal(r->n_points, 8);
        assert_memory_equal(r->points, p, sizeof p); /* all digits, also of the point no cell uses */
        assert_int_equal(r->n_cells, 1 + 3 + 1 + 1);
        assert_int_equal(r->n_patches, 2);
        for (int i = 0; i < 2; i++) assert_string_equal(r->patch_name[i], f == 5 ? names[i] : su2_names[i]);
        int64_t n, at = ff_mesh_cell(r, 0, &n);
        assert_int_equal(n, 4);
        assert_memory_equal(r->cell_pts + at, c, 4 * sizeof *c);
        at = ff_mesh_cell(r, f == 5 ? 4 : 1, &n); /* SU2 holds patch after patch */
        assert_memory_equal(r->cell_pts + at, c + 9, 3 * sizeof *c);
        assert_int_equal(ff_mesh_measure(r, &s_r), FF_OK);
        assert_true(fabs(s_r.area - s.area) <= 1e-15 * s.area); /* the pentagon is flat: rounding of a sum */
        ff_mesh_destroy(&r);
        assert_int_equal(unlink(path), 0);
    }
    ff_mesh_destroy(&m);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* Fields at points and cells, one with a name that needs care, and one larger polygon whose value its triangles share. */
static void fields_survive_gmsh(void **state)
{
    (void)state;
    const double p[] = {0, 0, 0, 1, 0, 0, 2, 1, 0, 1, 2, 0, 0, 2, 0, 3, 3, 3};
    const int64_t c[] = {0, 1, 2, 3, 4, 0, 1, 5}, off[] = {0, 5, 8};
    ff_mesh *m = NULL, *r = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    assert_int_equal(ff_mesh_create(&m), FF_OK);
    m->n_points = 6, m->n_cells = 2;
    assert_int_equal(FF_NEW(m->points, 18), FF_OK);
    assert_int_equal(FF_NEW(m->cell_pts, 8), FF_OK);
    assert_int_equal(FF_NEW(m->cell_off, 3), FF_OK);
    memcpy(m->points, p, sizeof p);
    memcpy(m->cell_pts, c, sizeof c);
    memcpy(m->cell_off, off, sizeof off);
    double *u, *v;
    assert_int_equal(FF_NEW(u, 12), FF_OK);
    assert_int_equal(FF_NEW(v, 6), FF_OK);
    for (int i = 0; i < 12; i++) u[i] = i / 3.0;
    for (int i = 0; i < 6; i++) v[i] = -1e-300 * i;
    assert_int_equal(ff_field_set_add(&m->point_data, "u v", 2, 6, &u), FF_OK);
    assert_int_equal(ff_field_set_add(&m->cell_data, "a \"q\"", 3, 2, &v), FF_OK);
    assert_int_equal(ff_mesh_finish(m, "test", &opts), FF_OK);
    assert_int_equal(ff_mesh_write(m, "fields.msh"), FF_OK);
    r = read_back("fields.msh");
    assert_int_equal(r->n_cells, 4);
    const ff_field *at_points = ff_field_set_find(&r->point_data, "u v"),
                   *at_cells = ff_field_set_find(&r->cell_data, "a 'q'");
    assert_true(at_points != NULL && at_points->n_comp == 2 && at_cells != NULL && at_cells->n_comp == 3);
    assert_memory_equal(at_points->value, m->point_data.field[0].value, 12 * sizeof(double));
    for (int i = 0; i < 4; i++)
        assert_memory_equal(at_cells->value + 3 * i, m->cell_data.field[0].value + (i < 3 ? 0 : 3),
                            3 * sizeof(double));
    ff_mesh_destroy(&r);
    ff_mesh_destroy(&m);
    assert_int_equal(unlink("fields.msh"), 0);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* Triangles in two patches with a field at points and one at cells: what docs/formats.md says of each format. */
static void formats_keep_what_they_hold(void **state)
{
    (void)state;
    static const char *const with_fields[] = {"vtkhdf", "vtp", "h5", "msh"};
    const double p[] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1.0 / 3};
    const int64_t c[] = {0, 1, 2, 0, 2, 3};
    ff_mesh *m = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    double *u, *v;
    assert_int_equal(ff_mesh_create(&m), FF_OK);
    m->n_points = 4, m->n_cells = 2, m->n_patches = 2;
    assert_int_equal(FF_NEW(m->points, 12), FF_OK);
    assert_int_equal(FF_NEW(m->cell_pts, 6), FF_OK);
    assert_int_equal(FF_NEW(m->patch_name, 2), FF_OK);
    assert_int_equal(FF_NEW(m->cell_patch, 2), FF_OK);
    assert_int_equal(FF_NEW(u, 4), FF_OK);
    assert_int_equal(FF_NEW(v, 6), FF_OK);
    memcpy(m->points, p, sizeof p);
    memcpy(m->cell_pts, c, sizeof c);
    m->patch_name[0] = ff_strdup("roof"), m->patch_name[1] = ff_strdup("floor");
    m->cell_patch[0] = 0, m->cell_patch[1] = 1;
    for (int i = 0; i < 6; i++) v[i] = i / 7.0;
    for (int i = 0; i < 4; i++) u[i] = -i / 7.0;
    assert_int_equal(ff_field_set_add(&m->point_data, "at points", 1, 4, &u), FF_OK);
    assert_int_equal(ff_field_set_add(&m->cell_data, "at cells", 3, 2, &v), FF_OK);
    assert_int_equal(ff_mesh_finish(m, "test", &opts), FF_OK);
    for (int f = 0; f < N_FORMATS; f++) {
        char path[40];
        bool fields = false;
        (void)snprintf(path, sizeof path, "keeps.%s", format[f]);
        for (size_t i = 0; i < sizeof with_fields / sizeof *with_fields; i++)
            fields |= strcmp(with_fields[i], format[f]) == 0;
        assert_int_equal(ff_mesh_write(m, path), FF_OK);
        ff_mesh *r = read_back(path);
        assert_int_equal(r->n_cells, 2);
        for (int i = 0; i < 6;
             i++) /* every format here keeps all digits: STL is text, as there are two patches */
            assert_memory_equal(r->points + 3 * r->cell_pts[i], p + 3 * c[i], 3 * sizeof *p);
        assert_int_equal(r->n_patches, 2);
        for (int i = 0; i < 2; i++) {
            assert_string_equal(r->patch_name[i], m->patch_name[i]);
            assert_int_equal(r->cell_patch[i], i);
        }
        const ff_field *a = ff_field_set_find(&r->point_data, "at points"),
                       *b = ff_field_set_find(&r->cell_data, "at cells");
        assert_int_equal(a != NULL && b != NULL, fields);
        if (fields) assert_memory_equal(a->value, m->point_data.field[0].value, 4 * sizeof(double));
        if (fields) assert_memory_equal(b->value, m->cell_data.field[0].value, 6 * sizeof(double));
        ff_mesh_destroy(&r);
        assert_int_equal(unlink(path), 0);
    }
    ff_mesh_destroy(&m);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void curves_are_lines(void **state)
{
    (void)state;
    const double p[] = {0, 0, 0, 1, 0, 0, 1, 1, 0};
    const int64_t c[] = {0, 1, 1, 2, 2, 0};
    ff_mesh *m = NULL, *r = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    assert_int_equal(ff_mesh_create(&m), FF_OK);
    m->dim = 2, m->n_points = 3, m->n_cells = 3;
    assert_int_equal(FF_NEW(m->points, 9), FF_OK);
    assert_int_equal(FF_NEW(m->cell_pts, 6), FF_OK);
    memcpy(m->points, p, sizeof p);
    memcpy(m->cell_pts, c, sizeof c);
    assert_int_equal(ff_mesh_finish(m, "test", &opts), FF_OK);
    static const char *const files[] = {"curve.obj", "curve.msh", "curve.su2"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ff_mesh_write(m, files[i]), FF_OK);
        r = read_back(files[i]);
        assert_int_equal(r->dim, 2);
        assert_same_corners(m, r);
        ff_mesh_destroy(&r);
        assert_int_equal(unlink(files[i]), 0);
    }
    ff_error_clear();
    assert_int_equal(ff_mesh_write(m, "curve.stl"), FF_E_ARG);
    assert_int_not_equal(access("curve.stl", F_OK), 0);
    ff_error_clear();
    assert_int_equal(ff_mesh_can_write("curve"), FF_E_ARG);
    ff_mesh_destroy(&m);
}

/* kind 0: the n-th allocation fails, 1: the n-th write. Afterwards neither the file nor its .tmp is there. */
static void failures_leave_no_file(void **state)
{
    (void)state;
    ff_mesh *m = body();
    size_t before = ff_mem_blocks();
    for (int kind = 0; kind < 2; kind++)
        for (int f = 0; f < N_FORMATS; f++) {
            char path[40], tmp[48];
            bool fired = true;
            int64_t n = 0;
            (void)snprintf(path, sizeof path, "fault_write.%s", format[f]);
            (void)snprintf(tmp, sizeof tmp, "%s.tmp", path);
            (void)unlink(path), (void)unlink(tmp); /* of an earlier run that failed */
            while (fired) {
                ff_error_clear();
                n++;
                if (kind == 0)
                    ff_mem_fail_at(n);
                else
                    ff_io_fail_at(n);
                ff_status st = ff_mesh_write(m, path);
                fired = kind == 0 ? ff_mem_fault_hit() : ff_io_fault_hit();
                ff_mem_fail_at(0);
                ff_io_fail_at(0);
                assert_int_equal(st, !fired ? FF_OK : kind == 0 ? FF_E_MEM : FF_E_IO);
                assert_int_equal(access(path, F_OK), fired ? -1 : 0);
                assert_int_equal(access(tmp, F_OK), -1);
                assert_int_equal(ff_mem_blocks(), before);
            }
            print_message("%s: %lld %s failed in turn\n", format[f], (long long)n - 1,
                          kind == 0 ? "allocations" : "writes");
            assert_true(n > 3);
            assert_int_equal(unlink(path), 0);
        }
    ff_mesh_destroy(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(triangles_come_back),
        cmocka_unit_test(polygons_patches_and_doubles_survive_obj),
        cmocka_unit_test(formats_of_volume_meshes),
        cmocka_unit_test(fields_survive_gmsh),
        cmocka_unit_test(formats_keep_what_they_hold),
        cmocka_unit_test(curves_are_lines),
        cmocka_unit_test(failures_leave_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
