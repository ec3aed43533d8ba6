/* embedding head over ranks, one precision; included by ff_embed_f32.c and ff_embed_f64.c with FF_T(name) and real. */
#include "ff_embed.h"
#include "ff_head.h"
#include "ff_mem.h"

ff_status FF_T(ff_embed_forward)(const ff_embed *e, const ff_head_opts *o, const real *w1, const real *w2,
                                 real *out_home)
{
    ff_status st = FF_OK;
    ff_head_opts opts;
    real *out = NULL;
    FF_GO(ff_agree(e->comm, ff_head_take(o, &opts)));
    FF_GO(ff_agree(e->comm, ff_embed_check(e, &opts)));
    FF_GO(FF_NEW_ALL(e->comm, out, e->graph->n_nodes * ff_head_n_out(&opts)));
    FF_GO(ff_agree(e->comm, FF_T(ff_head_forward)(e->graph, &opts, w1, w2, out)));
    FF_GO(ff_halo_to_home(e->halo, (size_t)ff_head_n_out(&opts) * sizeof *out, out, out_home));
done:
    ff_free(out);
    return st;
}

/* What one backward pass holds. */
typedef struct backward {
    real *cotangent; /* own */
    double *edge_grad, *d_own;
    ff_exact *w_sum;
} backward;

static ff_status backward_alloc(const ff_embed *e, const ff_head_opts *o, backward *b)
{
    FF_TRY(FF_NEW(b->cotangent, e->graph->n_nodes * ff_head_n_out(o)));
    FF_TRY(FF_NEW(b->edge_grad, 3 * e->graph->n_edges));
    FF_TRY(FF_NEW(b->d_own, 3 * e->graph->n_nodes));
    return FF_NEW0(b->w_sum, ff_head_n_w1(o) + ff_head_n_w2(o));
}

static void backward_free(backward *b)
{
    ff_free(b->cotangent);
    ff_free(b->edge_grad);
    ff_free(b->d_own);
    ff_free(b->w_sum);
}

ff_status FF_T(ff_embed_backward)(const ff_embed *e, const ff_head_opts *o, const real *w1, const real *w2,
                                  const real *cotangent_home, double *d_points_home, real *d_w1, real *d_w2)
{
    ff_status st = FF_OK;
    ff_head_opts opts;
    backward b = {NULL, NULL, NULL, NULL};
    FF_GO(ff_agree(e->comm, ff_head_take(o, &opts)));
    const int64_t n_w1 = ff_head_n_w1(&opts), n_w2 = ff_head_n_w2(&opts), n_out = ff_head_n_out(&opts);
    FF_GO(ff_agree(e->comm, ff_embed_check(e, &opts)));
    double largest = FF_T(ff_head_largest)(cotangent_home, e->n_home * n_out);
    FF_GO(ff_comm_allreduce(e->comm, &largest, 1, FF_MAX_F64));
    const int exponent = ff_head_exponent(largest);
    FF_GO(ff_agree(e->comm, backward_alloc(e, &opts, &b)));
    FF_GO(ff_halo_to_own(e->halo, (size_t)n_out * sizeof(real), cotangent_home, b.cotangent));
    FF_GO(ff_agree(e->comm, FF_T(ff_head_run_backward)(e->graph, &opts, w1, w2, b.cotangent, exponent,
                                                       b.edge_grad, b.w_sum)));
    FF_GO(ff_embed_point_grad(e, b.edge_grad, b.d_own));
    FF_GO(ff_halo_to_home(e->halo, 3 * sizeof *b.d_own, b.d_own, d_points_home));
    FF_GO(ff_exact_allreduce(e->comm, b.w_sum, (int)(n_w1 + n_w2)));
    for (int64_t i = 0; i < n_w1; i++) d_w1[i] = (real)ldexp(ff_exact_value(&b.w_sum[i]), exponent);
    for (int64_t i = 0; i < n_w2; i++) d_w2[i] = (real)ldexp(ff_exact_value(&b.w_sum[n_w1 + i]), exponent);
done:
    backward_free(&b);
    return st;
}
