/* Generated surfaces: sizes, orientation, agreement with ../shared/demo/car.h5 where that is present. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_bodies.h"
#include "ff_h5.h"
#include "ff_mem.h"
#include "ff_sort.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Every directed edge occurs once and its reverse too: closed, manifold, consistently wound. Every point is
 * used. */
static void assert_closed(const ff_mesh *m)
{
    int64_t n = 3 * m->n_cells;
    uint64_t *key = NULL, *back = NULL;
    uint8_t *used = NULL;
    assert_int_equal(FF_NEW(key, n), FF_OK);
    assert_int_equal(FF_NEW(back, n), FF_OK);
    assert_int_equal(FF_NEW0(used, m->n_points), FF_OK);
    for (int64_t h = 0; h < n; h++) {
        uint64_t a = (uint64_t)m->cell_pts[h], b = (uint64_t)m->cell_pts[h % 3 == 2 ? h - 2 : h + 1];
        assert_true(a < (uint64_t)m->n_points && a != b);
        used[a] = 1;
        key[h] = a << 32 | b;
        back[h] = b << 32 | a;
    }
    assert_int_equal(ff_sort_u64(key, NULL, n), FF_OK);
    assert_int_equal(ff_sort_u64(back, NULL, n), FF_OK);
    for (int64_t h = 0; h < n; h++) {
        assert_true(key[h] == back[h]);
        assert_true(h == 0 || key[h] != key[h - 1]);
    }
    for (int64_t i = 0; i < m->n_points; i++) assert_true(used[i] == 1);
    ff_free(key);
    ff_free(back);
    ff_free(used);
}

static double volume(const ff_mesh *m)
{
    double v = 0;
    for (int64_t c = 0; c < m->n_cells; c++) {
        const double *p = m->points + 3 * m->cell_pts[3 * c], *q = m->points + 3 * m->cell_pts[3 * c + 1],
                     *r = m->points + 3 * m->cell_pts[3 * c + 2];
        v += p[0] * (q[1] * r[2] - q[2] * r[1]) + p[1] * (q[2] * r[0] - q[0] * r[2]) +
             p[2] * (q[0] * r[1] - q[1] * r[0]);
    }
    return v / 6;
}

