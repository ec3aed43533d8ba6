/* Embedding head: harmonics, envelopes and basis against closed forms and differences, rotations, permutations,
 * gradients, equal bits, bad input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_mem.h"
#include "ff_scatter.h"
#include "head_case.h"

#include <omp.h>

#define PI FF_HEAD_PI

static ff_head_par par_of(int lmax, int n_radial, double cutoff)
{
    ff_head_opts o = FF_HEAD_OPTS_INIT;
    o.lmax = lmax;
    o.n_radial = n_radial;
    return ff_head_par_of(&o, cutoff);
}

static void unit_vector(int64_t i, double u[3])
{
    static const double special[][3] = {{0, 0, 1}, {0, 0, -1}, {1, 0, 0}, {0, -1, 0}, {0, 1e-9, 1}};
    double n2 = 0;
    for (int d = 0; d < 3; d++) {
        u[d] = i < 5 ? special[i][d] : head_random(10 + d, i);
        n2 += u[d] * u[d];
    }
    for (int d = 0; d < 3; d++) u[d] /= sqrt(n2);
}

static double legendre(int l, double t)
{
    double p0 = 1, p1 = t;
    for (int k = 2; k <= l; k++) {
        double p = ((2 * k - 1) * t * p1 - (k - 1) * p0) / k;
        p0 = p1, p1 = p;
    }
    return l == 0 ? 1 : p1;
}

/* ---- harmonics ---- */

static void low_degrees_have_their_closed_form(void **state)
{
    (void)state;
    const ff_head_par p = par_of(2, 1, 1);
    for (int64_t i = 0; i < 50; i++) {
        double u[3], z[FF_HEAD_ROWS];
        unit_vector(i, u);
        const double x = u[0], y = u[1], w = u[2], r3 = sqrt(3);
        const double want[8] = {
            y, w, -x, -r3 * x * y, r3 * y * w, (3 * w * w - 1) / 2, -r3 * x * w, r3 / 2 * (x * x - y * y)};
        ff_head_coupling(&p, u, z);
        for (int k = 0; k < 8; k++)
            if (!(fabs(z[k] - want[k]) < 1e-15))
                fail_msg("vector %lld row %d: %.17g, expected %.17g", (long long)i, k, z[k], want[k]);
    }
}

/* Rows of a degree for two directions: sum of products = P_l(cos of the angle). */
static void addition_theorem_holds_to_degree_6(void **state)
{
    (void)state;
    const ff_head_par p = par_of(6, 1, 1);
    double worst = 0;
    for (int64_t i = 0; i < 60; i++)
        for (int64_t j = 0; j < 60; j++) {
            double u[3], v[3], a[FF_HEAD_ROWS], b[FF_HEAD_ROWS];
            unit_vector(i, u), unit_vector(j, v);
            ff_head_coupling(&p, u, a), ff_head_coupling(&p, v, b);
            for (int l = 1; l <= 6; l++) {
                double sum = 0;
                for (int m = -l; m <= l; m++) sum += a[ff_head_row(l, m)] * b[ff_head_row(l, m)];
                worst = fmax(worst, fabs(sum - legendre(l, u[0] * v[0] + u[1] * v[1] + u[2] * v[2])));
            }
        }
    print_message("worst difference from P_l: %.1e of 1e-13\n", worst); /* 13 products of numbers up to 1 */
    assert_true(worst < 1e-13);
}

/* dL/dv of L = sum of cot coupling(v / |v|) against central differences: h^2 of the sixth degree's third derivative
 * and rounding / h balance at about 1e-9. */
