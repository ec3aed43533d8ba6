/* Geometry of one edge of the embedding head, forward and adjoint, in float64: harmonics, envelope, radial basis.
 * Host and device text; device code that includes this is compiled with --fmad=false so that both give the same bits
 * but for sin and cos. Formulas and their sources: docs/embed.md. */
#ifndef FF_HEAD_MATH_H
#define FF_HEAD_MATH_H

#include "ff_hd.h"

#include <math.h>

enum { FF_HEAD_LMAX = 6, FF_HEAD_ROWS = 48 }; /* rows of degrees 1 .. 6 */

/* What is the same for all edges. */
typedef struct ff_head_par {
    int lmax, n_radial, p_rbf, p_degree;
    double cutoff;
    /* norm[l][m] = (-1)^m sqrt(2 (l - m)! / (l + m)!), 1 for m = 0 */
    double norm[FF_HEAD_LMAX + 1][FF_HEAD_LMAX + 1];
} ff_head_par;

typedef struct ff_head_edge {
    double d, x, u[3]; /* length, length / cutoff, direction: 0 where d is 0 */
} ff_head_edge;

FF_HD ff_head_edge ff_head_edge_of(const ff_head_par *p, const double v[3])
{
    ff_head_edge e;
    e.d = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    e.x = e.d / p->cutoff;
    for (int i = 0; i < 3; i++) e.u[i] = e.d > 0 ? v[i] / e.d : 0;
    return e;
}

/* ---- harmonics ----
 * In Cartesian form, so that the poles are points like any other: with (x + i y)^m = A_m + i B_m and
 * P_l^m = d^m P_l / dz^m, row (l, m > 0) is norm P_l^m(z) A_m, row (l, -m) is -norm P_l^m(z) B_m. */

/* q[l] = d^m P_l / dz^m at z for l = m .. lmax (0 below). */
FF_HD void ff_head_legendre(int lmax, int m, double z, double q[FF_HEAD_LMAX + 1])
{
    double start = 1;
    for (int k = 1; k <= m; k++) start *= 2 * k - 1;
    for (int l = 0; l <= FF_HEAD_LMAX; l++) {
        if (l > lmax || l < m)
            q[l] = 0;
        else if (l == m)
            q[l] = start;
        else if (l == m + 1)
            q[l] = (2 * m + 1) * z * q[l - 1];
        else
            q[l] = ((2 * l - 1) * z * q[l - 1] - (l + m - 1) * q[l - 2]) / (l - m);
    }
}

/* Row of (l, m) among degrees 1 .. lmax. */
FF_HD int ff_head_row(int l, int m)
{
    return l * l - 1 + l + m;
}

/* coupling [D - 1] of a unit vector; 0 for the zero vector, which has no direction. */
FF_HD void ff_head_coupling(const ff_head_par *p, const double u[3], double *coupling)
{
    const double none = u[0] == 0 && u[1] == 0 && u[2] == 0 ? 0 : 1;
    double a = none, b = 0, q[FF_HEAD_LMAX + 1];
    for (int m = 0; m <= p->lmax; m++) {
        ff_head_legendre(p->lmax, m, u[2], q);
        for (int l = m > 1 ? m : 1; l <= p->lmax; l++) {
            coupling[ff_head_row(l, m)] = p->norm[l][m] * q[l] * a;
            if (m > 0) coupling[ff_head_row(l, -m)] = -p->norm[l][m] * q[l] * b;
        }
        double next = a * u[0] - b * u[1];
        b = a * u[1] + b * u[0];
        a = next;
    }
}

/* du: gradient with respect to the direction of sum over rows of cot [D - 1] times coupling. Its part along u depends
 * on how the harmonics are continued off the sphere and is taken away by ff_head_edge_grad. */
FF_HD void ff_head_coupling_grad(const ff_head_par *p, const double u[3], const double *cot, double du[3])
{
    double a = 1, b = 0, a1 = 0, b1 = 0; /* of m and, in a1 and b1, of m - 1 */
    double q[FF_HEAD_LMAX + 1], q1[FF_HEAD_LMAX + 1];
    du[0] = du[1] = du[2] = 0;
    if (u[0] == 0 && u[1] == 0 && u[2] == 0) return;
    ff_head_legendre(p->lmax, 0, u[2], q);
    for (int m = 0; m <= p->lmax; m++) {
        double even = 0, odd = 0; /* sums of cotangent norm q for rows m and -m */
        ff_head_legendre(p->lmax, m + 1, u[2], q1);
        for (int l = m > 1 ? m : 1; l <= p->lmax; l++) {
            double c = cot[ff_head_row(l, m)] * p->norm[l][m];
            double s = m > 0 ? -cot[ff_head_row(l, -m)] * p->norm[l][m] : 0;
            even += c * q[l];
            odd += s * q[l];
            du[2] += (c * a + s * b) * q1[l];
        }
        du[0] += m * (even * a1 + odd * b1);
        du[1] += m * (odd * a1 - even * b1);
        a1 = a, b1 = b;
        a = a1 * u[0] - b1 * u[1];
        b = a1 * u[1] + b1 * u[0];
        for (int l = 0; l <= FF_HEAD_LMAX; l++) q[l] = q1[l];
    }
}

