/* Tables of solid harmonics, derivatives of expansions, and the choice of the instruction set. */
#include "ff_sum_harm.h"

#include "ff_mem.h"
#include "ff_sum_isa.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

static int at_c(int l, int m)
{
    return l * l + m;
}
static int at_s(int l, int m)
{
    return l * l + l + m;
}

/* n! as a product: exact up to 22!, then to rounding. */
static double factorial(int n)
{
    double f = 1;
    for (int i = 2; i <= n; i++) f *= i;
    return f;
}

/* (l - m) P_l = (2 l - 1) z P_(l-1) - (l + m - 1) P_(l-2) and P_m = (2 m - 1) rho P_(m-1), with the factors of C_lm. */
static void init_recursion(ff_harm *h)
{
    for (int l = 0; l < h->n1; l++) {
        if (l > 0) h->diagonal[l] = l == 1 ? 1 : sqrt((2 * l - 1) / (2.0 * l));
        for (int m = 0; m <= l; m++) {
            const double f = 1 / sqrt((double)(l + m) * (l - m));
            h->norm[at_c(l, m)] = sqrt(factorial(l - m) * factorial(l + m));
            if (m == l) continue;
            h->a[at_c(l, m)] = (2 * l - 1) * f;
            h->b[at_c(l, m)] = sqrt((double)(l + m - 1) * (l - m - 1)) * f;
        }
    }
}

static void init_shifts(ff_harm *h)
{
    double *far = h->far, *shift = h->shift;
    for (int m = 0; m < h->n1; m++)
        for (int k = m; k < h->n1; k++)
            for (int l = m; l < h->n1; l++) {
                const double nk = h->norm[at_c(k, m)], nl = h->norm[at_c(l, m)];
                *far++ = ((l + m) % 2 != 0 ? -1 : 1) * (factorial(l + k) / nk / nl);
                *shift++ = l < k ? 0 : nl / nk / factorial(l - k);
            }
}

/* All R_lm of one place, by the recursion of the vectors. */
static void regular(const ff_harm *h, const double x[3], double *r)
{
    const double r2 = x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
    r[0] = 1;
    for (int m = 0; m < h->n1; m++) {
        if (m > 0) {
            const double c = r[at_c(m - 1, m - 1)], s = m > 1 ? r[at_s(m - 1, m - 1)] : 0;
            r[at_c(m, m)] = h->diagonal[m] * (x[0] * c - x[1] * s);
            r[at_s(m, m)] = h->diagonal[m] * (x[0] * s + x[1] * c);
        }
        for (int l = m + 1; l < h->n1; l++)
            for (int k = 0; k <= (m > 0); k++) {
                const double *p = r + (k == 0 ? m : l - 1 + m), *pp = r + (k == 0 ? m : l - 2 + m);
                const double before = l > m + 1 ? pp[(l - 2) * (l - 2)] : 0;
                r[k == 0 ? at_c(l, m) : at_s(l, m)] =
                    h->a[at_c(l, m)] * x[2] * p[(l - 1) * (l - 1)] - h->b[at_c(l, m)] * r2 * before;
            }
    }
}

/* Zeros of the Legendre polynomial of degree n in (-1, 1), and the weights of Gauss. */
static void gauss(int n, double *x, double *w)
{
    for (int i = 0; i < n; i++) {
        double z = cos(PI * (i + 0.75) / (n + 0.5)), slope = 1;
        for (int it = 0; it < 10; it++) {
            double p = 1, before = 0;
            for (int l = 1; l <= n; l++) {
                const double next = ((2 * l - 1) * z * p - (l - 1) * before) / l;
                before = p;
                p = next;
            }
            slope = n * (z * p - before) / (z * z - 1);
            z -= p / slope;
        }
        x[i] = z;
        w[i] = 2 / ((1 - z * z) * slope * slope);
    }
}

/* full [n][n], of which blocks of one degree are filled: R_i(z, y, x) = sum over j of full[i][j] R_j(x, y, z), from
 * full[i][j] = (2 l + 1) / (4 pi) times the integral of R_i(z, y, x) R_j(x, y, z) over the sphere, by a rule that is exact. */