static void coupling_gradient_equals_differences(void **state)
{
    (void)state;
    const ff_head_par p = par_of(6, 1, 1);
    const double h = 1e-5;
    double cot[FF_HEAD_ROWS], worst = 0;
    for (int k = 0; k < FF_HEAD_ROWS; k++) cot[k] = head_random(20, k);
    for (int64_t i = 0; i < 60; i++) {
        double v[3], du[3], dv[3], z[FF_HEAD_ROWS];
        unit_vector(i, v);
        for (int d = 0; d < 3; d++) v[d] *= 0.7;
        const ff_head_edge e = ff_head_edge_of(&p, v);
        ff_head_coupling_grad(&p, e.u, cot, du);
        ff_head_edge_grad(&e, du, 0, dv);
        for (int d = 0; d < 3; d++) {
            double side[2];
            for (int s = 0; s < 2; s++) {
                double moved[3] = {v[0], v[1], v[2]};
                moved[d] += s == 0 ? -h : h;
                const ff_head_edge m = ff_head_edge_of(&p, moved);
                ff_head_coupling(&p, m.u, z);
                side[s] = 0;
                for (int k = 0; k < FF_HEAD_ROWS; k++) side[s] += cot[k] * z[k];
            }
            worst = fmax(worst, fabs((side[1] - side[0]) / (2 * h) - dv[d]));
        }
    }
    print_message("worst difference of the gradient: %.1e of 2e-8\n", worst);
    assert_true(worst < 2e-8);
}

/* ---- envelope and basis ---- */

static double plain_envelope(int p, double x)
{
    double sum = 0, c = 1;
    for (int k = 0; k < p; k++) {
        sum += c * pow(x, k);
        c = c * (k + 4) / (k + 1);
    }
    return x < 1 ? pow(1 - x, 4) * sum : 0;
}

static void envelopes_have_their_closed_form(void **state)
{
    (void)state;
    for (int p = 1; p <= 64; p = p < 8 ? p + 1 : 2 * p)
        for (int i = 0; i <= 110; i++) {
            const double x = 0.01 * i, h = 1e-5;
            double e = ff_head_envelope(p, x), slope = ff_head_envelope_dx(p, x);
            double quotient = (plain_envelope(p, x + h) - plain_envelope(p, fabs(x - h))) / (2 * h);
            assert_true(fabs(e - plain_envelope(p, x)) <= 4e-15);
            /* h^2 / 6 of the third derivative, at most 600 or about p^3 */
            if (i > 0 && i != 100 && !(fabs(slope - quotient) < 1e-8 + 2e-11 * p * p * p))
                fail_msg("E_%d'(%g) = %.12g, difference quotient %.12g", p, x, slope, quotient);
        }
    assert_true(ff_head_envelope(7, 0) == 1 && ff_head_envelope(5, 1) == 0 && ff_head_envelope(5, 2) == 0);
    assert_true(ff_head_envelope_dx(7, 0) == 0 && ff_head_envelope_dx(5, 1) == 0);
}

/* Lengths from 0 to beyond the cutoff, with the two sides of every change of formula. */
static void basis_has_its_closed_form_and_limit(void **state)
{
    (void)state;
    const double rc = 0.7;
    const ff_head_par p = par_of(3, 24, rc);
    for (int i = 0; i < 400; i++) {
        const double d = i == 0 ? 0 : i < 100 ? rc * pow(10, -0.1 * i) : rc * (i - 99) / 295.0;
        double b[24];
        const ff_head_edge e = {d, d / rc, {0, 0, d > 0}};
        ff_head_basis(&p, &e, b);
        for (int n = 1; n <= 24; n++) {
            const double w = n * PI / rc;
            const double want = plain_envelope(7, d / rc) * (w * d < 1e-8 ? w : sin(w * d) / d);
            /* rounding of 24 rotations, of the largest value n pi / rc */
            if (!(fabs(b[n - 1] - want) < 1e-14 * w))
                fail_msg("b_%d(%g) = %.17g, expected %.17g", n, d, b[n - 1], want);
        }
    }
}

static void basis_gradient_equals_differences(void **state)
{
    (void)state;
    const double rc = 0.7, h = 1e-6;
    const ff_head_par p = par_of(3, 12, rc);
    double cot[12], b[2][12], worst = 0;
    for (int n = 0; n < 12; n++) cot[n] = head_random(30, n);
    for (int i = 0; i < 500; i++) {
        const double d = i == 0 ? 0 : i < 100 ? rc * pow(10, -0.1 * i) : rc * (i - 99) / 402.0;
        const ff_head_edge e = {d, d / rc, {0, 0, d > 0}};
        double quotient = 0;
        for (int s = 0; s < 2; s++) {
            const double at = fabs(s == 0 ? d - h : d + h); /* even in d */
            const ff_head_edge m = {at, at / rc, {0, 0, 1}};
            ff_head_basis(&p, &m, b[s]);
        }
        for (int n = 0; n < 12; n++) quotient += cot[n] * (b[1][n] - b[0][n]) / (2 * h);
        worst = fmax(worst, fabs(quotient - ff_head_basis_grad(&p, &e, cot)));
    }
    /* values up to 54, slopes up to 1500: rounding 54 2^-52 / h = 1e-8 a term, h^2 of the third derivative as much */
    print_message("worst difference of the gradient: %.1e of 1e-6\n", worst);
    assert_true(worst < 1e-6);
}

