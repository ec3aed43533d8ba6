/* Cartesian Taylor expansions of radial kernels: what a node of the tree stands for.
 *
 * K(x - y) with x = X + t, y = Y + s, D = X - Y, multi-indices a, b of degree |a| + |b| <= P:
 *
 *     moments  M_a = sum_j q_j (-s_j)^a / a!         (dipole m: the derivative of that by s along m)
 *     far      L_b = sum_a M_a T_{a+b},   T_c = d^c K (D)
 *     values   phi = sum_b L_b t^b / b!,  its derivatives by those of the monomials
 *
 * Everything is scaled: lengths of a node by its h, so M_a is over h^|a|, T_c times h^|c| and L_b times h^|b|; numbers
 * stay of the size of densities, in float32 too. T follows from the derivatives of K by R alone,
 * f_n = ((1 / R) d/dR)^n K, by T^n_0 = f_n, T^n_{a+e} = D_e T^{n+1}_a + a_e T^{n+1}_{a-e} (as McMurchie and Davidson,
 * J. Comput. Phys. 26, 218, do for Gaussians).
 *
 * Multi-indices are numbered by degree. All places are template arguments, so arrays stay in registers whatever a
 * compiler makes of loops. */
#ifndef SUM_CARTESIAN_CUH
#define SUM_CARTESIAN_CUH

#include "sum_lanes.cuh"

#include <utility> /* index_sequence */

#define CART_N(P)      (((P) + 1) * ((P) + 2) * ((P) + 3) / 6)
#define CART_STRIDE(P) ((CART_N(P) + 3) / 4 * 4) /* numbers of an expansion in memory */
#define CART_HD        static __host__ __device__ __forceinline__

template <int P> struct cart_table {
    unsigned char degree[CART_N(P)];
    unsigned char plus[CART_N(P)][CART_N(P)]; /* of two whose degrees are at most P together */
    unsigned char axis[CART_N(P)]; /* along which the derivative of a number is made from lower ones: */
    unsigned char low[CART_N(P)];  /* one step down, */
    unsigned char low2[CART_N(P)], times[CART_N(P)]; /* two steps down, times the exponent less 1 */
};

CART_HD constexpr int cart_at(int i, int j, int k)
{
    const int n = i + j + k, m = j + k;
    return n * (n + 1) * (n + 2) / 6 + m * (m + 1) / 2 + k;
}

template <int P> __host__ __device__ constexpr cart_table<P> cart_make()
{
    cart_table<P> f = {};
    int at[CART_N(P)][3] = {}, n = 0;
    for (int g = 0; g <= P; g++)
        for (int m = 0; m <= g; m++)
            for (int k = 0; k <= m; k++, n++) {
                int e[3] = {g - m, m - k, k}, axis = 0;
                for (int d = 2; d >= 0; d--)
                    if (e[d] > 0) axis = d;
                for (int d = 0; d < 3; d++)
                    if (e[d] == 1) axis = d; /* needs no second term */
                for (int d = 0; d < 3; d++) at[n][d] = e[d];
                f.degree[n] = (unsigned char)g;
                f.axis[n] = (unsigned char)axis;
                f.times[n] = (unsigned char)(g > 0 ? e[axis] - 1 : 0);
                if (g > 0) {
                    e[axis]--;
                    f.low[n] = (unsigned char)cart_at(e[0], e[1], e[2]);
                    if (e[axis] > 0) {
                        e[axis]--;
                        f.low2[n] = (unsigned char)cart_at(e[0], e[1], e[2]);
                    }
                }
            }
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (f.degree[a] + f.degree[b] <= P)
                f.plus[a][b] =
                    (unsigned char)cart_at(at[a][0] + at[b][0], at[a][1] + at[b][1], at[a][2] + at[b][2]);
    return f;
}

template <int P> static constexpr cart_table<P> cart = cart_make<P>();

