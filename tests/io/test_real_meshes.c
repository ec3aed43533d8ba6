/* Files made by others, against figures measured by independent readers (../shared/meshes; absent: skipped).
 */
#include "ff_test_mesh.h"

#include "ff_timer.h"

#include <math.h>

#define FOLDER FF_SOURCE_DIR "/../shared/meshes/"

enum { N_FILES = 19 };

static bool is_ours(const char *file)
{
    return strstr(file, ".stl") != NULL || strstr(file, ".STL") != NULL || strstr(file, ".obj") != NULL ||
           strstr(file, ".ply") != NULL || strcmp(file, "tank3D") == 0 || strstr(file, ".msh") != NULL ||
           strstr(file, ".bdf") != NULL || strstr(file, ".su2") != NULL || strstr(file, ".cgns") != NULL;
}

/* Splits a line at commas in place; the last column takes the rest. */
static int split(char *line, char **col, int max)
{
    int n = 0;
    line[strcspn(line, "\r\n")] = 0;
    for (char *p = line; p != NULL && n < max; n++) {
        col[n] = p;
        p = n + 1 < max ? strchr(p, ',') : NULL;
        if (p != NULL) *p++ = 0;
    }
    return n;
}

/* Text areas of other readers agree to 1e-8 (README of the meshes); we ask for 1e-9 of the column's 12
 * digits. */
static void same(const char *file, const char *what, double got, double want, double tol)
{
    if (!(fabs(got - want) <= tol))
        fail_msg("%s: %s = %.12g, expected %.12g within %.3g", file, what, got, want, tol);
}

static void same_count(const char *file, const char *what, int64_t got, const char *want)
{
    if (got != atoll(want)) fail_msg("%s: %s = %lld, expected %s", file, what, (long long)got, want);
}

/* col: columns of expected.csv. */
static void check_row(char **col, const ff_mesh *m, const ff_mesh_stats *s)
{
    const char *f = col[0];
    double area = strcmp(f, "wallhole.obj") == 0 ? 721.421356237 : atof(col[5]);
    same_count(f, "points", s->points, col[2]);
    same_count(f, "cells", s->cells, col[3]);
    same_count(f, "triangles", s->triangles, col[4]);
    same(f, "area", s->area, area, 1e-9 * area);
    for (int k = 0; k < 3; k++) {
        same(f, "box min", s->lo[k], atof(col[6 + 2 * k]), 1e-10 * fabs(s->lo[k]));
        same(f, "box max", s->hi[k], atof(col[7 + 2 * k]), 1e-10 * fabs(s->hi[k]));
    }
    same_count(f, "zero_area_cells", s->zero_area_cells, col[12]);
    same_count(f, "duplicate_points", s->duplicate_points, col[13]);
    same_count(f, "patches", m->n_patches, col[14]);
}

/* col: columns of expected_extra.csv. */
static void check_extra(char **col, const ff_mesh_stats *s)
{
    const char *f = col[0];
    same_count(f, "distinct points", s->points - s->duplicate_points, col[1]);
    same_count(f, "unused_points", s->unused_points, col[2]);
    same(f, "area_min", s->area_min, atof(col[3]), 1e-9 * s->area_max);
    if (strcmp(f, "wallhole.obj") != 0) /* the column is that of a fan, whose triangles overlap here */
        same(f, "area_max", s->area_max, atof(col[4]), 1e-9 * s->area_max);
    for (int k = 0; k < 3; k++) /* closed: rounding only, so relative to the whole area */
        same(f, "vector area", s->vector_area[k], atof(col[12 + k]), 1e-11 * s->area);
    same_count(f, "open_edges", s->open_edges, col[15]);
    same_count(f, "nonmanifold_edges", s->nonmanifold_edges, col[16]);
    same_count(f, "repeated_cells", s->repeated_cells, col[17]);
    assert_int_equal(s->closed, s->open_edges == 0);
}