/* ---- whole head ---- */

typedef struct whole {
    ff_head_opts o;
    int64_t n, n_w1, n_w2, n_out; /* n_out: all numbers of the output */
    double *x, *w1, *w2, *cot, *out;
} whole;

static whole make(head_set set, int64_t n, int lmax, int64_t channels, int n_radial, int n_hidden)
{
    whole c = {.o = FF_HEAD_OPTS_INIT, .n = n};
    c.o.lmax = lmax, c.o.n_channels = channels, c.o.n_radial = n_radial, c.o.n_hidden = n_hidden;
    c.n_w1 = ff_head_n_w1(&c.o), c.n_w2 = ff_head_n_w2(&c.o), c.n_out = n * ff_head_n_out(&c.o);
    c.x = head_points(set, n);
    c.w1 = head_numbers(40, c.n_w1);
    c.w2 = head_numbers(41, c.n_w2);
    c.cot = head_numbers(42, c.n_out);
    c.out = head_numbers(43, c.n_out);
    return c;
}

static void drop(whole *c)
{
    free(c->x), free(c->w1), free(c->w2), free(c->cot), free(c->out);
}

static ff_graph *graph_of(const double *x, int64_t n, double cutoff, const ff_cell *cell)
{
    ff_graph *g = NULL;
    if (ff_graph_create(x, n, cutoff, cell, &g) != FF_OK) fail_msg("%s", ff_error_text());
    return g;
}

static double loss(const whole *c, double cutoff, const ff_cell *cell)
{
    ff_graph *g = graph_of(c->x, c->n, cutoff, cell);
    double sum = 0;
    assert_int_equal(ff_head_forward_f64(g, &c->o, c->w1, c->w2, c->out), FF_OK);
    for (int64_t i = 0; i < c->n_out; i++) sum += c->cot[i] * c->out[i];
    ff_graph_destroy(&g);
    return sum;
}

/* Gradient of each of the first few numbers at *at against central differences. */
static double check_differences(whole *c, double *at, int64_t n, const double *grad, double cutoff,
                                const ff_cell *cell)
{
    double worst = 0, scale = 0;
    for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(grad[i]));
    for (int64_t i = 0; i < n; i += 1 + n / 24) {
        const double h = 1e-5, before = at[i];
        at[i] = before + h;
        const double up = loss(c, cutoff, cell);
        at[i] = before - h;
        const double down = loss(c, cutoff, cell);
        at[i] = before;
        worst = fmax(worst, fabs((up - down) / (2 * h) - grad[i]) / scale);
    }
    return worst;
}