/* ---- envelope ---- */

/* E_p(x) = (1 - x)^4 sum over k < p of C(k + 3, 3) x^k; 0 from x = 1 on. */
FF_HD double ff_head_envelope(int p, double x)
{
    double sum = 0, y = 1 - x;
    if (!(x < 1)) return 0;
    for (int k = p - 1; k >= 0; k--) sum = sum * x + (k + 1) * (k + 2) / 2 * (k + 3) / 3.0;
    return y * y * (y * y) * sum;
}

/* dE_p/dx = -p (p + 1) (p + 2) (p + 3) / 6 x^(p - 1) (1 - x)^3: E_p is a regularised incomplete beta function. */
FF_HD double ff_head_envelope_dx(int p, double x)
{
    double power = 1, y = 1 - x;
    if (!(x < 1)) return 0;
    for (int k = 1; k < p; k++) power *= x;
    return -(double)(p * (p + 1)) * ((p + 2) * (p + 3)) / 6 * power * (y * y * y);
}

/* ---- radial basis ---- */

#define FF_HEAD_PI 3.14159265358979323846

/* (u cos u - sin u) / u^2 for |u| < 1, where the difference would cancel: sum over k >= 1 of
 * (-1)^k 2 k u^(2k-1) / (2k+1)!. */
FF_HD double ff_head_small_slope(double u)
{
    double sum = 0, u2 = u * u;
    for (int k = 9; k >= 2; k--) sum = (sum + 1) * -u2 * k / ((k - 1.0) * (2 * k) * (2 * k + 1));
    return -u / 3 * (sum + 1);
}

/* basis[n - 1] = E_p(x) sin(n pi x) / d for n = 1 .. n_radial; sin(n pi x) / d is n pi / cutoff at d = 0. sin and cos
 * of n pi x by rotation: one of each is evaluated. */
FF_HD void ff_head_basis(const ff_head_par *p, const ff_head_edge *e, double *basis)
{
    const double t = FF_HEAD_PI * e->x, s1 = sin(t), c1 = cos(t), env = ff_head_envelope(p->p_rbf, e->x);
    double s = s1, c = c1;
    for (int n = 1; n <= p->n_radial; n++) {
        basis[n - 1] = env * (e->d > 0 ? s / e->d : n * FF_HEAD_PI / p->cutoff);
        double next = s * c1 + c * s1;
        c = c * c1 - s * s1;
        s = next;
    }
}

/* Derivative with respect to d of sum over n of cot[n - 1] basis[n - 1]. */
FF_HD double ff_head_basis_grad(const ff_head_par *p, const ff_head_edge *e, const double *cot)
{
    const double t = FF_HEAD_PI * e->x, s1 = sin(t), c1 = cos(t), env = ff_head_envelope(p->p_rbf, e->x),
                 env_d = ff_head_envelope_dx(p->p_rbf, e->x) / p->cutoff;
    double s = s1, c = c1, sum = 0;
    for (int n = 1; n <= p->n_radial; n++) {
        const double w = n * FF_HEAD_PI / p->cutoff, nt = n * t;
        const double value = e->d > 0 ? s / e->d : w;
        const double slope = nt < 1 ? w * w * ff_head_small_slope(nt) : (w * c - value) / e->d;
        sum += cot[n - 1] * (env * slope + env_d * value);
        double next = s * c1 + c * s1;
        c = c * c1 - s * s1;
        s = next;
    }
    return sum;
}

/* ---- whole edge ---- */

/* dL/dv from dL/d(direction) and dL/d(length). */
FF_HD void ff_head_edge_grad(const ff_head_edge *e, const double du[3], double dd, double dv[3])
{
    const double along = e->u[0] * du[0] + e->u[1] * du[1] + e->u[2] * du[2];
    for (int i = 0; i < 3; i++) dv[i] = e->d > 0 ? (du[i] - e->u[i] * along) / e->d + e->u[i] * dd : 0;
}

#endif
