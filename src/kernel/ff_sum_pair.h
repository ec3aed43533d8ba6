/* One pair of an analytic kernel: the only place where a kernel's mathematics stands, for CPU and CUDA.
 *
 * The includer defines vr, a type of one or several lanes with + - * (double, float, or a vector of them), and
 *     v_set1(c)      c in each lane
 *     v_rsqrt0(x)    1 / sqrt(x), 0 where x = 0
 *     v_log0(x)      log(x), 0 where x = 0
 *     v_exp_any(x)   exp(x)
 *     v_nonzero(x, y)  y, 0 where x = 0
 * and may define v_rsqrt_positive(x), 1 / sqrt(x) for x > 0
 *
 * To add a radial kernel: a constant in ff_sum_kernel, a function like those below, a case in ff_radial, a row of
 * ff_sum_kernel_rows (ff_sum_tile.c). Potential, gradient, dipoles, adjoint, tiles and expansions follow. */
#ifndef FF_SUM_PAIR_H
#define FF_SUM_PAIR_H

#include "ff_hd.h"

#ifndef v_rsqrt_positive
#define v_rsqrt_positive v_rsqrt0
#endif

/* Numbers of a kernel, ready for the pair. */
typedef struct ff_radial_par {
    double power;      /* of 1 / R^k */
    int whole_power;   /* the same if it is an integer from 1 to 16, else 0 */
    double kappa;      /* Yukawa */
    double softening2; /* eps^2 */
} ff_radial_par;

/* K(R), g = K'(R) / R and h = g'(R) / R: with d = x - y, grad_x K = g d and its derivative is g I + h d d^T. */
typedef struct ff_radial_value {
    vr k, g, h;
} ff_radial_value;

FF_HD ff_radial_value ff_radial_of_inverse(vr u)
{
    ff_radial_value v;
    vr u2 = u * u;
    v.k = u;
    v.g = -(u * u2);
    v.h = v_set1(3) * (u * u2) * u2;
    return v;
}

FF_HD ff_radial_value ff_radial_inv_r(vr r2)
{
    return ff_radial_of_inverse(v_rsqrt0(r2));
}

FF_HD ff_radial_value ff_radial_power(const ff_radial_par *p, vr r2)
{
    ff_radial_value v;
    vr u = v_rsqrt0(r2), u2 = u * u;
    if (p->whole_power > 0) {
        vr w = p->whole_power % 2 != 0 ? u : v_set1(1);
        for (int i = 1; i < p->whole_power; i += 2) w = w * u2;
        v.k = w;
    } else {
        v.k = v_exp_any(v_set1(-0.5 * p->power) * v_log0(r2));
    }
    v.g = v_set1(-p->power) * v.k * u2; /* 0 where R = 0 */
    v.h = v_set1(-p->power - 2) * v.g * u2;
    v.k = v_nonzero(r2, v.k);
    return v;
}

FF_HD ff_radial_value ff_radial_log(vr r2)
{
    ff_radial_value v;
    vr u = v_rsqrt0(r2), u2 = u * u;
    v.k = v_set1(0.5) * v_log0(r2);
    v.g = u2;
    v.h = v_set1(-2) * u2 * u2;
    return v;
}

FF_HD ff_radial_value ff_radial_yukawa(const ff_radial_par *p, vr r2)
{
    ff_radial_value v;
    vr u = v_rsqrt0(r2), u2 = u * u, a = v_set1(p->kappa) * (r2 * u);
    v.k = v_exp_any(-a) * u;
    v.g = -(v.k * u2) * (v_set1(1) + a);
    v.h = (v.k * u2) * u2 * (v_set1(3) + a * (v_set1(3) + a));
    return v;
}

FF_HD ff_radial_value ff_radial_plummer(vr softened_r2)
{
    return ff_radial_of_inverse(v_rsqrt_positive(softened_r2));
}

/* What a radial kernel is a function of: R^2, with Plummer softening R^2 + eps^2. */
FF_HD vr ff_radial_argument(int kernel, const ff_radial_par *p, vr dx, vr dy, vr dz)
{
    vr r2 = dx * dx;
    if (kernel == FF_SUM_PLUMMER) r2 = r2 + v_set1(p->softening2);
    return r2 + dy * dy + dz * dz;
}