static void gradients_equal_differences(void **state)
{
    (void)state;
    for (int cell = 0; cell < HEAD_CELLS; cell++)
        for (int path = 0; path < 2; path++) {
            const double cutoff = cell == 1 ? 1.05 : 0.6; /* 1.05: own images and two of each other point */
            whole c = make(HEAD_UNIFORM, 12, 3 + cell % 4, 3, 4, 5);
            ff_head_grad_f64 grad = FF_HEAD_GRAD_F64_INIT;
            c.o.path = (ff_scatter_path)path;
            c.o.degree_floor = 0.3;
            double *dx = head_numbers(50, 3 * c.n), *d1 = head_numbers(51, c.n_w1),
                   *d2 = head_numbers(52, c.n_w2);
            grad.points = dx, grad.w1 = d1, grad.w2 = d2;
            ff_graph *g = graph_of(c.x, c.n, cutoff, head_cell(cell));
            assert_int_equal(ff_head_backward_f64(g, &c.o, c.w1, c.w2, c.cot, &grad), FF_OK);
            const double ex = check_differences(&c, c.x, 3 * c.n, dx, cutoff, head_cell(cell)),
                         e1 = check_differences(&c, c.w1, c.n_w1, d1, cutoff, head_cell(cell)),
                         e2 = check_differences(&c, c.w2, c.n_w2, d2, cutoff, head_cell(cell));
            print_message("cell %d path %d, %lld edges: points %.1e, W1 %.1e, W2 %.1e of 1e-6\n", cell, path,
                          (long long)g->n_edges, ex, e1, e2);
            /* h^2 / 6 of the third derivative: lengths of 0.1 of the cutoff, so about (h / 0.06)^2 = 3e-8 */
            assert_true(ex < 1e-6 && e1 < 1e-6 && e2 < 1e-6);
            ff_graph_destroy(&g);
            free(dx), free(d1), free(d2);
            drop(&c);
        }
}

/* Moving all points together changes nothing, so their gradients add up to 0. */
static void forces_add_up_to_zero(void **state)
{
    (void)state;
    whole c = make(HEAD_UNIFORM, 60, 4, 5, 6, 8);
    ff_head_grad_f64 grad = FF_HEAD_GRAD_F64_INIT;
    double *dx = head_numbers(50, 3 * c.n), sum[3] = {0}, scale = 0;
    ff_graph *g = graph_of(c.x, c.n, 0.4, head_cell(3));
    grad.points = dx;
    assert_int_equal(ff_head_backward_f64(g, &c.o, c.w1, c.w2, c.cot, &grad), FF_OK);
    for (int64_t i = 0; i < 3 * c.n; i++) sum[i % 3] += dx[i], scale = fmax(scale, fabs(dx[i]));
    for (int d = 0; d < 3; d++) assert_true(fabs(sum[d]) < 1e-12 * scale * (double)c.n);
    ff_graph_destroy(&g);
    free(dx), drop(&c);
}

/* ---- rotation ---- */

/* Nodes and weights of Gauss and Legendre on [-1, 1]. */
static void gauss(int n, double *t, double *w)
{
    for (int i = 0; i < n; i++) {
        double x = cos(PI * (i + 0.75) / (n + 0.5)), slope = 1;
        for (int k = 0; k < 20; k++) {
            slope = n * (x * legendre(n, x) - legendre(n - 1, x)) / (x * x - 1);
            x -= legendre(n, x) / slope;
        }
        t[i] = x;
        w[i] = 2 / ((1 - x * x) * slope * slope);
    }
}

static void rotate(const double r[3][3], const double *v, double out[3])
{
    for (int i = 0; i < 3; i++) out[i] = r[i][0] * v[0] + r[i][1] * v[1] + r[i][2] * v[2];
}

/* Matrix of a rotation on rows: coupling(R u) = D coupling(u), by quadrature over the sphere, exact for these degrees:
 * D = (2 l + 1) / (4 pi) integral of coupling(R u) coupling(u)^T. */
static void rotation_matrix(const double r[3][3], int lmax, double *big)
{
    enum { NT = 10, NP = 20 };
    const ff_head_par p = par_of(lmax, 1, 1);
    const int n_rows = (lmax + 1) * (lmax + 1) - 1;
    double t[NT], w[NT];
    gauss(NT, t, w);
    memset(big, 0, (size_t)(n_rows * n_rows) * sizeof *big);
    for (int i = 0; i < NT * NP; i++) {
        const double s = sqrt(1 - t[i / NP] * t[i / NP]), phi = 2 * PI * (i % NP) / NP;
        const double u[3] = {s * cos(phi), s * sin(phi), t[i / NP]};
        double v[3], a[FF_HEAD_ROWS], b[FF_HEAD_ROWS];
        rotate(r, u, v);
        ff_head_coupling(&p, v, a), ff_head_coupling(&p, u, b);
        for (int l = 1; l <= lmax; l++)
            for (int m = ff_head_row(l, -l); m <= ff_head_row(l, l); m++)
                for (int k = ff_head_row(l, -l); k <= ff_head_row(l, l); k++)
                    big[m * n_rows + k] += (2 * l + 1) / (4 * PI) * w[i / NP] * (2 * PI / NP) * a[m] * b[k];
    }
}

