/* 1/R over triangles: the closed form against adaptive quadrature and difference quotients; sums with near triangles exact
 * against all pairs, their adjoint, their derivatives by positions. Seed 23. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ff_generate.h"
#include "ff_mem.h"
#include "ff_rng.h"
#include "ff_status.h"
#include "ff_sum.h"
#include "ff_triangle.h"

#include <math.h>
#include <string.h>

enum { SEED = 23, N = 1500, N_T = 400 };

static double uniform(uint64_t stream, int i)
{
    return 2 * ff_rng_uniform(SEED, stream, (uint64_t)i) - 1;
}

/* ---- one triangle ---- */

/* Integral of 1/R by the rule of 7 points (degree 5). */
static double rule(const double c[9], const double x[3])
{
    static const double w[3] = {0.225, 0.13239415278850618, 0.12593918054482715};
    static const double b[3] = {1.0 / 3, 0.47014206410511505, 0.10128650732345634};
    double u[3], v[3], sum = 0;
    for (int d = 0; d < 3; d++) u[d] = c[3 + d] - c[d], v[d] = c[6 + d] - c[d];
    const double n[3] = {u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]};
    for (int k = 0; k < 7; k++) {
        const int kind = (k + 2) / 3, at = (k + 2) % 3;
        double r2 = 0;
        for (int d = 0; d < 3; d++) {
            const double first = kind == 0 ? b[0] : at == 0 ? 1 - 2 * b[kind] : b[kind];
            const double second = kind == 0 ? b[0] : at == 1 ? 1 - 2 * b[kind] : b[kind];
            const double y = first * c[d] + second * c[3 + d] + (1 - first - second) * c[6 + d];
            r2 += (y - x[d]) * (y - x[d]);
        }
        sum += w[kind] / sqrt(r2);
    }
    return sum * 0.5 * sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
}

/* Four quarters until they agree with the whole, or 14 times: then 4^-14 of the triangle is left about a singular point. */
static double adaptive(const double c[9], const double x[3], double tol, int depth)
{
    double m[9], part[4][9], sum = 0;
    for (int k = 0; k < 3; k++)
        for (int d = 0; d < 3; d++) m[3 * k + d] = 0.5 * (c[3 * k + d] + c[(3 * k + 3 + d) % 9]);
    for (int d = 0; d < 3; d++)
        for (int k = 0; k < 3; k++) {
            part[k][d] = c[3 * k + d];
            part[k][3 + d] = m[3 * k + d];
            part[k][6 + d] = m[(3 * k + 6 + d) % 9];
            part[3][3 * k + d] = m[3 * k + d];
        }
    for (int k = 0; k < 4; k++) sum += rule(part[k], x);
    if (depth == 14 || fabs(sum - rule(c, x)) < tol) return sum;
    sum = 0;
    for (int k = 0; k < 4; k++) sum += adaptive(part[k], x, 0.25 * tol, depth + 1);
    return sum;
}

static const double corner[9] = {0.1, 0.2, -0.1, 1.3, 0.1, 0.2, 0.4, 0.9, 0.3};

static void place(const double bary[2], double height, double x[3])
{
    double u[3], v[3];
    for (int d = 0; d < 3; d++) u[d] = corner[3 + d] - corner[d], v[d] = corner[6 + d] - corner[d];
    const double n[3] = {u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]};
    const double size = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    for (int d = 0; d < 3; d++) x[d] = corner[d] + bary[0] * u[d] + bary[1] * v[d] + height * n[d] / size;
}

/* Above, below and in the plane; inside, outside, beside an edge, on an edge's line, at a corner. */
static const double places[][2] = {{0.3, 0.3}, {0.41, 0.23}, {0.9, 0.9}, {-0.2, 0.5}, {0.5, 0},
                                   {1.7, 0},   {0, 0},       {3, -2},    {0.5, 0.5}};
static const double heights[] = {0, 1e-3, -0.05, 0.4, 3};

static void mean_is_the_quadrature(void **state)
{
    (void)state;
    double u[3], v[3], worst = 0;
    for (int d = 0; d < 3; d++) u[d] = corner[3 + d] - corner[d], v[d] = corner[6 + d] - corner[d];
    const double n[3] = {u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]};
    const double area = 0.5 * sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
            double x[3], out[4];
            place(places[p], heights[h], x);
            assert_true(ff_triangle_mean(corner, x, false, out));
            const double want = adaptive(corner, x, 1e-10, 0) / area, e = fabs(out[0] - want) / want;
            /* a singular point: the last quarters, 2^-14 wide, and roundings of its own place */
            const double tol = fabs(heights[h]) < 1e-2 ? 1e-4 : 1e-8;
            if (!(e <= tol))
                print_message("place %zu, height %g: %.12g, expected %.12g\n", p, heights[h], out[0], want);
            assert_true(e <= tol);
            worst = fmax(worst, e / tol);
        }
    print_message("used %.2g of the tolerances\n", worst);
}

