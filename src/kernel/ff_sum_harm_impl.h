/* Solid harmonics in vectors (ff_sum_harm.h), for one instruction set: pairs of nodes or points in lanes. Included after
 * ff_sum_tile_impl.h in the float64 files. */
#include "ff_sum_harm.h"

#define HC(l, m) ((l) * (l) + (m))
#define HS(l, m) ((l) * (l) + (l) + (m))

static inline vr load(const double *x)
{
    vr v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* ---- turns ---- */

/* out[2 r] = sum over c < n_in of mat[c][r] in[2 c], r < k <= 8. */
ALWAYS void swap_rows(const int k, const int n_in, const int ld, const double *mat, const vr *in, vr *out)
{
    vr acc[8];
    for (int r = 0; r < k; r++) acc[r] = (vr){0};
    for (int c = 0; c < n_in; c++) {
        const vr v = in[2 * c];
        for (int r = 0; r < k; r++) acc[r] = acc[r] + v_set1(mat[c * ld + r]) * v;
    }
    for (int r = 0; r < k; r++) out[2 * r] = acc[r];
}

ALWAYS const double *swap_block(const int n_out, const int n_in, const double *mat, const vr *in, vr *out)
{
    const int first = n_out > 8 ? 6 : n_out;
    swap_rows(first, n_in, n_out, mat, in, out);
    if (n_out > first) swap_rows(n_out - first, n_in, n_out, mat + first, in, out + 2 * first);
    return mat + n_out * n_in;
}

/* Numbers of parity to of the cosines of degree l come from those of parity l + to, of the sines (from m = 1, 2) from those of
 * parity l + to + 1. */
ALWAYS const double *swap_cosines(const int l, const int to, const double *mat, const vr *in, vr *out)
{
    const int from = (l + to) % 2;
    return swap_block((l - to) / 2 + 1, (l - from) / 2 + 1, mat, in + HC(l, from), out + HC(l, to));
}
ALWAYS const double *swap_sines(const int l, const int to, const double *mat, const vr *in, vr *out)
{
    const int from = 1 + (l + to) % 2;
    return swap_block((l - to) / 2 + 1, (l - from) / 2 + 1, mat, in + HS(l, from), out + HS(l, to));
}

/* Constant l: the blocks of a degree are so small that loops and jumps would cost more than what they do. */
ALWAYS const double *swap_degree(const int l, const double *mat, const vr *in, vr *out)
{
    mat = swap_cosines(l, 0, mat, in, out);
    mat = swap_cosines(l, 1, mat, in, out);
    mat = swap_sines(l, 1, mat, in, out);
    return l > 1 ? swap_sines(l, 2, mat, in, out) : mat;
}

static void swap_axes(const ff_harm *h, const vr *in, vr *out)
{
    const double *mat = h->swap;
    out[0] = in[0];
#define SWAP(l)                                                                                              \
    if (h->order < (l)) return;                                                                              \
    mat = swap_degree(l, mat, in, out)
    SWAP(1);
    SWAP(2);
    SWAP(3);
    SWAP(4);
    SWAP(5);
    SWAP(6);
    SWAP(7);
    SWAP(8);
    SWAP(9);
    SWAP(10);
    SWAP(11);
    SWAP(12);
    SWAP(13);
    SWAP(14);
    SWAP(15);
    SWAP(16);
    SWAP(17);
    SWAP(18);
    SWAP(19);
    SWAP(20);
#undef SWAP
    (void)mat;
}

/* Directions of the shifts d, |d| > 0 or the identity: cos and sin of m times the two angles, and |d|. */
typedef struct turn {
    vr c1[FF_HARM_N1], s1[FF_HARM_N1], c2[FF_HARM_N1], s2[FF_HARM_N1];
    vr length, inverse;
} turn;

static void multiples(int n1, vr c, vr s, vr *cs, vr *sn)
{
    cs[0] = v_set1(1);
    sn[0] = v_set1(0);
    for (int m = 1; m < n1; m++) {
        cs[m] = c * cs[m - 1] - s * sn[m - 1];
        sn[m] = s * cs[m - 1] + c * sn[m - 1];
    }
}

static void turn_to(int n1, vr dx, vr dy, vr dz, turn *t)
{
    const vr zero = {0}, one = v_set1(1);
    const vr rho2 = dx * dx + dy * dy, d2 = rho2 + dz * dz;
    const vr inv_rho = v_rsqrt0(rho2), rho = rho2 * inv_rho;
    t->inverse = v_rsqrt0(d2);
    t->length = d2 * t->inverse;
    multiples(n1, v_select((vi)(rho2 > zero), dy * inv_rho, one), dx * inv_rho, t->c1, t->s1);
    multiples(n1, v_select((vi)(d2 > zero), dz * t->inverse, one), -(rho * t->inverse), t->c2, t->s2);
}

/* Turn about z in place; back: by the opposite angle. f [n1]: factors of the degrees, NULL for 1. */
ALWAYS void turn_z(const int n1, const bool back, const vr *c, const vr *s, const vr *f, vr *v)
{
    if (f != NULL) v[0] = v[0] * f[0];
    for (int l = 1; l < n1; l++) {
        if (f != NULL) v[HC(l, 0)] = v[HC(l, 0)] * f[l];
        for (int m = 1; m <= l; m++) {
            vr a = v[HC(l, m)], b = v[HS(l, m)], cm = c[m], sm = back ? -s[m] : s[m];
            if (f != NULL) a = a * f[l], b = b * f[l];
            v[HC(l, m)] = cm * a - sm * b;
            v[HS(l, m)] = sm * a + cm * b;
        }
    }
}

/* ---- shifts along z ---- */

enum { UP, FAR, DOWN };

/* k rows of one m: out_l = sum over in of table. Powers pw only where they do not separate (UP, DOWN). */
ALWAYS void z_rows(const int k, const int kind, const bool sines, int n1, int m, int first,
                   const double *table, const vr *pw, const vr *in, vr *out)
{
    const int n = n1 - m;
    vr acc[2][4];
    for (int r = 0; r < k; r++) acc[0][r] = acc[1][r] = (vr){0};
    const int begin = kind == DOWN ? first : 0, end = kind == UP ? first + k : n;
    for (int c = begin; c < end; c++) {
        const vr vc = in[HC(c + m, m)], vs = sines ? in[HS(c + m, m)] : (vr){0};
        for (int r = 0; r < k; r++) {
            vr t;
            if (kind == FAR)
                t = v_set1(table[c * n + first + r]);
            else if (kind == UP)
                t = c > first + r ? (vr){0} : v_set1(table[c * n + first + r]) * pw[first + r - c];
            else
                t = c < first + r ? (vr){0} : v_set1(table[(first + r) * n + c]) * pw[c - first - r];
            acc[0][r] = acc[0][r] + t * vc;
            if (sines) acc[1][r] = acc[1][r] + t * vs;
        }
    }
    for (int r = 0; r < k; r++) {
        out[HC(first + r + m, m)] = acc[0][r];
        if (sines) out[HS(first + r + m, m)] = acc[1][r];
    }
}

ALWAYS void z_order(const int kind, const bool sines, int n1, int m, const double *table, const vr *pw,
                    const vr *in, vr *out)
{
    const int n = n1 - m;
    int r = 0;
    for (; r + 4 <= n; r += 4) z_rows(4, kind, sines, n1, m, r, table, pw, in, out);
    switch (n - r) {
    case 1:
        z_rows(1, kind, sines, n1, m, r, table, pw, in, out);
        break;
    case 2:
        z_rows(2, kind, sines, n1, m, r, table, pw, in, out);
        break;
    case 3:
        z_rows(3, kind, sines, n1, m, r, table, pw, in, out);
        break;
    }
}

ALWAYS void z_shift(const int kind, const ff_harm *h, const vr *pw, const vr *in, vr *out)
{
    const double *table = kind == FAR ? h->far : h->shift;
    z_order(kind, false, h->n1, 0, table, pw, in, out);
    for (int m = 1; m < h->n1; m++) {
        table += (h->n1 - m + 1) * (h->n1 - m + 1);
        z_order(kind, true, h->n1, m, table, pw, in, out);
    }
}

/* in is destroyed; the result, times the factors out_f, is in tmp. */
ALWAYS void shift_by(const int kind, const ff_harm *h, const turn *t, const vr *in_f, const vr *out_f,
                     const vr *pw, vr *in, vr *tmp)
{
    turn_z(h->n1, false, t->c1, t->s1, in_f, in);
    swap_axes(h, in, tmp);
    turn_z(h->n1, false, t->c2, t->s2, NULL, tmp);
    swap_axes(h, tmp, in);
    z_shift(kind, h, pw, in, tmp);
    swap_axes(h, tmp, in);
    turn_z(h->n1, true, t->c2, t->s2, NULL, in);
    swap_axes(h, in, tmp);
    turn_z(h->n1, true, t->c1, t->s1, out_f, tmp);
}

static void powers(int n1, vr x, vr first, vr *out)
{
    out[0] = first;
    for (int l = 1; l < n1; l++) out[l] = out[l - 1] * x;
}

#if FF_RSQRT == 2
/* Transposes 8 vectors. */
ALWAYS void transpose(__m512d v[8])
{
    __m512d a[8], b[8];
    for (int k = 0; k < 8; k += 2) {
        a[k] = _mm512_unpacklo_pd(v[k], v[k + 1]);
        a[k + 1] = _mm512_unpackhi_pd(v[k], v[k + 1]);
    }
    for (int k = 0; k < 2; k++) { /* 0x88: parts 0, 2 of both, 0xdd: parts 1, 3 */
        b[k] = _mm512_shuffle_f64x2(a[k], a[k + 2], 0x88);
        b[k + 2] = _mm512_shuffle_f64x2(a[k], a[k + 2], 0xdd);
        b[k + 4] = _mm512_shuffle_f64x2(a[k + 4], a[k + 6], 0x88);
        b[k + 6] = _mm512_shuffle_f64x2(a[k + 4], a[k + 6], 0xdd);
    }
    for (int k = 0; k < 4; k++) {
        v[k] = _mm512_shuffle_f64x2(b[k], b[k + 4], 0x88);
        v[k + 4] = _mm512_shuffle_f64x2(b[k], b[k + 4], 0xdd);
    }
}
#endif

/* Rows to lanes. n >= 1. */
static void gather(int n, const double *const *row, vr *v)
{
    int i = 0;
#if FF_RSQRT == 2
    for (; i + 8 <= n; i += 8) {
        __m512d w[8];
        for (int k = 0; k < 8; k++) w[k] = _mm512_loadu_pd(row[k] + i);
        transpose(w);
        memcpy(v + i, w, sizeof w);
    }
    if (i == n) return;
#endif
    double *to = (double *)v;
    do {
        for (int k = 0; k < FF_W; k++) to[i * FF_W + k] = row[k][i];
    } while (++i < n);
}

static double lanes_added(vr v)
{
    double sum = 0;
    for (int k = 0; k < FF_W; k++) sum += v[k];
    return sum;
}

/* out[i] += the lanes of v[i], added in order. */
static void add_lanes(int n, const vr *v, double *out)
{
    int i = 0;
#if FF_RSQRT == 2
    for (; i + 8 <= n; i += 8) {
        __m512d w[8];
        memcpy(w, v + i, sizeof w);
        transpose(w);
        for (int k = 1; k < 8; k++) w[0] = w[0] + w[k];
        _mm512_storeu_pd(out + i, _mm512_loadu_pd(out + i) + w[0]);
    }
#endif
    for (; i < n; i++) out[i] += lanes_added(v[i]);
}

static void TILE(harm_far)(const ff_harm *h, const ff_harm_nodes *from, const int32_t *list, int64_t n,
                           const ff_harm_nodes *to, int32_t target)
{
    vr in[FF_HARM_MAX], tmp[FF_HARM_MAX], sum[FF_HARM_MAX], in_f[FF_HARM_N1], out_f[FF_HARM_N1];
    const double *c = to->mid + 3 * (int64_t)target;
    turn t;
    for (int i = 0; i < h->n; i++) sum[i] = (vr){0};
    for (int64_t at = 0; at < n; at += FF_W) {
        const int some = n - at < FF_W ? (int)(n - at) : FF_W;
        const double *row[FF_W];
        double d[5][FF_W];               /* shift, radius, 1 */
        for (int k = 0; k < FF_W; k++) { /* lanes in excess repeat the last node, times 0 */
            const int64_t i = list[at + (k < some ? k : some - 1)];
            row[k] = from->row + i * from->ld;
            for (int a = 0; a < 3; a++) d[a][k] = c[a] - from->mid[3 * i + a];
            d[3][k] = from->radius[i];
            d[4][k] = k < some ? 1 : 0;
        }
        turn_to(h->n1, load(d[0]), load(d[1]), load(d[2]), &t);
        powers(h->n1, load(d[3]) * t.inverse, load(d[4]), in_f);
        powers(h->n1, v_set1(to->radius[target]) * t.inverse, t.inverse, out_f);
        gather(h->n, row, in);
        shift_by(FAR, h, &t, in_f, out_f, NULL, in, tmp);
        for (int i = 0; i < h->n; i++) sum[i] = sum[i] + tmp[i];
    }
    add_lanes(h->n, sum, to->row + target * to->ld);
}

/* The shift between a parent and two children, in the first two lanes. */
ALWAYS void family(const int kind, const ff_harm *h, const ff_harm_nodes *nodes, int32_t parent,
                   const int32_t child[2], vr *in, vr *tmp)
{
    vr in_f[FF_HARM_N1], pw[FF_HARM_N1];
    double d[4][FF_W] = {{0}}; /* shift, radius of the child; lanes but two are not used */
    const double s = nodes->radius[parent];
    const double *row[FF_W];
    turn t;
    for (int k = 0; k < FF_W; k++) row[k] = nodes->row + (kind == UP ? child[0] : parent) * nodes->ld;
    for (int k = 0; k < 2; k++) {
        row[k] = nodes->row + (kind == UP ? child[k] : parent) * nodes->ld;
        d[3][k] = nodes->radius[child[k]];
        for (int a = 0; a < 3; a++)
            d[a][k] = nodes->mid[3 * (int64_t)child[k] + a] - nodes->mid[3 * (int64_t)parent + a];
    }
    turn_to(h->n1, load(d[0]), load(d[1]), load(d[2]), &t);
    powers(h->n1, load(d[3]) * v_set1(1 / s), v_set1(1), in_f);
    powers(h->n1, t.length * v_set1(1 / s), v_set1(1), pw);
    gather(h->n, row, in);
    if (kind == UP)
        shift_by(UP, h, &t, in_f, NULL, pw, in, tmp);
    else
        shift_by(DOWN, h, &t, NULL, in_f, pw, in, tmp);
}

static void TILE(harm_up)(const ff_harm *h, const ff_harm_nodes *nodes, int32_t parent,
                          const int32_t child[2])
{
    vr in[FF_HARM_MAX], tmp[FF_HARM_MAX];
    family(UP, h, nodes, parent, child, in, tmp);
    double *out = nodes->row + parent * nodes->ld;
    for (int i = 0; i < h->n; i++) out[i] += tmp[i][0] + tmp[i][1];
}

static void TILE(harm_down)(const ff_harm *h, const ff_harm_nodes *nodes, int32_t parent,
                            const int32_t child[2])
{
    vr in[FF_HARM_MAX], tmp[FF_HARM_MAX];
    family(DOWN, h, nodes, parent, child, in, tmp);
    for (int k = 0; k < 2; k++) {
        double *out = nodes->row + child[k] * nodes->ld;
        for (int i = 0; i < h->n; i++) out[i] += tmp[i][k];
    }
}

/* ---- points ---- */

/* R_lm of a vector of points. */
static void regular(const ff_harm *h, vr x, vr y, vr z, vr *r)
{
    const vr r2 = x * x + y * y + z * z;
    r[0] = v_set1(1);
    for (int m = 0; m < h->n1; m++) {
        if (m > 0) {
            const vr f = v_set1(h->diagonal[m]), c = r[HC(m - 1, m - 1)],
                     s = m > 1 ? r[HS(m - 1, m - 1)] : (vr){0};
            r[HC(m, m)] = f * (x * c - y * s);
            r[HS(m, m)] = f * (x * s + y * c);
        }
        for (int l = m + 1; l < h->n1; l++) {
            const vr az = v_set1(h->a[HC(l, m)]) * z, br = v_set1(h->b[HC(l, m)]) * r2;
            r[HC(l, m)] = az * r[HC(l - 1, m)] - (l > m + 1 ? br * r[HC(l - 2, m)] : (vr){0});
            if (m > 0) r[HS(l, m)] = az * r[HS(l - 1, m)] - (l > m + 1 ? br * r[HS(l - 2, m)] : (vr){0});
        }
    }
}

/* R_lm of points [at, at + FF_W), those in excess at the middle of the node. */
static void regular_at(const ff_harm *h, const ff_harm_points *p, int64_t at, vr *r)
{
    const double inverse = 1 / p->radius;
    double x[3][FF_W] = {{0}};
    for (int k = 0; k < FF_W && at + k < p->n; k++)
        for (int a = 0; a < 3; a++) x[a][k] = (p->x[3 * (at + k) + a] - p->mid[a]) * inverse;
    regular(h, load(x[0]), load(x[1]), load(x[2]), r);
}

/* out [n_comp][n] = sum over points of R_lm times numbers first .. first + n_comp of q. */
static void TILE(harm_gather)(const ff_harm *h, const ff_harm_points *p, const double *q, int n_comp,
                              double *out)
{
    vr r[FF_HARM_MAX], sum[4][FF_HARM_MAX];
    for (int c = 0; c < n_comp; c++)
        for (int i = 0; i < h->n; i++) sum[c][i] = (vr){0};
    for (int64_t at = 0; at < p->n; at += FF_W) {
        regular_at(h, p, at, r);
        for (int c = 0; c < n_comp; c++) {
            double v[FF_W] = {0};
            for (int k = 0; k < FF_W && at + k < p->n; k++) v[k] = q[(at + k) * p->ld + c];
            for (int i = 0; i < h->n; i++) sum[c][i] = sum[c][i] + load(v) * r[i];
        }
    }
    for (int c = 0; c < n_comp; c++)
        for (int i = 0; i < h->n; i++) out[c * h->n + i] = lanes_added(sum[c][i]);
}

/* u += sum over lm of in [n_comp][n] R_lm. */
static void TILE(harm_spread)(const ff_harm *h, const ff_harm_points *p, const double *in, int n_comp,
                              double *u)
{
    vr r[FF_HARM_MAX];
    for (int64_t at = 0; at < p->n; at += FF_W) {
        regular_at(h, p, at, r);
        for (int c = 0; c < n_comp; c++) {
            vr sum[4] = {{0}, {0}, {0}, {0}};
            int i = 0;
            for (; i + 4 <= h->n; i += 4)
                for (int k = 0; k < 4; k++) sum[k] = sum[k] + v_set1(in[c * h->n + i + k]) * r[i + k];
            for (; i < h->n; i++) sum[0] = sum[0] + v_set1(in[c * h->n + i]) * r[i];
            const vr all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
            for (int k = 0; k < FF_W && at + k < p->n; k++) u[(at + k) * p->ld + c] += all[k];
        }
    }
}

#undef HC
#undef HS