/* Worst difference of out(R x) and D out(x), of the largest output. */
static double rotation_error(const whole *c, const double *out, const double *turned, const double *big)
{
    const int64_t n_rows = (c->o.lmax + 1) * (c->o.lmax + 1) - 1, n_c = c->o.n_channels;
    double worst = 0, scale = 0;
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t m = 0; m < n_rows; m++)
            for (int64_t ch = 0; ch < n_c; ch++) {
                double want = 0;
                for (int64_t k = 0; k < n_rows; k++)
                    want += big[m * n_rows + k] * out[(n * (n_rows + 1) + 1 + k) * n_c + ch];
                const double got = turned[(n * (n_rows + 1) + 1 + m) * n_c + ch];
                worst = fmax(worst, fabs(got - want));
                scale = fmax(scale, fabs(want));
            }
    return worst / scale;
}

static double *run_f32(const whole *c, const ff_graph *g)
{
    float *w1 = head_narrow(c->w1, c->n_w1), *w2 = head_narrow(c->w2, c->n_w2),
          *out = head_narrow(c->out, c->n_out);
    double *wide = malloc((size_t)c->n_out * sizeof *wide);
    assert_int_equal(ff_head_forward_f32(g, &c->o, w1, w2, out), FF_OK);
    for (int64_t i = 0; i < c->n_out; i++) wide[i] = (double)out[i];
    free(w1), free(w2), free(out);
    return wide;
}

static void outputs_turn_with_the_points(void **state)
{
    (void)state;
    static double big[FF_HEAD_ROWS * FF_HEAD_ROWS];
    for (int lmax = 1; lmax <= 6; lmax++) {
        whole c = make(HEAD_UNIFORM, 80, lmax, 4, 6, 8);
        const double a = 0.7 + lmax, b = 1.9 * lmax; /* about z, then about y */
        const double r[3][3] = {{cos(b) * cos(a), -cos(b) * sin(a), sin(b)},
                                {sin(a), cos(a), 0},
                                {-sin(b) * cos(a), sin(b) * sin(a), cos(b)}};
        ff_graph *g = graph_of(c.x, c.n, 0.45, NULL);
        double *y = head_numbers(60, 3 * c.n), *turned = head_numbers(61, c.n_out);
        for (int64_t i = 0; i < c.n; i++) rotate(r, c.x + 3 * i, y + 3 * i);
        ff_graph *g_turned = graph_of(y, c.n, 0.45, NULL);
        assert_int_equal(g->n_edges, g_turned->n_edges);
        rotation_matrix(r, lmax, big);
        assert_int_equal(ff_head_forward_f64(g, &c.o, c.w1, c.w2, c.out), FF_OK);
        assert_int_equal(ff_head_forward_f64(g_turned, &c.o, c.w1, c.w2, turned), FF_OK);
        double *out32 = run_f32(&c, g), *turned32 = run_f32(&c, g_turned);
        const double e64 = rotation_error(&c, c.out, turned, big),
                     e32 = rotation_error(&c, out32, turned32, big);
        print_message("lmax %d: float64 %.1e of 1e-12, float32 %.1e of 1e-5\n", lmax, e64, e32);
        assert_true(e64 < 1e-12 && e32 < 1e-5);
        ff_graph_destroy(&g), ff_graph_destroy(&g_turned);
        free(y), free(turned), free(out32), free(turned32);
        drop(&c);
    }
}

/* ---- permutation ---- */