/* Entries as constants of their own: device code has no table. */
template <int P, int A, int B> struct cart_plus {
    enum { at = cart<P>.plus[A][B] };
};
template <int P, int A> struct cart_of {
    enum { degree = cart<P>.degree[A], axis = cart<P>.axis[A], low = cart<P>.low[A], low2 = cart<P>.low2[A] };
    enum { times = cart<P>.times[A], exponent = times + 1 };
    enum { n_with = CART_N(P - degree) }; /* that fit in beside it */
};

#define CART_EACH(n) std::make_integer_sequence<int, (n)>()
template <int... A> using cart_list = std::integer_sequence<int, A...>;

/* t from f [P + 1] and D over h. In place: numbers of high degree first, so that lower ones are still those of n + 1. */
template <int P, int A> CART_HD void cart_tensor_one(const real *d, real *t)
{
    typedef cart_of<P, A> of;
    if constexpr (of::times > 0)
        t[A] = d[of::axis] * t[of::low] + (real)of::times * t[of::low2];
    else
        t[A] = d[of::axis] * t[of::low];
}

template <int P, int N, int... A> CART_HD void cart_tensor_step(const real *d, real *t, cart_list<A...>)
{
    (cart_tensor_one<P, CART_N(P - N) - 1 - A>(d, t), ...);
}

template <int P, int N> CART_HD void cart_tensor_from(const real *f, const real *d, real *t)
{
    cart_tensor_step<P, N>(d, t, CART_EACH(CART_N(P - N) - 1));
    t[0] = f[N];
    if constexpr (N > 0) cart_tensor_from<P, N - 1>(f, d, t);
}

template <int P> CART_HD void cart_tensor(const real *f, const real *d, real *t)
{
    t[0] = f[P];
    cart_tensor_from<P, P - 1>(f, d, t);
}

/* m_a = x^a / a! */
template <int P, int A> CART_HD void cart_monomial(const real *x, real *m)
{
    typedef cart_of<P, A> of;
    m[A] = m[of::low] * (x[of::axis] * (real)(1.0 / of::exponent));
}

template <int P, int... A> CART_HD void cart_monomials_of(const real *x, real *m, cart_list<A...>)
{
    (cart_monomial<P, A + 1>(x, m), ...);
}

template <int P> CART_HD void cart_monomials(const real *x, real *m)
{
    m[0] = 1;
    cart_monomials_of<P>(x, m, CART_EACH(CART_N(P) - 1));
}

template <int P> CART_HD void cart_powers(real ratio, real *power)
{
    power[0] = 1;
    for (int g = 1; g <= P; g++) power[g] = power[g - 1] * ratio;
}

/* v_a times ratio^|a|. */
template <int P, int... A> CART_HD void cart_scale_of(const real *power, real *v, cart_list<A...>)
{
    ((v[A] *= power[cart_of<P, A>::degree]), ...);
}

template <int P> CART_HD void cart_scale(real ratio, real *v)
{
    real power[P + 1];
    cart_powers<P>(ratio, power);
    cart_scale_of<P>(power, v, CART_EACH(CART_N(P)));
}

/* l_b += ratio^|b| sum_a q_a t_{a+b}: far pairs; and a parent's L (t) for a child whose monomials are q. */
template <int P, int B, int... A>
CART_HD void cart_far_one(const real *q, const real *t, const real *power, real *l, cart_list<A...>)
{
    real s = 0;
    ((s += q[A] * t[cart_plus<P, A, B>::at]), ...);
    l[B] += power[cart_of<P, B>::degree] * s;
}

template <int P, int... B>
CART_HD void cart_far_of(const real *q, const real *t, const real *power, real *l, cart_list<B...>)
{
    (cart_far_one<P, B>(q, t, power, l, CART_EACH((cart_of<P, B>::n_with))), ...);
}

template <int P> CART_HD void cart_far(const real *q, const real *t, real ratio, real *l)
{
    real power[P + 1];
    cart_powers<P>(ratio, power);
    cart_far_of<P>(q, t, power, l, CART_EACH(CART_N(P)));
}