static void exchange(const ff_harm *h, double *full)
{
    double node[FF_HARM_N1], weight[FF_HARM_N1], u[FF_HARM_MAX], v[FF_HARM_MAX];
    const int n_phi = 2 * h->n1;
    gauss(h->n1, node, weight);
    for (int i = 0; i < h->n1; i++)
        for (int k = 0; k < n_phi; k++) {
            const double rho = sqrt(1 - node[i] * node[i]), phi = 2 * PI * k / n_phi;
            const double x[3] = {rho * cos(phi), rho * sin(phi), node[i]}, swapped[3] = {x[2], x[1], x[0]};
            regular(h, x, u);
            regular(h, swapped, v);
            for (int l = 0; l < h->n1; l++)
                for (int a = l * l; a < (l + 1) * (l + 1); a++)
                    for (int b = l * l; b < (l + 1) * (l + 1); b++)
                        full[a * h->n + b] += weight[i] / n_phi * (2 * l + 1) / 2 * v[a] * u[b];
        }
}

static double *copy_block(const ff_harm *h, const double *full, int out, int n_out, int in, int n_in,
                          double *to)
{
    for (int c = 0; c < n_in; c++)
        for (int r = 0; r < n_out; r++) *to++ = full[(out + 2 * r) * h->n + in + 2 * c];
    return to;
}

/* The rest of a degree's matrix is 0: y -> -y keeps cosines and sines apart, x -> -x and z -> -z the parities of m. */
static ff_status init_swap(ff_harm *h)
{
    double *full, *to = h->swap;
    FF_TRY(FF_NEW0(full, h->n * h->n));
    exchange(h, full);
    for (int l = 1; l < h->n1; l++) {
        for (int odd = 0; odd < 2; odd++) {
            const int from = (l + odd) % 2;
            to = copy_block(h, full, at_c(l, odd), (l - odd) / 2 + 1, at_c(l, from), (l - from) / 2 + 1, to);
        }
        for (int k = 1; k <= 2 && k <= l; k++) {
            const int from = (l + k + 1) % 2 != 0 ? 1 : 2;
            to = copy_block(h, full, at_s(l, k), (l - k) / 2 + 1, at_s(l, from), (l - from) / 2 + 1, to);
        }
    }
    ff_free(full);
    return FF_OK;
}

ff_status ff_harm_create(int order, ff_harm **out)
{
    ff_status st = FF_OK;
    ff_harm *h = NULL;
    const int n1 = order + 1;
    *out = NULL;
    FF_GO(FF_NEW0(h, 1));
    h->order = order;
    h->n1 = n1;
    h->n = n1 * n1;
    FF_GO(FF_NEW0(h->swap, n1 * n1 * n1)); /* (l + 1)^2 / 2 + l^2 / 2 and some a degree */
    FF_GO(FF_NEW(h->far, n1 * (n1 + 1) * (2 * n1 + 1) / 6));
    FF_GO(FF_NEW(h->shift, n1 * (n1 + 1) * (2 * n1 + 1) / 6));
    init_recursion(h);
    init_shifts(h);
    FF_GO(init_swap(h));
    *out = h;
    h = NULL;
done:
    ff_harm_destroy(&h);
    return st;
}

void ff_harm_destroy(ff_harm **hp)
{
    ff_harm *h = *hp;
    if (h == NULL) return;
    ff_free(h->swap);
    ff_free(h->far);
    ff_free(h->shift);
    ff_free(h);
    *hp = NULL;
}

/* ---- derivatives: dR_lm in terms of R of degree l - 1 ---- */

/* Calls add(d, from, to, f): the derivative along d of R at index from has f times R at index to. With
 * U_lm = r^l P_lm exp(i m phi) / (l + m)! the derivatives are dx: (U_(m-1) - U_(m+1)) / 2, dy: i (U_(m-1) + U_(m+1)) / 2,
 * dz: U_m, of degree l - 1, and R_lm = norm sqrt(2) (Re, Im) U_lm, norm U_l0 for m = 0. */
typedef struct term {
    int axis, from, to;
    double f;
} term;