static void outputs_follow_a_permutation(void **state)
{
    (void)state;
    whole c = make(HEAD_CLUSTERS, 90, 3, 5, 6, 8);
    double *y = head_numbers(60, 3 * c.n), *other = head_numbers(61, c.n_out), worst = 0, scale = 0;
    const int64_t per_node = ff_head_n_out(&c.o);
    ff_graph *g = graph_of(c.x, c.n, 0.3, NULL);
    assert_int_equal(ff_head_forward_f64(g, &c.o, c.w1, c.w2, c.out), FF_OK);
    for (int64_t i = 0; i < c.n; i++)
        memcpy(y + 3 * (i * 7 % c.n), c.x + 3 * i, 3 * sizeof *y); /* 7 and 90 */
    ff_graph *g_y = graph_of(y, c.n, 0.3, NULL);
    assert_int_equal(g->n_edges, g_y->n_edges);
    assert_int_equal(ff_head_forward_f64(g_y, &c.o, c.w1, c.w2, other), FF_OK);
    for (int64_t i = 0; i < c.n; i++)
        for (int64_t k = 0; k < per_node; k++) {
            const double a = c.out[i * per_node + k], b = other[(i * 7 % c.n) * per_node + k];
            worst = fmax(worst, fabs(a - b)), scale = fmax(scale, fabs(a));
        }
    print_message("worst difference %.1e of 1e-13\n", worst / scale); /* the order of a node's sum changes */
    assert_true(worst < 1e-13 * scale);
    ff_graph_destroy(&g), ff_graph_destroy(&g_y);
    free(y), free(other), drop(&c);
}

/* ---- bits ---- */

/* Outputs and gradients, packed. */
static double *everything(const whole *c, const ff_graph *g, size_t *bytes)
{
    const int64_t n = c->n_out + 3 * c->n + c->n_w1 + c->n_w2;
    double *all = calloc((size_t)n + 1, sizeof *all);
    ff_head_grad_f64 grad = FF_HEAD_GRAD_F64_INIT;
    grad.points = all + c->n_out, grad.w1 = grad.points + 3 * c->n, grad.w2 = grad.w1 + c->n_w1;
    assert_int_equal(ff_head_forward_f64(g, &c->o, c->w1, c->w2, all), FF_OK);
    assert_int_equal(ff_head_backward_f64(g, &c->o, c->w1, c->w2, c->cot, &grad), FF_OK);
    *bytes = (size_t)n * sizeof *all;
    return all;
}

static void threads_and_instruction_sets_do_not_change_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        static const int64_t channels[] = {3, 17, 40};
        whole c = make(HEAD_UNIFORM, 70, 2 + i, channels[i], 5 + 8 * i, 7 + 10 * i);
        size_t bytes;
        c.o.path = FF_SCATTER_FUSED;
        ff_graph *g = graph_of(c.x, c.n, 0.4, head_cell(i));
        omp_set_num_threads(1);
        double *alone = everything(&c, g, &bytes);
        for (int k = 0; k < 6; k++) {
            omp_set_num_threads(1 + k % 3);
            (void)ff_scatter_isa_limit(k % 3);
            double *other = everything(&c, g, &bytes);
            assert_memory_equal(alone, other, bytes);
            free(other);
        }
        (void)ff_scatter_isa_limit(2);
        ff_graph_destroy(&g);
        free(alone), drop(&c);
    }
    omp_set_num_threads(2);
}

/* Many chunks give what one scatter over all edges gives. */
static void chunks_do_not_show(void **state)
{
    (void)state;
    whole c = make(HEAD_UNIFORM, 220, 6, 120, 4, 6); /* 7.5 KiB an edge */
    ff_graph *g = graph_of(c.x, c.n, 0.55, NULL);
    const int64_t n_e = g->n_edges;
    ff_head_parts_f64 parts = {head_numbers(1, n_e * FF_HEAD_ROWS), NULL, head_numbers(1, n_e * 6 * 120),
                               head_numbers(1, c.n), head_numbers(1, c.n)};
    ff_scatter_in_f64 in = FF_SCATTER_IN_F64_INIT;
    ff_scatter_csr *csr = NULL;
    const ff_scatter_shape shape = {c.n, n_e, 120, 6};
    double *want = head_numbers(62, c.n_out);
    print_message("%lld edges\n", (long long)n_e);
    assert_true(n_e * 120 * 6 * 8 > 40 << 20);
    assert_int_equal(ff_head_parts_run_f64(g, &c.o, c.w1, c.w2, &parts), FF_OK);
    assert_int_equal(ff_scatter_csr_create_i32(g->dst, n_e, c.n, &csr), FF_OK);
    in.coupling = parts.coupling, in.radial = parts.radial, in.inv_sqrt_deg = parts.inv_sqrt_deg;
    assert_int_equal(ff_scatter_forward_f64(csr, &shape, &in, FF_SCATTER_REFERENCE, want), FF_OK);
    for (int path = 0; path < 2; path++) {
        c.o.path = (ff_scatter_path)path;
        assert_int_equal(ff_head_forward_f64(g, &c.o, c.w1, c.w2, c.out), FF_OK);
        assert_memory_equal(c.out, want, (size_t)c.n_out * sizeof *want);
    }
    ff_scatter_csr_destroy(&csr), ff_graph_destroy(&g);
    free(parts.coupling), free(parts.radial), free(parts.degree), free(parts.inv_sqrt_deg), free(want),
        drop(&c);
}