FF_HD ff_radial_value ff_radial(int kernel, const ff_radial_par *p, vr r2)
{
    switch (kernel) {
    case FF_SUM_POWER:
        return ff_radial_power(p, r2);
    case FF_SUM_LOG:
        return ff_radial_log(r2);
    case FF_SUM_YUKAWA:
        return ff_radial_yukawa(p, r2);
    case FF_SUM_PLUMMER:
        return ff_radial_plummer(r2);
    default:
        return ff_radial_inv_r(r2);
    }
}

/* f[n] = h^2n ((1 / R) d/dR)^n K for n = 0 .. p. r2: ff_radial_argument > 0; h2 = h^2. */
FF_HD void ff_radial_chain(int kernel, const ff_radial_par *par, vr r2, vr h2, int p, vr *f)
{
    const vr u = v_rsqrt_positive(r2), w = u * u * h2;
    if (kernel == FF_SUM_YUKAWA) {
        /* K w^n times the reverse Bessel polynomials of kappa R */
        const vr x = v_set1(par->kappa) * (r2 * u);
        vr low = v_set1(1), high = v_set1(1) + x, scale = v_exp_any(-x) * u;
        f[0] = scale;
        for (int n = 1; n <= p; n++) {
            scale = -(scale * w);
            f[n] = scale * high;
            const vr next = v_set1(2 * n + 1) * high + x * x * low;
            low = high;
            high = next;
        }
        return;
    }
    const vr k = kernel == FF_SUM_POWER ? v_set1(par->power) : kernel == FF_SUM_LOG ? v_set1(0) : v_set1(1);
    f[0] = kernel == FF_SUM_LOG     ? v_set1(0.5) * v_log0(r2)
           : kernel == FF_SUM_POWER ? ff_radial_power(par, r2).k
                                    : u;
    for (int n = 1; n <= p; n++) {
        if (kernel == FF_SUM_LOG && n == 1)
            f[n] = w;
        else
            f[n] = -(k + v_set1(2 * n - 2)) * w * f[n - 1];
    }
}

/* What a source carries and what a target receives. */
enum { FF_SUM_CHARGE = 1, FF_SUM_DIPOLE = 2 };

/* Adds the pair to out: [0] potential, [1..3] gradient (only if grad). s: charge (if in has it), then dipole.
 *   phi = q K - g (m . d)        grad phi = q g d - g m - h (m . d) d */
FF_HD void ff_pair_radial(int kernel, const ff_radial_par *p, unsigned in, int grad, vr dx, vr dy, vr dz,
                          const vr *s, vr *out)
{
    ff_radial_value v = ff_radial(kernel, p, ff_radial_argument(kernel, p, dx, dy, dz));
    if ((in & FF_SUM_CHARGE) != 0) {
        out[0] = out[0] + s[0] * v.k;
        if (grad) {
            vr f = s[0] * v.g;
            out[1] = out[1] + f * dx;
            out[2] = out[2] + f * dy;
            out[3] = out[3] + f * dz;
        }
    }
    if ((in & FF_SUM_DIPOLE) != 0) {
        const vr *m = s + (in & FF_SUM_CHARGE);
        vr md = m[0] * dx + m[1] * dy + m[2] * dz;
        out[0] = out[0] - v.g * md;
        if (grad) {
            vr f = v.h * md;
            out[1] = out[1] - (v.g * m[0] + f * dx);
            out[2] = out[2] - (v.g * m[1] + f * dy);
            out[3] = out[3] - (v.g * m[2] + f * dz);
        }
    }
}

/* Stokeslet: out [0..2] velocity, then (if grad) its derivative [3 + 3 i + j] = du_i / dx_j. s: force.
 *   u = f / R + d (f . d) / R^3
 *   du_i/dx_j = (-f_i d_j + f_j d_i + delta_ij (f . d)) / R^3 - 3 (f . d) d_i d_j / R^5 */
FF_HD void ff_pair_stokeslet(int grad, vr dx, vr dy, vr dz, const vr *s, vr *out)
{
    vr d[3] = {dx, dy, dz};
    vr u = v_rsqrt0(dx * dx + dy * dy + dz * dz), u2 = u * u, u3 = u * u2;
    vr fd = (s[0] * dx + s[1] * dy + s[2] * dz) * u3;
    for (int i = 0; i < 3; i++) out[i] = out[i] + (s[i] * u + fd * d[i]);
    if (!grad) return;
    vr w = v_set1(-3) * fd * u2;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            vr a = u3 * (s[j] * d[i] - s[i] * d[j]) + w * (d[i] * d[j]);
            out[3 + 3 * i + j] = out[3 + 3 * i + j] + (i == j ? a + fd : a);
        }
}

#endif
