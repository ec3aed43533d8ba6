/* Tiles for one precision and one vector width. The includer defines real, FF_W, FF_RSQRT, FF_NB (vectors of targets at
 * a time), TILE(name), and the type of the arguments as tile_args. */
#include "ff_hd.h"
#include "ff_sum_vec.h"

/* A constant kernel leaves one branch only where all is one function. */
#undef FF_HD
#define FF_HD static inline __attribute__((always_inline, unused))
#include "ff_sum_pair.h"

#define ALWAYS static inline __attribute__((always_inline))

/* 1/R of charges with roots of less accuracy: y (3 - R^2 y^2) = 2 / R, y an estimate. Sums of potentials come out twice, of
 * gradients 8 times too large. */
ALWAYS void TILE(pair_quick)(const int grad, vr dx, vr dy, vr dz, vr q, vr *out)
{
    const vr r2 = dx * dx + dy * dy + dz * dz, y = v_rsqrt0_estimate(r2), e = v_set1(3) - r2 * y * y;
    out[0] = out[0] + q * y * e;
    if (!grad) return;
    const vr u = y * e, f = q * u * (u * u);
    out[1] = out[1] - f * dx;
    out[2] = out[2] - f * dy;
    out[3] = out[3] - f * dz;
}

enum { QUICK = -1 };

/* All sources on nb vectors of targets from i on. Everything constant where it is called. */
ALWAYS void TILE(block)(const int kernel, const unsigned in, const int grad, const int nb,
                        const ff_radial_par *par, const tile_args *a, int64_t i)
{
    const bool stokes = in == 0;
    const int n_in = stokes ? 3 : (in & FF_SUM_CHARGE ? 1 : 0) + (in & FF_SUM_DIPOLE ? 3 : 0);
    const int n_out = stokes ? (grad ? 12 : 3) : (grad ? 4 : 1);
    vr x[3][FF_NB], acc[FF_NB][12];
    for (int c = 0; c < 3; c++)
        for (int b = 0; b < nb; b++) memcpy(&x[c][b], a->xt + c * a->ld_t + i + b * FF_W, sizeof(vr));
    for (int b = 0; b < nb; b++)
        for (int c = 0; c < n_out; c++) acc[b][c] = (vr){0};
    for (int64_t j = 0; j < a->n_s; j++) {
        vr s[4];
        for (int c = 0; c < n_in; c++) s[c] = v_set1(a->q[c * a->ld_s + j]);
        vr sx = v_set1(a->xs[j]), sy = v_set1(a->xs[a->ld_s + j]), sz = v_set1(a->xs[2 * a->ld_s + j]);
        for (int b = 0; b < nb; b++) {
            if (kernel == QUICK)
                TILE(pair_quick)(grad, x[0][b] - sx, x[1][b] - sy, x[2][b] - sz, s[0], acc[b]);
            else if (stokes)
                ff_pair_stokeslet(grad, x[0][b] - sx, x[1][b] - sy, x[2][b] - sz, s, acc[b]);
            else
                ff_pair_radial(kernel, par, in, grad, x[0][b] - sx, x[1][b] - sy, x[2][b] - sz, s, acc[b]);
        }
    }
    for (int c = 0; c < n_out; c++)
        for (int b = 0; b < nb; b++) {
            const double scale = kernel != QUICK ? 1 : c == 0 ? 0.5 : 0.125;
            double *o = a->out + c * a->ld_t + i + b * FF_W;
            for (int l = 0; l < FF_W; l++) o[l] += scale * (double)acc[b][c][l];
        }
}

/* The last targets may fill half the vectors of a block. */
ALWAYS void TILE(run)(const int kernel, const unsigned in, const int grad, const ff_radial_par *par,
                      const tile_args *a)
{
    int64_t i = 0;
    for (; i + (FF_NB - 1) * FF_W < a->n_t; i += FF_W * FF_NB)
        TILE(block)(kernel, in, grad, FF_NB, par, a, i);
    for (; i < a->n_t; i += FF_W) TILE(block)(kernel, in, grad, 1, par, a, i);
}

#define TILE_CASE(k)                                                                                         \
    case k:                                                                                                  \
        if (s->in == FF_SUM_CHARGE)                                                                          \
            s->grad ? TILE(run)(k, FF_SUM_CHARGE, 1, par, a) : TILE(run)(k, FF_SUM_CHARGE, 0, par, a);       \
        else if (s->in == FF_SUM_DIPOLE)                                                                     \
            s->grad ? TILE(run)(k, FF_SUM_DIPOLE, 1, par, a) : TILE(run)(k, FF_SUM_DIPOLE, 0, par, a);       \
        else                                                                                                 \
            s->grad ? TILE(run)(k, FF_SUM_CHARGE | FF_SUM_DIPOLE, 1, par, a)                                 \
                    : TILE(run)(k, FF_SUM_CHARGE | FF_SUM_DIPOLE, 0, par, a);                                \
        break

static void TILE(tile)(const ff_sum_spec *s, const void *parameters, const tile_args *a)
{
    const ff_radial_par *par = parameters;
    if (s->quick && s->kernel == FF_SUM_INV_R && s->in == FF_SUM_CHARGE) {
        s->grad ? TILE(run)(QUICK, FF_SUM_CHARGE, 1, par, a) : TILE(run)(QUICK, FF_SUM_CHARGE, 0, par, a);
        return;
    }
    switch (s->kernel) {
        TILE_CASE(FF_SUM_INV_R);
        TILE_CASE(FF_SUM_POWER);
        TILE_CASE(FF_SUM_LOG);
        TILE_CASE(FF_SUM_YUKAWA);
        TILE_CASE(FF_SUM_PLUMMER);
    case FF_SUM_STOKESLET:
        s->grad ? TILE(run)(0, 0, 1, par, a) : TILE(run)(0, 0, 0, par, a);
        break;
    }
}