/* ---- edges of the domain ---- */

static void points_alone_and_none_give_zeros(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= 2; n++) {
        whole c = make(HEAD_UNIFORM, n, 2, 3, 4, 5);
        double dx[6] = {1, 1, 1, 1, 1, 1};
        ff_head_grad_f64 grad = FF_HEAD_GRAD_F64_INIT;
        ff_graph *g = graph_of(c.x, n, 1e-3, NULL);
        grad.points = dx;
        assert_int_equal(g->n_edges, 0);
        assert_int_equal(ff_head_forward_f64(g, &c.o, c.w1, c.w2, c.out), FF_OK);
        assert_int_equal(ff_head_backward_f64(g, &c.o, c.w1, c.w2, c.cot, &grad), FF_OK);
        for (int64_t i = 0; i < c.n_out; i++) assert_true(c.out[i] == 0);
        for (int64_t i = 0; i < 3 * n; i++) assert_true(dx[i] == 0);
        ff_graph_destroy(&g);
        drop(&c);
    }
}

/* Two points at one place: no coupling, full degree, no force between them; the third point pulls as before. */
static void coincident_points_stay_finite(void **state)
{
    (void)state;
    whole c = make(HEAD_UNIFORM, 3, 3, 2, 4, 5);
    const double x[9] = {0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.2, 0.4, 0.4};
    double degree[3], inv[3], dx[9], coupling[6 * 15], radial[6 * 6];
    const ff_head_parts_f64 parts = {coupling, NULL, radial, degree, inv};
    ff_head_grad_f64 grad = FF_HEAD_GRAD_F64_INIT;
    ff_graph *g = graph_of(x, 3, 0.5, NULL);
    grad.points = dx;
    assert_int_equal(g->n_coincident, 2);
    assert_int_equal(ff_head_parts_run_f64(g, &c.o, c.w1, c.w2, &parts), FF_OK);
    for (int r = 0; r < 15; r++) assert_true(coupling[r] == 0); /* edge 0: 0 <- 1 */
    assert_true(degree[0] > 1 && degree[0] == degree[1]);
    assert_int_equal(ff_head_forward_f64(g, &c.o, c.w1, c.w2, c.out), FF_OK);
    assert_memory_equal(c.out, c.out + ff_head_n_out(&c.o), (size_t)ff_head_n_out(&c.o) * sizeof *c.out);
    assert_int_equal(ff_head_backward_f64(g, &c.o, c.w1, c.w2, c.cot, &grad), FF_OK);
    for (int i = 0; i < 9; i++) assert_true(isfinite(dx[i]));
    assert_true(dx[6] != 0);
    ff_graph_destroy(&g);
    drop(&c);
}

/* Weights' gradients keep their digits for cotangents of any size. */
static void tiny_cotangents_keep_their_digits(void **state)
{
    (void)state;
    whole c = make(HEAD_UNIFORM, 30, 2, 3, 4, 5);
    ff_head_grad_f64 grad = FF_HEAD_GRAD_F64_INIT;
    ff_graph *g = graph_of(c.x, c.n, 0.5, NULL);
    double *d[2] = {head_numbers(1, c.n_w2), head_numbers(1, c.n_w2)};
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < c.n_out; i++) c.cot[i] *= k == 0 ? 1 : 0x1p-300;
        grad.w2 = d[k];
        assert_int_equal(ff_head_backward_f64(g, &c.o, c.w1, c.w2, c.cot, &grad), FF_OK);
    }
    for (int64_t i = 0; i < c.n_w2; i++) assert_true(d[0][i] == d[1][i] * 0x1p300);
    ff_graph_destroy(&g);
    free(d[0]), free(d[1]), drop(&c);
}