/* Adds a child's moments, scaled to its parent's h, to the parent's; m: monomials of (parent - child) / h. */
template <int P, int B, int... A>
CART_HD void cart_up_one(const real *child, const real *m, real *parent, cart_list<A...>)
{
    ((parent[cart_plus<P, A, B>::at] += child[A] * m[B]), ...);
}

template <int P, int... B>
CART_HD void cart_up_of(const real *child, const real *m, real *parent, cart_list<B...>)
{
    (cart_up_one<P, B>(child, m, parent, CART_EACH((cart_of<P, B>::n_with))), ...);
}

template <int P> CART_HD void cart_up(const real *child, const real *m, real *parent)
{
    cart_up_of<P>(child, m, parent, CART_EACH(CART_N(P)));
}

/* Moments of a point: m its monomials of -s / h; a charge, a dipole over h. */
template <int P, int... A> CART_HD void cart_charge_of(real charge, const real *m, real *q, cart_list<A...>)
{
    ((q[A] += charge * m[A]), ...);
}

template <int P> CART_HD void cart_charge(real charge, const real *m, real *q)
{
    cart_charge_of<P>(charge, m, q, CART_EACH(CART_N(P)));
}

template <int P, int E, int... A> CART_HD void cart_dipole_of(real d, const real *m, real *q, cart_list<A...>)
{
    ((q[cart_plus<P, A, 1 + E>::at] -= d * m[A]), ...);
}

template <int P> CART_HD void cart_dipole(const real *d, const real *m, real *q)
{
    cart_dipole_of<P, 0>(d[0], m, q, CART_EACH(CART_N(P - 1)));
    cart_dipole_of<P, 1>(d[1], m, q, CART_EACH(CART_N(P - 1)));
    cart_dipole_of<P, 2>(d[2], m, q, CART_EACH(CART_N(P - 1)));
}

/* Derivative of an expansion along E, times h; m: monomials of t / h. */
template <int P, int E, int... A> CART_HD real cart_slope(const real *l, const real *m, cart_list<A...>)
{
    real s = 0;
    ((s += l[cart_plus<P, A, 1 + E>::at] * m[A]), ...);
    return s;
}

template <int P, int... A> CART_HD real cart_level(const real *l, const real *m, cart_list<A...>)
{
    real s = 0;
    ((s += l[A] * m[A]), ...);
    return s;
}

/* Value [0] and derivatives by t / h [1 .. 3]. */
template <int P> CART_HD void cart_value(const real *l, const real *m, real *out)
{
    out[0] = cart_level<P>(l, m, CART_EACH(CART_N(P)));
    out[1] = cart_slope<P, 0>(l, m, CART_EACH(CART_N(P - 1)));
    out[2] = cart_slope<P, 1>(l, m, CART_EACH(CART_N(P - 1)));
    out[3] = cart_slope<P, 2>(l, m, CART_EACH(CART_N(P - 1)));
}

template <int P, int X, int Y, int... A> CART_HD real cart_bend(const real *l, const real *m, cart_list<A...>)
{
    real s = 0;
    ((s += l[cart_plus<P, cart_plus<P, A, 1 + X>::at, 1 + Y>::at] * m[A]), ...);
    return s;
}

/* Second derivatives by t / h. */
template <int P> CART_HD void cart_second(const real *l, const real *m, real out[3][3])
{
    out[0][0] = cart_bend<P, 0, 0>(l, m, CART_EACH(CART_N(P - 2)));
    out[1][1] = cart_bend<P, 1, 1>(l, m, CART_EACH(CART_N(P - 2)));
    out[2][2] = cart_bend<P, 2, 2>(l, m, CART_EACH(CART_N(P - 2)));
    out[0][1] = out[1][0] = cart_bend<P, 0, 1>(l, m, CART_EACH(CART_N(P - 2)));
    out[0][2] = out[2][0] = cart_bend<P, 0, 2>(l, m, CART_EACH(CART_N(P - 2)));
    out[1][2] = out[2][1] = cart_bend<P, 1, 2>(l, m, CART_EACH(CART_N(P - 2)));
}

#endif