static void gradient_is_the_difference(void **state)
{
    (void)state;
    const double step = 1e-5;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
            double x[3], out[4], far[4];
            if (heights[h] == 0 && (p == 4 || p == 6 || p == 8)) continue; /* infinite on edges */
            place(places[p], heights[h], x);
            assert_true(ff_triangle_mean(corner, x, true, out));
            for (int d = 0; d < 3; d++) {
                double v[2];
                for (int side = 0; side < 2; side++) {
                    double y[3] = {x[0], x[1], x[2]};
                    y[d] += side == 0 ? step : -step;
                    assert_true(ff_triangle_mean(corner, y, false, far));
                    v[side] = far[0];
                }
                const double want = (v[0] - v[1]) / (2 * step);
                /* step^2 over the height cubed, or across the plane's kink the mean of both sides to step */
                const double tol = fabs(heights[h]) < 1e-2 ? 1e-2 : 1e-6;
                if (!(fabs(out[1 + d] - want) <= tol * (1 + fabs(want))))
                    print_message("place %zu, height %g, %d: %g, expected %g\n", p, heights[h], d, out[1 + d],
                                  want);
                assert_true(fabs(out[1 + d] - want) <= tol * (1 + fabs(want)));
            }
        }
    const double flat[9] = {0, 0, 0, 1, 1, 1, 2, 2, 2}, x[3] = {1, 0, 0};
    double out[4];
    assert_false(ff_triangle_mean(flat, x, false, out));
}

/* ---- sums ---- */

static double y[3 * N], c[9 * N], xt[3 * N_T], q[N], value[N], gradient[3 * N], cot[N], cot_g[3 * N], dq[N],
    dy[3 * N], dx[3 * N_T];

/* Triangles of a size of 0.05 to 0.1 about points of a sphere, so that many overlap. */
static ff_sum_opts triangles(void)
{
    ff_sum_opts o = FF_SUM_OPTS_INIT;
    assert_int_equal(ff_generate("sphere", SEED, 0, N, 3, y), FF_OK);
    assert_int_equal(ff_generate("uniform", SEED, 0, N_T, 3, xt), FF_OK);
    for (int i = 0; i < N; i++) {
        q[i] = uniform(1, i);
        cot[i] = uniform(2, i);
        for (int d = 0; d < 3; d++) {
            const double e = 0.05 * uniform(3, 6 * i + d), f = 0.05 * uniform(3, 6 * i + 3 + d);
            cot_g[3 * i + d] = uniform(4, 3 * i + d);
            c[9 * i + d] = y[3 * i + d] + e;
            c[9 * i + 3 + d] = y[3 * i + d] + f;
            c[9 * i + 6 + d] = y[3 * i + d] - e - f;
        }
    }
    o.corners = c;
    o.exact_within = 4;
    o.gradient = o.adjoint = true;
    o.rtol = 0;
    o.theta = 1.0;
    o.order = 12;
    o.leaf_size = 65;
    return o;
}

static ff_sum *make(const ff_sum_opts *o, bool two)
{
    ff_sum *s = NULL;
    if (ff_sum_create(two ? xt : NULL, N_T, y, N, o, &s) != FF_OK) fail_msg("%s", ff_error_text());
    return s;
}

/* Against a loop over all pairs here. */
static void sums_are_those_of_all_pairs(void **state)
{
    (void)state;
    const ff_sum_opts o = triangles();
    for (int two = 0; two < 2; two++) {
        ff_sum *s = make(&o, two != 0);
        ff_sum_error e, g;
        double rms[2] = {0, 0}, wrong[2] = {0, 0};
        assert_int_equal(ff_sum_apply(s, q, value, gradient), FF_OK);
        assert_int_equal(ff_sum_check(s, q, value, gradient, 50, &e, &g), FF_OK);
        ff_sum_destroy(&s);
        for (int i = 0; i < 50; i++) {
            const double *x = two != 0 ? xt + 3 * i : y + 3 * i;
            double want[4] = {0, 0, 0, 0};
            for (int j = 0; j < N; j++) {
                double most = 0, r2 = 0, v[4];
                for (int k = 0; k < 3; k++) {
                    double e2 = 0;
                    for (int d = 0; d < 3; d++)
                        e2 += pow(c[9 * j + 3 * k + d] - c[9 * j + (3 * k + 3 + d) % 9], 2);
                    most = fmax(most, e2);
                }
                for (int d = 0; d < 3; d++) r2 += pow(x[d] - y[3 * j + d], 2);
                if (!(r2 < 16 * most && ff_triangle_mean(c + 9 * j, x, true, v))) {
                    v[0] = r2 > 0 ? 1 / sqrt(r2) : 0;
                    for (int d = 0; d < 3; d++) v[1 + d] = -v[0] * v[0] * v[0] * (x[d] - y[3 * j + d]);
                }
                for (int a = 0; a < 4; a++) want[a] += q[j] * v[a];
            }
            for (int a = 0; a < 4; a++) {
                rms[a > 0] += want[a] * want[a];
                wrong[a > 0] += pow((a == 0 ? value[i] : gradient[3 * i + a - 1]) - want[a], 2);
            }
        }
        for (int a = 0; a < 2; a++) assert_true(sqrt(wrong[a] / rms[a]) <= 1e-6); /* order 12, theta 1 */
        assert_true(e.max <= 1e-6 && g.max <= 1e-6 && e.max > 0);
    }
}