/* The terms of R_lm (cosine, or sine); at most 5. */
static int terms_of(const ff_harm *h, int l, int m, bool sine, term *out)
{
    const int from = sine ? at_s(l, m) : at_c(l, m);
    const double n = h->norm[at_c(l, m)] * (m > 0 ? sqrt(2) : 1);
    int k = 0;
    if (m <= l - 1)
        out[k++] = (term){2, from, sine ? at_s(l - 1, m) : at_c(l - 1, m),
                          h->norm[at_c(l, m)] / h->norm[at_c(l - 1, m)]};
    if (m + 1 <= l - 1) {
        const double f = n / (h->norm[at_c(l - 1, m + 1)] * sqrt(2)) * (m > 0 ? 0.5 : 1);
        out[k++] = (term){0, from, sine ? at_s(l - 1, m + 1) : at_c(l - 1, m + 1), -f};
        out[k++] = (term){1, from, sine ? at_c(l - 1, m + 1) : at_s(l - 1, m + 1), sine ? f : -f};
    }
    if (m >= 1) {
        const double f = 0.5 * n / (h->norm[at_c(l - 1, m - 1)] * (m > 1 ? sqrt(2) : 1));
        if (!sine || m > 1) out[k++] = (term){0, from, sine ? at_s(l - 1, m - 1) : at_c(l - 1, m - 1), f};
        if (sine || m > 1)
            out[k++] = (term){1, from, sine ? at_c(l - 1, m - 1) : at_s(l - 1, m - 1), sine ? f : -f};
    }
    return k;
}

/* g [3][n] = coefficients of the derivatives of sum l R, or (back) l += what the transpose says. */
static void derive(const ff_harm *h, double scale, bool back, double *l, double *g)
{
    for (int i = 0; i < 3 * h->n && !back; i++) g[i] = 0;
    for (int d = 1; d < h->n1; d++)
        for (int m = 0; m <= d; m++)
            for (int sine = 0; sine <= (m > 0); sine++) {
                term t[5];
                const int n = terms_of(h, d, m, sine != 0, t);
                for (int k = 0; k < n; k++)
                    if (back)
                        l[t[k].from] += scale * t[k].f * g[t[k].axis * h->n + t[k].to];
                    else
                        g[t[k].axis * h->n + t[k].to] += scale * t[k].f * l[t[k].from];
            }
}

/* ---- instruction sets ---- */

static const ff_harm_row *row(void)
{
    const int level = ff_sum_isa_level();
    return level == 2 ? ff_harm_avx512() : level == 1 ? ff_harm_avx2() : ff_harm_plain();
}

void ff_harm_far(const ff_harm *h, const ff_harm_nodes *from, const int32_t *list, int64_t n,
                 const ff_harm_nodes *to, int32_t target)
{
    row()->far(h, from, list, n, to, target);
}

void ff_harm_up(const ff_harm *h, const ff_harm_nodes *nodes, int32_t parent, const int32_t child[2])
{
    row()->up(h, nodes, parent, child);
}

void ff_harm_down(const ff_harm *h, const ff_harm_nodes *nodes, int32_t parent, const int32_t child[2])
{
    row()->down(h, nodes, parent, child);
}

void ff_harm_from_points(const ff_harm *h, const ff_harm_points *p, const double *q, double *m)
{
    double sum[4 * FF_HARM_MAX];
    const int n_charge = p->charge ? 1 : 0;
    row()->gather(h, p, q, n_charge + (p->dipole ? 3 : 0), sum);
    for (int i = 0; i < h->n && n_charge != 0; i++) m[i] += sum[i];
    if (p->dipole) derive(h, 1 / p->radius, true, m, sum + n_charge * h->n);
}

void ff_harm_to_points(const ff_harm *h, const ff_harm_points *p, const double *l, double *u)
{
    double in[4 * FF_HARM_MAX];
    memcpy(in, l, (size_t)h->n * sizeof *l);
    if (p->grad) derive(h, 1 / p->radius, false, in, in + h->n);
    row()->spread(h, p, in, p->grad ? 4 : 1, u);
}