static void ellipsoids_are_closed_and_round(void **state)
{
    (void)state;
    const double axes[3] = {2, 1, 0.5}, centre[3] = {1, -2, 3}, pi = 3.14159265358979323846;
    const int parts[] = {1, 2, 3, 7, 20};
    for (int i = 0; i < 5; i++) {
        ff_mesh *m = NULL;
        int64_t f = parts[i];
        assert_int_equal(ff_body_ellipsoid(axes, centre, parts[i], &m), FF_OK);
        assert_int_equal(m->n_cells, 20 * f * f);
        assert_int_equal(m->n_points, 10 * f * f + 2);
        assert_closed(m);
        for (int64_t k = 0; k < m->n_points; k++) {
            double s = 0;
            for (int d = 0; d < 3; d++) s += pow((m->points[3 * k + d] - centre[d]) / axes[d], 2);
            assert_true(fabs(s - 1) < 4e-6); /* float32 rounding of coordinates up to 4, axis 0.5 */
        }
        /* The inscribed polyhedron is smaller by less than 1/F^2 of the ball: 0.605 of the ball at F = 1. */
        double share = volume(m) / (4 * pi / 3 * axes[0] * axes[1] * axes[2]);
        assert_true(share < 1 && share > 1 - 1.0 / (double)(f * f));
        ff_mesh_destroy(&m);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

static void cars_have_the_sizes_of_their_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t faces;
    } row[] = {{"car:0", 20}, {"car:1", 80}, {"car:3", 1280}, {"car:n1", 20}, {"car:n5", 500}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        ff_mesh *body = NULL, *no_slip = NULL, *slip = NULL;
        assert_int_equal(ff_body_car(row[i].name, &body, &no_slip, &slip), FF_OK);
        assert_int_equal(body->n_cells, row[i].faces);
        assert_closed(body);
        assert_true(volume(body) > 0);
        assert_int_equal(no_slip->n_cells, 722);
        assert_int_equal(slip->n_points, 400);
        assert_true(slip->points[0] == -10 && no_slip->points[3 * 399] == 10 &&
                    no_slip->points[3 * 399 + 1] == 11);
        assert_true(slip->points[3 * 399] == no_slip->points[0] && no_slip->points[0] == (double)-2.339f);
        ff_mesh_destroy(&body);
        ff_mesh_destroy(&no_slip);
        ff_mesh_destroy(&slip);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

static void other_names_are_refused(void **state)
{
    (void)state;
    static const char *const name[] = {"car",
                                       "car:",
                                       "car:-1",
                                       "car:10",
                                       "car:2x",
                                       "car:n0",
                                       "car:n",
                                       "car:n-3",
                                       "boat:2",
                                       "",
                                       "car:n4001",
                                       "car: 2",
                                       "car:99999999999999999999"};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        ff_mesh *body = NULL, *no_slip = NULL, *slip = NULL;
        ff_error_clear();
        assert_int_equal(ff_body_car(name[i], &body, &no_slip, &slip), FF_E_ARG);
        assert_non_null(strstr(ff_error_text(), "expected car:S"));
        assert_true(body == NULL && no_slip == NULL && slip == NULL);
    }
}

/* Points as in the published file (float32), in the same order; cells equal. */
static void equal_to_the_published_bodies(void **state)
{
    (void)state;
    const char *path = FF_SOURCE_DIR "/../shared/demo/car.h5";
    if (access(path, R_OK) != 0) {
        print_message("skipped: %s is not here\n", path);
        skip();
    }
    ff_h5 *f = NULL;
    assert_int_equal(ff_h5_open(ff_comm_self(), path, &f), FF_OK);
    for (int s = 0; s <= 6; s += 2) {
        char name[32];
        ff_mesh *body = NULL, *a = NULL, *b = NULL;
        (void)snprintf(name, sizeof name, "car:%d", s);
        assert_int_equal(ff_body_car(name, &body, &a, &b), FF_OK);
        double *p = NULL, worst = 0;
        int64_t *c = NULL;
        assert_int_equal(FF_NEW(p, 3 * body->n_points), FF_OK);
        assert_int_equal(FF_NEW(c, 3 * body->n_cells), FF_OK);
        (void)snprintf(name, sizeof name, "/S%d/points", s);
        assert_int_equal(ff_h5_read(f, name, FF_H5_F64, 0, body->n_points, p), FF_OK);
        (void)snprintf(name, sizeof name, "/S%d/cells", s);
        assert_int_equal(ff_h5_read(f, name, FF_H5_I64, 0, body->n_cells, c), FF_OK);
        assert_memory_equal(c, body->cell_pts, (size_t)(3 * body->n_cells) * sizeof *c);
        for (int64_t i = 0; i < 3 * body->n_points; i++) worst = fmax(worst, fabs(p[i] - body->points[i]));
        /* float32 arithmetic of S subdivisions and a mean: a few ulp of coordinates up to 4 */
        print_message("car:%d: largest difference %.2g, used %.2f of 2e-6\n", s, worst, worst / 2e-6);
        assert_true(worst <= 2e-6);
        ff_free(p);
        ff_free(c);
        ff_mesh_destroy(&body);
        ff_mesh_destroy(&a);
        ff_mesh_destroy(&b);
    }
    assert_int_equal(ff_h5_close(&f), FF_OK);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    const char *const name[] = {"car:2", "car:n3"};
    for (int i = 0; i < 2; i++) {
        bool fired = true;
        for (int64_t n = 1; fired; n++) {
            ff_mesh *body = NULL, *a = NULL, *b = NULL;
            ff_mem_fail_at(n);
            ff_status st = ff_body_car(name[i], &body, &a, &b);
            fired = ff_mem_fault_hit();
            ff_mem_fail_at(0);
            assert_int_equal(st, fired ? FF_E_MEM : FF_OK);
            ff_mesh_destroy(&body);
            ff_mesh_destroy(&a);
            ff_mesh_destroy(&b);
            assert_int_equal(ff_mem_blocks(), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ellipsoids_are_closed_and_round),
        cmocka_unit_test(cars_have_the_sizes_of_their_names),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(equal_to_the_published_bodies),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
