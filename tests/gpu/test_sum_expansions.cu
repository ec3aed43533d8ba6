/* Cartesian expansions on the host, as the device runs them: moments of points, to a parent, far, to a child, at points,
 * against direct pairs; every radial kernel and the Stokeslet's R. Needs no GPU. Seed 5. */
#define SUM_F64 1
#include "sum_cartesian.cuh"

#include <math.h>
#include <stdio.h>

enum { SEED = 5, N = 40 };

/* In [-1, 1), a pure function of k. */
static double at_random(int k)
{
    uint64_t z = (uint64_t)(k + 1000 * SEED) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (double)(z >> 11) * 0x1p-52 - 1;
}

/* Box 3 away: radii 0.87 of unit cubes, ratio 0.58; children of half the size and unit. */
template <int P> static double error_of(int kernel, const ff_radial_par *par, unsigned in)
{
    double up[CART_STRIDE(P)] = {0}, child[CART_STRIDE(P)] = {0}, l[CART_STRIDE(P)] = {0},
           lc[CART_STRIDE(P)] = {0};
    double m[CART_STRIDE(P)], t[CART_STRIDE(P)], f[P + 1], y[N][3], s[N][4];
    const double from[3] = {0.25, -0.25, 0.25}, to[3] = {2.4, 1.1, 1.3}, to_child[3] = {2.2, 1.0, 1.45};
    for (int j = 0; j < N; j++) {
        double x[3];
        for (int d = 0; d < 3; d++)
            y[j][d] = from[d] + 0.25 * at_random(7 * j + d), x[d] = 2 * (from[d] - y[j][d]);
        for (int c = 0; c < 4; c++) s[j][c] = at_random(7 * j + 3 + c);
        const double dipole[3] = {2 * s[j][1], 2 * s[j][2], 2 * s[j][3]};
        cart_monomials<P>(x, m);
        if (in & FF_SUM_CHARGE) cart_charge<P>(s[j][0], m, child);
        if (in & FF_SUM_DIPOLE) cart_dipole<P>(dipole, m, child);
    }
    const double back[3] = {-from[0], -from[1], -from[2]};
    cart_monomials<P>(back, m);
    cart_scale<P>(0.5, child);
    cart_up<P>(child, m, up);
    ff_radial_chain(kernel, par, ff_radial_argument(kernel, par, to[0], to[1], to[2]), 1, P, f);
    cart_tensor<P>(f, to, t);
    cart_far<P>(up, t, 1, l);
    const double shift[3] = {to_child[0] - to[0], to_child[1] - to[1], to_child[2] - to[2]};
    cart_monomials<P>(shift, m);
    cart_far<P>(m, l, 0.5, lc);
    double wrong = 0, size = 0;
    for (int i = 0; i < N; i++) {
        double x[3], out[4], exact[4] = {0, 0, 0, 0}, second[3][3];
        for (int d = 0; d < 3; d++) x[d] = 0.25 * at_random(1000 + 3 * i + d);
        const double u[3] = {2 * x[0], 2 * x[1], 2 * x[2]};
        cart_monomials<P>(u, m);
        cart_value<P>(lc, m, out);
        cart_second<P>(lc, m, second);
        for (int j = 0; j < N; j++) {
            const double *q = in & FF_SUM_CHARGE ? s[j] : s[j] + 1;
            ff_pair_radial(kernel, par, in, 1, to_child[0] + x[0] - y[j][0], to_child[1] + x[1] - y[j][1],
                           to_child[2] + x[2] - y[j][2], q, exact);
        }
        for (int c = 0; c < 4; c++) {
            wrong += pow(out[c] * (c > 0 ? 2 : 1) - exact[c], 2);
            size += exact[c] * exact[c];
        }
    }
    return sqrt(wrong / size);
}

int main(void)
{
    static const char *const name[] = {"1/r", "1/r^2.5", "log", "yukawa", "plummer"};
    static const ff_radial_par par[] = {
        {1, 1, 0, 0}, {2.5, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 1.5, 0}, {1, 1, 0, 0.04}};
    int failed = 0;
    printf("seed %d\n", SEED);
    for (int k = 0; k < 5; k++)
        for (unsigned in = 1; in <= 3; in++) {
            const double e[4] = {error_of<3>(k, &par[k], in), error_of<4>(k, &par[k], in),
                                 error_of<5>(k, &par[k], in), error_of<6>(k, &par[k], in)};
            /* A factor of about the ratio of radii to distance, 0.5, an order; dipoles lose one. */
            const int bad = !(e[3] < 0.5 * e[1] && e[1] < 0.2 && e[3] < 0.05);
            printf("%-8s in %u: %.2e %.2e %.2e %.2e%s\n", name[k], in, e[0], e[1], e[2], e[3],
                   bad ? " FAILED" : "");
            failed += bad;
        }
    return failed > 0;
}
