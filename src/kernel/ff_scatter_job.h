/* zonal scatter, one precision: calls of the public header, checks, the reference path.
 * Included by ff_scatter_f32.c and ff_scatter_f64.c, which define FF_T(name) and real.
 *
 * The reference follows the formula in the order of the edges, one thread, one number after the other, and knows
 * nothing of the CSR but dst: it is the oracle of every other path. */
#include "ff_mem.h"
#include "ff_scatter.h"

#include <string.h>

/* One call, checked, strides resolved. */
typedef struct job {
    const ff_scatter_csr *csr;
    int64_t n_chan;
    int lmax, n_rows; /* n_rows = D - 1 */
    FF_T(ff_scatter_in) in;
    FF_T(ff_scatter_grad) grad;
    const real *cot; /* [N][D][C] */
    real *out;       /* [N][D][C] */
    double *share;   /* [E] what an edge adds to the gradient of its node's inv_sqrt_deg; NULL: not wanted */
} job;

static ff_scatter_given given_of(const FF_T(ff_scatter_in) * in)
{
    return (ff_scatter_given){in->coupling, in->radial, in->spin_l1, in->gate, in->inv_sqrt_deg};
}

static void job_fill(job *j, const ff_scatter_csr *csr, const ff_scatter_shape *shape)
{
    int64_t *stride = j->in.radial_stride;
    j->csr = csr;
    j->n_chan = shape->n_channels;
    j->lmax = shape->lmax;
    j->n_rows = ff_scatter_n_rows(shape->lmax);
    if (stride[0] == 0 && stride[1] == 0 && stride[2] == 0) {
        stride[0] = shape->lmax * shape->n_channels;
        stride[1] = shape->n_channels;
        stride[2] = 1;
    } else if (shape->n_channels == 1) {
        stride[2] = 1; /* never stepped over */
    }
}

/* Node data [D][C] of node n, without row 0. */
static int64_t node_at(const job *j, int64_t n)
{
    return (n * (j->n_rows + 1) + 1) * j->n_chan;
}

static const real *radial_at(const job *j, int64_t e, int l)
{
    return j->in.radial + e * j->in.radial_stride[0] + (l - 1) * j->in.radial_stride[1];
}

static real scale_of(const job *j, int64_t n)
{
    return j->in.inv_sqrt_deg != NULL ? j->in.inv_sqrt_deg[n] : 1;
}

static real gate_of(const job *j, int64_t e)
{
    return j->in.gate != NULL ? j->in.gate[e] : 1;
}

/* ---- reference ---- */

static void reference_sum(const job *j, real *out)
{
    int64_t n_chan = j->n_chan, step = j->in.radial_stride[2];
    size_t n_out = (size_t)(j->csr->n_nodes * (j->n_rows + 1) * n_chan);
    if (n_out > 0) memset(out, 0, n_out * sizeof *out);
    for (int64_t e = 0; e < j->csr->n_edges; e++) {
        real *sum = out + node_at(j, j->csr->dst[e]), g = gate_of(j, e);
        const real *z = j->in.coupling + e * j->n_rows, *spin = j->in.spin_l1;
        for (int l = 1; l <= j->lmax; l++) {
            const real *f = radial_at(j, e, l);
            for (int row = l * l - 1; row < l * l + 2 * l; row++)
                for (int64_t c = 0; c < n_chan; c++) {
                    real s = l == 1 && spin != NULL ? spin[(e * 3 + row) * n_chan + c] : 0;
                    sum[row * n_chan + c] += FF_T(ff_scatter_message)(z[row], f[c * step], s, g);
                }
        }
    }
}

static void reference_forward(const job *j)
{
    int64_t per_node = (j->n_rows + 1) * j->n_chan;
    reference_sum(j, j->out);
    if (j->in.inv_sqrt_deg == NULL) return;
    for (int64_t n = 0; n < j->csr->n_nodes; n++)
        for (int64_t i = 0; i < per_node; i++) j->out[n * per_node + i] *= j->in.inv_sqrt_deg[n];
}

/* Gradients of one row of edge e; returns the part of the gradient of its gate, without inv_sqrt_deg. */
static double reference_row(const job *j, int64_t e, int l, int row, const real *cot, real scale)
{
    int64_t n_chan = j->n_chan, step = j->in.radial_stride[2];
    const real *f = radial_at(j, e, l), *spin = l == 1 ? j->in.spin_l1 : NULL;
    real z = j->in.coupling[e * j->n_rows + row], g = gate_of(j, e), dz = 0;
    double d_gate = 0;
    for (int64_t c = 0; c < n_chan; c++) {
        int64_t at = (e * 3 + row) * n_chan + c;
        real d = cot[row * n_chan + c] * scale * g; /* of the ungated message */
        dz += d * f[c * step];
        if (j->grad.radial != NULL) j->grad.radial[(e * j->lmax + l - 1) * n_chan + c] += d * z;
        if (spin != NULL && j->grad.spin_l1 != NULL) j->grad.spin_l1[at] = d;
        d_gate += (double)cot[row * n_chan + c] * (double)(z * f[c * step] + (spin != NULL ? spin[at] : 0));
    }
    if (j->grad.coupling != NULL) j->grad.coupling[e * j->n_rows + row] = dz;
    return d_gate;
}

static void reference_edges(const job *j)
{
    size_t n_radial = (size_t)(j->csr->n_edges * j->lmax * j->n_chan);
    if (j->grad.radial != NULL && n_radial > 0) memset(j->grad.radial, 0, n_radial * sizeof *j->grad.radial);
    for (int64_t e = 0; e < j->csr->n_edges; e++) {
        int64_t n = j->csr->dst[e];
        double d_gate = 0;
        for (int l = 1; l <= j->lmax; l++)
            for (int row = l * l - 1; row < l * l + 2 * l; row++)
                d_gate += reference_row(j, e, l, row, j->cot + node_at(j, n), scale_of(j, n));
        if (j->grad.gate != NULL) j->grad.gate[e] = (real)(d_gate * (double)scale_of(j, n));
    }
}

static ff_status reference_backward(const job *j)
{
    ff_status st = FF_OK;
    real *sum = NULL;
    int64_t per_node = (j->n_rows + 1) * j->n_chan;
    reference_edges(j);
    if (j->grad.inv_sqrt_deg == NULL) return FF_OK;
    FF_GO(FF_NEW(sum, j->csr->n_nodes * per_node));
    reference_sum(j, sum);
    for (int64_t n = 0; n < j->csr->n_nodes; n++) {
        double d = 0; /* many terms that cancel */
        for (int64_t i = j->n_chan; i < per_node; i++)
            d += (double)j->cot[n * per_node + i] * (double)sum[n * per_node + i];
        j->grad.inv_sqrt_deg[n] = (real)d;
    }
done:
    ff_free(sum);
    return st;
}