static void adjoint_is_the_transpose(void **state)
{
    (void)state;
    const ff_sum_opts o = triangles();
    for (int two = 0; two < 2; two++) {
        ff_sum *s = make(&o, two != 0);
        const int n_t = two != 0 ? N_T : N;
        double left = 0, right = 0, size = 0;
        assert_int_equal(ff_sum_apply(s, q, value, gradient), FF_OK);
        assert_int_equal(ff_sum_adjoint(s, cot, cot_g, dq), FF_OK);
        ff_sum_destroy(&s);
        for (int i = 0; i < n_t; i++) left += cot[i] * value[i], size += fabs(cot[i] * value[i]);
        for (int i = 0; i < 3 * n_t; i++)
            left += cot_g[i] * gradient[i], size += fabs(cot_g[i] * gradient[i]);
        for (int j = 0; j < N; j++) right += dq[j] * q[j];
        assert_true(fabs(left - right) <= 1e-11 * size); /* roundings of 2e6 terms */
    }
}

static double objective(const ff_sum_opts *o)
{
    ff_sum *s = make(o, true);
    double sum = 0;
    assert_int_equal(ff_sum_apply(s, q, value, NULL), FF_OK);
    ff_sum_destroy(&s);
    for (int i = 0; i < N_T; i++) sum += cot[i] * value[i];
    return sum;
}

/* A target moves, and a triangle as a whole; all pairs, so that trees that change are no matter. */
static void positions_against_differences(void **state)
{
    (void)state;
    const double step = 1e-6;
    ff_sum_opts o = triangles();
    o.theta = 0;
    memcpy(xt, y + 3 * 7, 3 * sizeof *xt); /* near its triangles */
    xt[2] += 0.02;
    ff_sum *s = make(&o, true);
    assert_int_equal(ff_sum_adjoint_points(s, q, cot, dx, dy), FF_OK);
    ff_sum_destroy(&s);
    for (int d = 0; d < 3; d++) {
        double l[2][2];
        for (int side = 0; side < 2; side++) {
            const double by = side == 0 ? step : -step;
            xt[d] += by;
            l[0][side] = objective(&o);
            xt[d] -= by;
            y[3 * 7 + d] += by;
            for (int k = 0; k < 3; k++) c[9 * 7 + 3 * k + d] += by;
            l[1][side] = objective(&o);
            y[3 * 7 + d] -= by;
            for (int k = 0; k < 3; k++) c[9 * 7 + 3 * k + d] -= by;
        }
        const double got[2] = {dx[d], dy[3 * 7 + d]};
        for (int a = 0; a < 2; a++) {
            const double want = (l[a][0] - l[a][1]) / (2 * step);
            if (!(fabs(got[a] - want) <= 1e-4 * (1 + fabs(want))))
                print_message("%d, %d: %g, expected %g\n", a, d, got[a], want);
            assert_true(fabs(got[a] - want) <=
                        1e-4 * (1 + fabs(want))); /* step^2 f''' and roundings / step */
        }
    }
}

static void bad_options(void **state)
{
    (void)state;
    ff_sum *s = NULL;
    ff_sum_opts o = triangles();
    o.corners = NULL;
    assert_int_equal(ff_sum_create(NULL, 0, y, N, &o, &s), FF_E_ARG);
    o = triangles();
    o.exact_within = NAN;
    assert_int_equal(ff_sum_create(NULL, 0, y, N, &o, &s), FF_E_ARG);
    o = triangles();
    o.kernel = FF_SUM_YUKAWA;
    assert_int_equal(ff_sum_create(NULL, 0, y, N, &o, &s), FF_E_UNSUPPORTED);
    o = triangles();
    c[9 * 5 + 1] = INFINITY;
    ff_error_clear();
    assert_int_equal(ff_sum_create(NULL, 0, y, N, &o, &s), FF_E_INPUT);
    assert_non_null(strstr(ff_error_text(), "triangle 5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_is_the_quadrature),        cmocka_unit_test(gradient_is_the_difference),
        cmocka_unit_test(sums_are_those_of_all_pairs),   cmocka_unit_test(adjoint_is_the_transpose),
        cmocka_unit_test(positions_against_differences), cmocka_unit_test(bad_options),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || ff_mem_blocks() != 0;
}