static void check_patches(const char *file, const ff_mesh *m)
{
    FILE *csv = fopen(FOLDER "expected_patches.csv", "r");
    char line[512], *col[4];
    int p = 0;
    double *area = ff_mem_alloc((size_t)m->n_cells, sizeof *area);
    assert_non_null(csv);
    assert_non_null(area);
    ff_mesh_cell_areas(m, area);
    while (fgets(line, sizeof line, csv) != NULL) {
        if (split(line, col, 4) < 4 || strcmp(col[0], file) != 0) continue;
        int64_t cells = 0;
        double sum = 0;
        for (int64_t c = 0; c < m->n_cells; c++)
            if ((m->cell_patch != NULL ? m->cell_patch[c] : 0) == p) sum += area[c], cells++;
        assert_true(p < m->n_patches);
        if (strcmp(m->patch_name[p], col[1]) != 0)
            fail_msg("%s: patch %d is \"%s\", expected \"%s\"", file, p, m->patch_name[p], col[1]);
        same_count(col[1], "cells", cells, col[2]);
        if (strcmp(file, "wallhole.obj") != 0) same(col[1], "area", sum, atof(col[3]), 1e-9 * sum);
        p++;
    }
    assert_int_equal(p, m->n_patches);
    ff_free(area);
    (void)fclose(csv);
}

/* Triangles add up to the cells' area. */
static void check_triangles(const char *file, const ff_mesh *m, const ff_mesh_stats *s)
{
    ff_mesh *t;
    int64_t *parent;
    ff_mesh_stats ts;
    assert_int_equal(ff_mesh_triangulate(m, &t, &parent), FF_OK);
    assert_int_equal(t->n_cells, s->triangles);
    if (s->triangles == s->cells) { /* nothing to cut: the same cells */
        assert_memory_equal(t->cell_pts, m->cell_pts, (size_t)(3 * m->n_cells) * sizeof *m->cell_pts);
        ff_mesh_destroy(&t);
        ff_free(parent);
        return;
    }
    assert_int_equal(ff_mesh_measure(t, &ts), FF_OK);
    same(file, "area of triangles", ts.area, s->area, 1e-9 * s->area);
    for (int k = 0; k < 3; k++)
        same(file, "vector area of triangles", ts.vector_area[k], s->vector_area[k], 1e-11 * s->area);
    ff_mesh_destroy(&t);
    ff_free(parent);
}

static void check_file(char **col)
{
    char path[sizeof FOLDER + 4096], line[4096], *extra[19];
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh *m = NULL;
    ff_mesh_stats s;
    (void)snprintf(path, sizeof path, FOLDER "%.400s", col[0]);
    ff_error_clear();
    double t0 = ff_now_s();
    ff_status st = ff_mesh_read(path, &opts, &m);
    double t1 = ff_now_s();
    if (strcmp(col[0], "fuze_ascii.ply") == 0) { /* its face rows contradict its header */
        ff_test_refused(st, "line 523: row 0 of face: ");
        print_message("%s: refused: %s\n", col[0], ff_error_text());
        return;
    }
    if (st != FF_OK) fail_msg("%s", ff_error_text());
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    print_message(
        "%s: read %.3f s, measured %.3f s; parts %lld, winding groups %lld, misoriented %lld, slivers %lld, "
        "volume %.6g\n",
        col[0], t1 - t0, ff_now_s() - t1, (long long)s.parts, (long long)s.winding_groups,
        (long long)s.misoriented_edges, (long long)s.sliver_cells, s.volume);
    check_row(col, m, &s);
    FILE *csv = fopen(FOLDER "expected_extra.csv", "r");
    assert_non_null(csv);
    while (fgets(line, sizeof line, csv) != NULL)
        if (split(line, extra, 19) == 19 && strcmp(extra[0], col[0]) == 0) check_extra(extra, &s);
    (void)fclose(csv);
    check_patches(col[0], m);
    check_triangles(col[0], m, &s);
    if (strcmp(col[0], "multibody.stl") == 0) assert_int_equal(s.misoriented_edges, 12); /* its README */
    ff_mesh_destroy(&m);
}

static void figures_agree(void **state)
{
    (void)state;
    FILE *csv = fopen(FOLDER "expected.csv", "r");
    char line[4096], *col[16];
    int n = 0;
    if (csv == NULL) {
        print_message("skipped: no " FOLDER "\n");
        skip();
    }
    while (fgets(line, sizeof line, csv) != NULL) {
        if (split(line, col, 16) < 15 || !is_ours(col[0])) continue;
        check_file(col);
        n++;
    }
    (void)fclose(csv);
    assert_int_equal(n, N_FILES);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(figures_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