/* ---- bad input ---- */

static void expect_refused(const ff_graph *g, const ff_head_opts *o, const whole *c, ff_status code,
                           const char *text)
{
    ff_error_clear();
    assert_int_equal(ff_head_forward_f64(g, o, c->w1, c->w2, c->out), code);
    if (strstr(ff_error_text(), text) == NULL) fail_msg("\"%s\" lacks \"%s\"", ff_error_text(), text);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    whole c = make(HEAD_UNIFORM, 5, 2, 3, 4, 5), no_w2 = c;
    ff_graph *g = graph_of(c.x, c.n, 1e-3, NULL);
    ff_head_grad_f64 grad = FF_HEAD_GRAD_F64_INIT;
    ff_head_opts o = c.o;
    no_w2.w2 = NULL;
    expect_refused(NULL, &o, &c, FF_E_ARG, "graph is NULL");
    expect_refused(g, NULL, &c, FF_E_ARG, "FF_HEAD_OPTS is NULL");
    expect_refused(g, &o, &no_w2, FF_E_ARG, "w2 is NULL");
    o.lmax = 7, expect_refused(g, &o, &c, FF_E_ARG, "lmax = 7, expected 1 to 6"), o = c.o;
    o.lmax = 0, expect_refused(g, &o, &c, FF_E_ARG, "lmax = 0"), o = c.o;
    o.n_radial = 0, expect_refused(g, &o, &c, FF_E_ARG, "n_radial = 0"), o = c.o;
    o.n_hidden = -1, expect_refused(g, &o, &c, FF_E_ARG, "n_hidden = -1"), o = c.o;
    o.n_channels = 0, expect_refused(g, &o, &c, FF_E_ARG, "n_channels = 0"), o = c.o;
    o.rbf_exponent = 0, expect_refused(g, &o, &c, FF_E_ARG, "rbf_exponent = 0"), o = c.o;
    o.degree_exponent = 99, expect_refused(g, &o, &c, FF_E_ARG, "degree_exponent = 99"), o = c.o;
    o.degree_floor = -1, expect_refused(g, &o, &c, FF_E_ARG, "degree_floor = -1"), o = c.o;
    o.degree_floor = 0, expect_refused(g, &o, &c, FF_E_INPUT, "node 0 has degree 0"), o = c.o;
    o.path = (ff_scatter_path)9, expect_refused(g, &o, &c, FF_E_ARG, "path = 9"), o = c.o;
    o.size = 4096, expect_refused(g, &o, &c, FF_E_ARG, "size = 4096"), o = c.o;
    assert_int_equal(ff_head_backward_f64(g, &o, c.w1, c.w2, NULL, &grad), FF_E_ARG);
    assert_int_equal(ff_head_backward_f64(g, &o, c.w1, c.w2, c.cot, NULL), FF_E_ARG);
    ff_graph_destroy(&g);
    drop(&c);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(low_degrees_have_their_closed_form),
        cmocka_unit_test(addition_theorem_holds_to_degree_6),
        cmocka_unit_test(coupling_gradient_equals_differences),
        cmocka_unit_test(envelopes_have_their_closed_form),
        cmocka_unit_test(basis_has_its_closed_form_and_limit),
        cmocka_unit_test(basis_gradient_equals_differences),
        cmocka_unit_test(gradients_equal_differences),
        cmocka_unit_test(forces_add_up_to_zero),
        cmocka_unit_test(outputs_turn_with_the_points),
        cmocka_unit_test(outputs_follow_a_permutation),
        cmocka_unit_test(threads_and_instruction_sets_do_not_change_bits),
        cmocka_unit_test(chunks_do_not_show),
        cmocka_unit_test(points_alone_and_none_give_zeros),
        cmocka_unit_test(coincident_points_stay_finite),
        cmocka_unit_test(tiny_cotangents_keep_their_digits),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
