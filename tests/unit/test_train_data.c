/* Exact flow past ellipsoids, random bodies, losses and their cotangents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_ellipsoid.h"
#include "ff_loss.h"
#include "ff_mem.h"
#include "ff_rng.h"

#include <math.h>

enum { SEED = 3 };

static void a_sphere_is_known(void **state)
{
    (void)state;
    ff_ellipsoid e = {{2, 2, 2}, {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
    const double u[3] = {1, 0, 0}, x[3] = {2 * cos(0.7), 2 * sin(0.7), 0};
    double cp, ut[3];
    ff_ellipsoid_flow(&e, u, x, &cp, ut);
    double s = sin(0.7); /* |U_t| = 3/2 sin */
    assert_true(fabs(cp - (1 - 2.25 * s * s)) < 1e-14);
    assert_true(fabs(ut[0] - 1.5 * s * s) < 1e-14 && fabs(ut[1] + 1.5 * s * cos(0.7)) < 1e-14);
}

/* alpha_1 + alpha_2 + alpha_3 = 2 for any axes: seen through the flow at the three poles, |V_k| = 2 / (2 - alpha_k). */
static void shape_factors_add_up(void **state)
{
    (void)state;
    for (uint64_t b = 0; b < 50; b++) {
        ff_ellipsoid e = ff_ellipsoid_random(SEED, b);
        double sum = 0, cp, ut[3];
        for (int k = 0; k < 3; k++) {
            double u[3], x[3];
            for (int d = 0; d < 3; d++) {
                u[d] = e.rot[d][k];
                x[d] =
                    e.rot[d][(k + 1) % 3] * e.axes[(k + 1) % 3]; /* a pole beside: the normal is across u */
            }
            ff_ellipsoid_flow(&e, u, x, &cp, ut);
            sum += 2 - 2 / sqrt(1 - cp);
        }
        assert_true(fabs(sum - 2) < 1e-12);
        assert_true(fabs(e.axes[0] * e.axes[1] * e.axes[2] - 1) < 1e-12);
        for (int i = 0; i < 9; i++) { /* rot^T rot = 1 */
            double dot = 0;
            for (int d = 0; d < 3; d++) dot += e.rot[d][i / 3] * e.rot[d][i % 3];
            assert_true(fabs(dot - (i / 3 == i % 3)) < 1e-14);
        }
    }
}

static void meshes_are_closed_and_on_the_surface(void **state)
{
    (void)state;
    for (uint64_t b = 0; b < 8; b++) {
        ff_ellipsoid e = ff_ellipsoid_random(SEED, b);
        ff_mesh *m = NULL;
        ff_mesh_stats s;
        assert_int_equal(ff_ellipsoid_mesh(&e, SEED, b, 2, &m), FF_OK);
        assert_int_equal(m->n_cells, 320);
        assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
        assert_true(s.closed && s.volume > 0 && s.misoriented_edges == 0 && s.zero_area_cells == 0);
        for (int64_t i = 0; i < m->n_points; i++) {
            double r2 = 0;
            for (int k = 0; k < 3; k++) {
                double y = 0;
                for (int d = 0; d < 3; d++) y += e.rot[d][k] * m->points[3 * i + d];
                r2 += y * y / (e.axes[k] * e.axes[k]);
            }
            assert_true(fabs(r2 - 1) < 1e-6); /* float32 corners */
        }
        ff_mesh_destroy(&m);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

/* Cotangents against central differences, unknown values left out. */
static void loss_and_cotangent(void **state)
{
    (void)state;
    enum { N = 7, COMP = 4 };
    ff_ranked_name item[2] = {{(char *)(uintptr_t) "C_p", 0}, {(char *)(uintptr_t) "U_t", 1}};
    ff_name_list out = {2, item};
    double y[N * COMP], t[N * COMP], w[N], bar[N * COMP], part[2], up[2], down[2];
    for (int i = 0; i < N * COMP; i++) {
        y[i] = ff_rng_uniform(SEED, 1, (uint64_t)i) - 0.5;
        t[i] = ff_rng_uniform(SEED, 2, (uint64_t)i) - 0.5;
    }
    for (int i = 0; i < N; i++) w[i] = ff_rng_uniform(SEED, 3, (uint64_t)i);
    t[0] = (double)NAN;            /* C_p of target 0 */
    t[1 * COMP + 2] = (double)NAN; /* U_t of target 1: all of it */
    for (int relative = 0; relative <= 1; relative++) {
        ff_loss_opts o = {.relative = relative, .floor = 0.05, .scale = {1, 0.3}};
        assert_int_equal(ff_loss_run(ff_comm_self(), &out, 3, N, y, t, w, &o, part, bar), FF_OK);
        assert_true(part[0] > 0 && part[1] > 0);
        assert_true(bar[0] == 0 && bar[5] == 0 && bar[6] == 0 && bar[7] == 0 && bar[4] != 0);
        for (int i = 0; i < N * COMP; i++) {
            double keep = y[i];
            y[i] = keep + 1e-6;
            assert_int_equal(ff_loss_run(ff_comm_self(), &out, 3, N, y, t, w, &o, up, NULL), FF_OK);
            y[i] = keep - 1e-6;
            assert_int_equal(ff_loss_run(ff_comm_self(), &out, 3, N, y, t, w, &o, down, NULL), FF_OK);
            y[i] = keep;
            double slope = (up[0] + up[1] - down[0] - down[1]) / 2e-6;
            assert_true(fabs(slope - bar[i]) <
                        1e-8); /* quadratic: only rounding of the difference, 1e-16 / 1e-6 */
        }
    }
    for (int i = 0; i < N * COMP; i++) t[i] = (double)NAN;
    ff_loss_opts o = {.scale = {1, 1}};
    assert_int_equal(ff_loss_run(ff_comm_self(), &out, 3, N, y, t, w, &o, part, bar), FF_OK);
    assert_true(part[0] == 0 && part[1] == 0 && bar[3] == 0);
}

/* The same fields and areas in units that lie far from 1: equal losses, and cotangents in the fields' unit. */
static void losses_know_no_units(void **state)
{
    (void)state;
    enum { N = 9 };
    ff_ranked_name item[1] = {{(char *)(uintptr_t) "p", 0}};
    ff_name_list out = {1, item};
    double y[N], t[N], w[N], bar[N], part, far_part, far_bar[N], zero[N] = {0};
    for (int i = 0; i < N; i++) {
        y[i] = ff_rng_uniform(SEED, 4, (uint64_t)i) - 0.5;
        t[i] = ff_rng_uniform(SEED, 5, (uint64_t)i) - 0.5;
        w[i] = ff_rng_uniform(SEED, 6, (uint64_t)i);
    }
    for (int relative = 0; relative <= 1; relative++)
        for (int e = -60; e <= 60; e += 20) { /* 1e-18 .. 1e18: squares and areas beyond any fixed range */
            double u = ldexp(1, e), far_y[N], far_t[N], far_w[N];
            ff_loss_opts o = {.relative = relative, .floor = 0.05, .scale = {0.7}}, far = o;
            far.scale[0] *= u;
            for (int i = 0; i < N; i++) {
                far_y[i] = u * y[i];
                far_t[i] = u * t[i];
                far_w[i] = w[i] / u;
            }
            assert_int_equal(ff_loss_run(ff_comm_self(), &out, 3, N, y, t, w, &o, &part, bar), FF_OK);
            assert_int_equal(
                ff_loss_run(ff_comm_self(), &out, 3, N, far_y, far_t, far_w, &far, &far_part, far_bar),
                FF_OK);
            assert_true(part > 0 && far_part == part); /* powers of two: no rounding */
            for (int i = 0; i < N; i++) assert_true(far_bar[i] * u == bar[i]);
        }
    ff_loss_opts o = {.relative = true, .blank = true, .scale = {1}};
    assert_int_equal(ff_loss_run(ff_comm_self(), &out, 3, N, y, zero, w, &o, &part, NULL), FF_OK);
    assert_true(isnan(part)); /* no error relative to 0 */
    assert_int_equal(ff_loss_run(ff_comm_self(), &out, 3, N, y, t, zero, &o, &part, NULL), FF_OK);
    assert_true(isnan(part));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sphere_is_known),
        cmocka_unit_test(shape_factors_add_up),
        cmocka_unit_test(meshes_are_closed_and_on_the_surface),
        cmocka_unit_test(loss_and_cotangent),
        cmocka_unit_test(losses_know_no_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
