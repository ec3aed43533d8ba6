/* embedding head, one precision. Included by ff_head_f32.c and ff_head_f64.c, which define FF_T(name), real, EXP and
 * GRAD_NAME. Never compile this with contraction.
 *
 * Work    nodes in chunks whose edge arrays fit CHUNK_BYTES; in a chunk, threads over nodes; a node's edges in strips
 * Shapes  farfield_head.h
 * Order   a node's edges ascending; weights' gradients: edges of a node, then nodes as integers (ff_exact.h)
 * Bound   arithmetic of the second layer, 2 lmax C n_hidden operations an edge, three times that backward
 * Oracle  tests/unit/test_head.c, golden head.h5 */
#include "ff_head.h"
#include "ff_mem.h"
#include "ff_scatter.h"

#include <omp.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 25, STRIP = 64 };

typedef real net_vec __attribute__((vector_size(64), aligned(sizeof(real)), may_alias));
typedef real net_quarter __attribute__((vector_size(16), aligned(sizeof(real)), may_alias));
typedef double double_vec __attribute__((vector_size(64), aligned(sizeof(double)), may_alias));
#define NET_LANES ((int64_t)(sizeof(net_vec) / sizeof(real)))

#define ISA(name) name##_base
#define TARGET
#include "ff_head_net_impl.h"
#if defined(__x86_64__) && defined(__GNUC__)
#define ISA(name) name##_avx2
#define TARGET    __attribute__((target("avx2")))
#include "ff_head_net_impl.h"
#define ISA(name) name##_avx512
#define TARGET    __attribute__((target("avx512f,avx2")))
#include "ff_head_net_impl.h"
#define IF_X86(f) f
#else
#define IF_X86(f) NULL
#endif
static void (*const add_rows_of[])(int64_t, int64_t, const real *, const real *,
                                   real *) = {add_rows_base, IF_X86(add_rows_avx2), IF_X86(add_rows_avx512)};
static void (*const add_outer_of[])(int64_t, int64_t, int64_t, const real *, const double *, double *) = {
    add_outer_base, IF_X86(add_outer_avx2), IF_X86(add_outer_avx512)};

/* One call, checked. */
typedef struct head {
    const ff_graph *g;
    ff_head_opts o;
    ff_head_par par;
    int64_t n_rows, n_radial_out, n_hidden; /* D - 1, lmax C, H */
    const real *w1, *w2;                    /* [H][n_radial], [lmax C][H] */
    real *w1_t, *w2_t;                      /* transposed */
    void (*add_rows)(int64_t, int64_t, const real *, const real *, real *);
    void (*add_outer)(int64_t, int64_t, int64_t, const real *, const double *, double *);
    int n_threads;
    size_t scratch_bytes; /* of one thread */
    char *scratch;        /* [n_threads][scratch_bytes] */
} head;

/* What a thread needs for one strip of edges. */
typedef struct scratch {
    double *basis; /* [STRIP][n_radial] */
    double *act;   /* [STRIP][H] */
    double *d_basis /* [n_radial] */;
    real *basis_r; /* [n_radial] */
    real *d_basis_r /* [n_radial] */;
    real *hidden;   /* [H] */
    real *act_r;    /* [H] */
    real *slope;    /* [H] */
    real *d_hidden; /* [STRIP][H] */
} scratch;

static scratch scratch_of(const head *h, size_t *bytes)
{
    const size_t n_r = (size_t)h->o.n_radial, n_h = (size_t)h->n_hidden;
    char *base = h->scratch != NULL ? h->scratch + (size_t)omp_get_thread_num() * h->scratch_bytes : NULL;
    const size_t size[9] = {
        STRIP * n_r * sizeof(double), STRIP * n_h * sizeof(double), n_r * sizeof(double),
        n_r * sizeof(real),           n_r * sizeof(real),           n_h * sizeof(real),
        n_h * sizeof(real),           n_h * sizeof(real),           STRIP * n_h * sizeof(real)};
    size_t at[10] = {0};
    for (int i = 0; i < 9; i++) at[i + 1] = at[i] + (size[i] + 63) / 64 * 64;
    if (bytes != NULL) *bytes = at[9];
    if (base == NULL) return (scratch){NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    return (scratch){(void *)(base + at[0]), (void *)(base + at[1]), (void *)(base + at[2]),
                     (void *)(base + at[3]), (void *)(base + at[4]), (void *)(base + at[5]),
                     (void *)(base + at[6]), (void *)(base + at[7]), (void *)(base + at[8])};
}

static void transpose(const real *a, int64_t n_rows, int64_t n, real *t)
{
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < n; i++) t[i * n_rows + r] = a[r * n + i];
}

static void head_free(head *h)
{
    ff_free(h->w1_t);
    ff_free(h->w2_t);
    ff_free(h->scratch);
}

static ff_status head_fill(head *h, const ff_graph *g, const ff_head_opts *o, const real *w1, const real *w2)
{
    FF_TRY(ff_head_take(o, &h->o));
    h->g = g;
    h->par = ff_head_par_of(&h->o, g->cutoff);
    h->n_rows = ff_scatter_n_rows(h->o.lmax);
    h->n_radial_out = h->o.lmax * h->o.n_channels;
    h->n_hidden = h->o.n_hidden;
    h->w1 = w1, h->w2 = w2;
    h->add_rows = add_rows_of[ff_scatter_isa()];
    h->add_outer = add_outer_of[ff_scatter_isa()];
    h->n_threads = omp_get_max_threads();
    (void)scratch_of(h, &h->scratch_bytes);
    FF_TRY(FF_NEW(h->w1_t, ff_head_n_w1(&h->o)));
    FF_TRY(FF_NEW(h->w2_t, ff_head_n_w2(&h->o)));
    FF_TRY(FF_NEW(h->scratch, (size_t)h->n_threads * h->scratch_bytes));
    transpose(w1, h->n_hidden, h->o.n_radial, h->w1_t);
    transpose(w2, h->n_radial_out, h->n_hidden, h->w2_t);
    return FF_OK;
}

/* ---- chunks ---- */

/* Nodes [n0, n1) with the arrays of their edges [e0, e1), which begin at the chunk's first edge. */
typedef struct chunk {
    int64_t n0, n1, e0, e1;
    real *coupling, *basis, *radial, *inv_sqrt_deg; /* basis: NULL if not wanted */
    double *degree;
    real *d_coupling, *d_radial, *d_inv; /* backward */
    int32_t *dst;                        /* node - n0 */
    int64_t cap_edges, cap_nodes;
    int64_t bad; /* a node whose degree and floor are 0, else INT64_MAX */
} chunk;

/* Largest chunk that starts at node n0. */
static void chunk_next(const head *h, chunk *c, int64_t n0, int64_t most)
{
    const ff_graph *g = h->g;
    c->n0 = n0;
    for (c->n1 = n0 + 1; c->n1 < g->n_nodes && g->off[c->n1 + 1] - g->off[n0] <= most;) c->n1++;
    c->e0 = g->off[n0];
    c->e1 = g->off[c->n1];
}

static ff_status chunk_alloc(const head *h, chunk *c, bool backward, int64_t *most)
{
    const int64_t per_edge = (h->n_rows + h->n_radial_out) * (int64_t)sizeof(real) * (backward ? 2 : 1);
    *most = CHUNK_BYTES / per_edge + 1;
    for (int64_t n = 0; n < h->g->n_nodes; n = c->n1) {
        chunk_next(h, c, n, *most);
        if (c->e1 - c->e0 > c->cap_edges) c->cap_edges = c->e1 - c->e0;
        if (c->n1 - c->n0 > c->cap_nodes) c->cap_nodes = c->n1 - c->n0;
    }
    FF_TRY(FF_NEW(c->coupling, c->cap_edges * h->n_rows));
    FF_TRY(FF_NEW(c->radial, c->cap_edges * h->n_radial_out));
    FF_TRY(FF_NEW(c->inv_sqrt_deg, c->cap_nodes));
    FF_TRY(FF_NEW(c->degree, c->cap_nodes));
    FF_TRY(FF_NEW(c->dst, c->cap_edges));
    if (!backward) return FF_OK;
    FF_TRY(FF_NEW(c->d_coupling, c->cap_edges * h->n_rows));
    FF_TRY(FF_NEW(c->d_radial, c->cap_edges * h->n_radial_out));
    return FF_NEW(c->d_inv, c->cap_nodes);
}

static void chunk_free(chunk *c)
{
    ff_free(c->coupling);
    ff_free(c->radial);
    ff_free(c->inv_sqrt_deg);
    ff_free(c->degree);
    ff_free(c->dst);
    ff_free(c->d_coupling);
    ff_free(c->d_radial);
    ff_free(c->d_inv);
}

/* ---- forward ---- */

/* hidden = W1 b, act = silu(hidden), and its derivative if slope is not NULL. */
static void first_layer(const head *h, const scratch *s, const double *basis, real *slope)
{
    for (int n = 0; n < h->o.n_radial; n++) s->basis_r[n] = (real)basis[n];
    memset(s->hidden, 0, (size_t)h->n_hidden * sizeof *s->hidden);
    h->add_rows(h->o.n_radial, h->n_hidden, s->basis_r, h->w1_t, s->hidden);
    for (int64_t i = 0; i < h->n_hidden; i++) {
        const real x = s->hidden[i], sigma = 1 / (1 + EXP(-x));
        s->act_r[i] = x * sigma;
        if (slope != NULL) slope[i] = sigma * (1 + x * (1 - sigma));
    }
}

static void forward_edge(const head *h, chunk *c, const scratch *s, int64_t e, double *degree)
{
    double coupling[FF_HEAD_ROWS];
    const ff_head_edge edge = ff_head_edge_of(&h->par, h->g->vec + 3 * e);
    const int64_t at = e - c->e0;
    real *radial = c->radial + at * h->n_radial_out;
    const double env = ff_head_envelope(h->par.p_degree, edge.x);
    *degree += env * env;
    ff_head_coupling(&h->par, edge.u, coupling);
    for (int64_t r = 0; r < h->n_rows; r++) c->coupling[at * h->n_rows + r] = (real)coupling[r];
    ff_head_basis(&h->par, &edge, s->basis);
    first_layer(h, s, s->basis, NULL);
    if (c->basis != NULL)
        memcpy(c->basis + at * h->o.n_radial, s->basis_r, (size_t)h->o.n_radial * sizeof(real));
    memset(radial, 0, (size_t)h->n_radial_out * sizeof *radial);
    h->add_rows(h->n_hidden, h->n_radial_out, s->act_r, h->w2_t, radial);
}

static ff_status chunk_forward(const head *h, chunk *c)
{
    int64_t bad = INT64_MAX;
#pragma omp parallel for schedule(dynamic, 8) num_threads(h->n_threads) reduction(min : bad)
    for (int64_t n = c->n0; n < c->n1; n++) {
        scratch s = scratch_of(h, NULL);
        double degree = 0;
        for (int64_t e = h->g->off[n]; e < h->g->off[n + 1]; e++) {
            c->dst[e - c->e0] = (int32_t)(n - c->n0);
            forward_edge(h, c, &s, e, &degree);
        }
        if (!(degree + h->o.degree_floor > 0) && n < bad) bad = n;
        c->degree[n - c->n0] = degree;
        c->inv_sqrt_deg[n - c->n0] = (real)(1 / sqrt(degree + h->o.degree_floor));
    }
    if (bad == INT64_MAX) return FF_OK;
    return ff_fail(FF_E_INPUT,
                   "head: node %lld has degree 0, so that 1 / sqrt(degree + floor) has no value with "
                   "degree_floor = 0; raise the floor (0.25) or the cutoff",
                   (long long)bad);
}

static ff_status chunk_csr(const head *h, const chunk *c, ff_scatter_shape *shape, ff_scatter_csr **csr)
{
    *shape = (ff_scatter_shape){c->n1 - c->n0, c->e1 - c->e0, h->o.n_channels, h->o.lmax};
    return ff_scatter_csr_create_i32(c->dst, shape->n_edges, shape->n_nodes, csr);
}

static FF_T(ff_scatter_in) chunk_inputs(const chunk *c)
{
    FF_T(ff_scatter_in) in = IN_INIT;
    in.coupling = c->coupling;
    in.radial = c->radial;
    in.inv_sqrt_deg = c->inv_sqrt_deg;
    return in;
}

ff_status FF_T(ff_head_forward)(const ff_graph *g, const ff_head_opts *o, const real *w1, const real *w2,
                                real *out)
{
    ff_status st = FF_OK;
    head h = {0};
    chunk c = {0};
    ff_scatter_csr *csr = NULL;
    ff_scatter_shape shape;
    int64_t most;
    FF_TRY(ff_head_check(g, w1, w2, out, "out"));
    FF_GO(head_fill(&h, g, o, w1, w2));
    FF_GO(chunk_alloc(&h, &c, false, &most));
    for (int64_t n = 0; n < g->n_nodes; n = c.n1) {
        chunk_next(&h, &c, n, most);
        FF_GO(chunk_forward(&h, &c));
        FF_GO(chunk_csr(&h, &c, &shape, &csr));
        FF_T(ff_scatter_in) in = chunk_inputs(&c);
        FF_GO(FF_T(ff_scatter_forward)(csr, &shape, &in, h.o.path, out + n * ff_head_n_out(&h.o)));
        ff_scatter_csr_destroy(&csr);
    }
done:
    ff_scatter_csr_destroy(&csr);
    chunk_free(&c);
    head_free(&h);
    return st;
}

ff_status FF_T(ff_head_parts_run)(const ff_graph *g, const ff_head_opts *o, const real *w1, const real *w2,
                                  const FF_T(ff_head_parts) * parts)
{
    ff_status st = FF_OK;
    head h = {0};
    chunk c = {.n1 = g->n_nodes, .e1 = g->n_edges};
    c.coupling = parts->coupling, c.basis = parts->basis, c.radial = parts->radial;
    c.degree = parts->degree, c.inv_sqrt_deg = parts->inv_sqrt_deg;
    FF_GO(head_fill(&h, g, o, w1, w2));
    FF_GO(FF_NEW(c.dst, g->n_edges));
    FF_GO(chunk_forward(&h, &c));
done:
    ff_free(c.dst);
    head_free(&h);
    return st;
}

/* ---- backward ---- */

/* Where a thread adds the weights' gradients: of the node that runs, and of all nodes it had. */
typedef struct w_sums {
    double *node;    /* [n_w1 + n_w2] */
    ff_exact *exact; /* [n_w1 + n_w2] */
} w_sums;

/* One edge: adjoint of the network into s, of the geometry into edge_grad [3]. k: place in the strip. */
static void backward_edge(const head *h, const chunk *c, const scratch *s, int64_t e, int k, double d_degree,
                          double *edge_grad)
{
    const int64_t at = e - c->e0, n_h = h->n_hidden;
    double *basis = s->basis + k * h->o.n_radial, cot[FF_HEAD_ROWS], du[3];
    real *d_hidden = s->d_hidden + k * n_h;
    const ff_head_edge edge = ff_head_edge_of(&h->par, h->g->vec + 3 * e);
    ff_head_basis(&h->par, &edge, basis);
    first_layer(h, s, basis, s->slope);
    memset(d_hidden, 0, (size_t)n_h * sizeof *d_hidden);
    h->add_rows(h->n_radial_out, n_h, c->d_radial + at * h->n_radial_out, h->w2, d_hidden);
    for (int64_t i = 0; i < n_h; i++) {
        d_hidden[i] *= s->slope[i];
        s->act[k * n_h + i] = (double)s->act_r[i];
    }
    if (edge_grad == NULL) return;
    memset(s->d_basis_r, 0, (size_t)h->o.n_radial * sizeof *s->d_basis_r);
    h->add_rows(n_h, h->o.n_radial, d_hidden, h->w1, s->d_basis_r);
    for (int n = 0; n < h->o.n_radial; n++) s->d_basis[n] = (double)s->d_basis_r[n];
    for (int64_t r = 0; r < h->n_rows; r++) cot[r] = (double)c->d_coupling[at * h->n_rows + r];
    ff_head_coupling_grad(&h->par, edge.u, cot, du);
    double dd = ff_head_basis_grad(&h->par, &edge, s->d_basis);
    dd += d_degree * 2 * ff_head_envelope(h->par.p_degree, edge.x) *
          (ff_head_envelope_dx(h->par.p_degree, edge.x) / h->par.cutoff);
    ff_head_edge_grad(&edge, du, dd, edge_grad);
}

static void backward_node(const head *h, const chunk *c, const scratch *s, int64_t n, double *edge_grad,
                          double *node_sum)
{
    const int64_t e1 = h->g->off[n + 1], n_w1 = ff_head_n_w1(&h->o);
    const double degree = c->degree[n - c->n0] + h->o.degree_floor;
    /* d inv / d degree = -1/2 degree^(-3/2) */
    const double d_degree = (double)c->d_inv[n - c->n0] * -0.5 / (degree * sqrt(degree));
    for (int64_t e0 = h->g->off[n]; e0 < e1; e0 += STRIP) {
        const int n_strip = e1 - e0 < STRIP ? (int)(e1 - e0) : STRIP;
        for (int k = 0; k < n_strip; k++)
            backward_edge(h, c, s, e0 + k, k, d_degree, edge_grad != NULL ? edge_grad + 3 * (e0 + k) : NULL);
        if (node_sum == NULL) continue;
        h->add_outer(n_strip, h->n_hidden, h->o.n_radial, s->d_hidden, s->basis, node_sum);
        h->add_outer(n_strip, h->n_radial_out, h->n_hidden, c->d_radial + (e0 - c->e0) * h->n_radial_out,
                     s->act, node_sum + n_w1);
    }
}

static void chunk_backward(const head *h, const chunk *c, int exponent, double *edge_grad, const w_sums *sums)
{
    const int64_t n_w = ff_head_n_w1(&h->o) + ff_head_n_w2(&h->o);
#pragma omp parallel for schedule(dynamic, 8) num_threads(h->n_threads)
    for (int64_t n = c->n0; n < c->n1; n++) {
        scratch s = scratch_of(h, NULL);
        const w_sums *mine = sums != NULL ? &sums[omp_get_thread_num()] : NULL;
        if (h->g->off[n + 1] == h->g->off[n]) continue;
        if (mine != NULL) memset(mine->node, 0, (size_t)n_w * sizeof *mine->node);
        backward_node(h, c, &s, n, edge_grad, mine != NULL ? mine->node : NULL);
        for (int64_t i = 0; mine != NULL && i < n_w; i++)
            ff_exact_add(&mine->exact[i], ldexp(mine->node[i], -exponent));
    }
}

static ff_status sums_alloc(const head *h, w_sums **out)
{
    const int64_t n_w = ff_head_n_w1(&h->o) + ff_head_n_w2(&h->o);
    FF_TRY(FF_NEW0(*out, h->n_threads));
    for (int t = 0; t < h->n_threads; t++) {
        FF_TRY(FF_NEW((*out)[t].node, n_w));
        FF_TRY(FF_NEW0((*out)[t].exact, n_w));
    }
    return FF_OK;
}

/* Integers: any order. */
static void sums_add(const head *h, const w_sums *s, ff_exact *w_sum)
{
    const int64_t n_w = ff_head_n_w1(&h->o) + ff_head_n_w2(&h->o);
    for (int t = 0; t < h->n_threads; t++)
        for (int64_t i = 0; i < n_w; i++) {
            w_sum[i].sum += s[t].exact[i].sum;
            w_sum[i].bad = w_sum[i].bad || s[t].exact[i].bad;
        }
}

static void sums_free(const head *h, w_sums *s)
{
    for (int t = 0; s != NULL && t < h->n_threads; t++) {
        ff_free(s[t].node);
        ff_free(s[t].exact);
    }
    ff_free(s);
}

static ff_status chunk_scatter_backward(const head *h, const chunk *c, const real *cotangent)
{
    ff_scatter_csr *csr = NULL;
    ff_scatter_shape shape;
    FF_T(ff_scatter_in) in = chunk_inputs(c);
    FF_T(ff_scatter_grad) grad = SCATTER_GRAD_INIT;
    grad.coupling = c->d_coupling;
    grad.radial = c->d_radial;
    grad.inv_sqrt_deg = c->d_inv;
    FF_TRY(chunk_csr(h, c, &shape, &csr));
    ff_status st = FF_T(ff_scatter_backward)(csr, &shape, &in, h->o.path,
                                             cotangent + c->n0 * ff_head_n_out(&h->o), &grad);
    ff_scatter_csr_destroy(&csr);
    return st;
}

ff_status FF_T(ff_head_run_backward)(const ff_graph *g, const ff_head_opts *o, const real *w1, const real *w2,
                                     const real *cotangent, int exponent, double *edge_grad, ff_exact *w_sum)
{
    ff_status st = FF_OK;
    head h = {0};
    chunk c = {0};
    w_sums *sums = NULL;
    int64_t most;
    FF_GO(head_fill(&h, g, o, w1, w2));
    FF_GO(chunk_alloc(&h, &c, true, &most));
    if (w_sum != NULL) FF_GO(sums_alloc(&h, &sums));
    for (int64_t n = 0; n < g->n_nodes; n = c.n1) {
        chunk_next(&h, &c, n, most);
        FF_GO(chunk_forward(&h, &c));
        FF_GO(chunk_scatter_backward(&h, &c, cotangent));
        chunk_backward(&h, &c, exponent, edge_grad, sums);
    }
    if (w_sum != NULL) sums_add(&h, sums, w_sum);
done:
    sums_free(&h, sums);
    chunk_free(&c);
    head_free(&h);
    return st;
}

ff_status FF_T(ff_head_backward)(const ff_graph *g, const ff_head_opts *o, const real *w1, const real *w2,
                                 const real *cotangent, const FF_T(ff_head_grad) * grad)
{
    ff_status st = FF_OK;
    ff_head_opts opts;
    FF_T(ff_head_grad) d;
    double *edge_grad = NULL;
    ff_exact *w_sum = NULL;
    FF_TRY(ff_head_check(g, w1, w2, cotangent, "cotangent"));
    FF_TRY(ff_head_take(o, &opts));
    FF_TRY(ff_head_take_grad(GRAD_NAME, grad, &d, sizeof d));
    const int64_t n_w1 = ff_head_n_w1(&opts), n_w2 = ff_head_n_w2(&opts);
    const int exponent =
        ff_head_exponent(FF_T(ff_head_largest)(cotangent, g->n_nodes * ff_head_n_out(&opts)));
    if (d.points != NULL) FF_GO(FF_NEW(edge_grad, 3 * g->n_edges));
    if (d.w1 != NULL || d.w2 != NULL) FF_GO(FF_NEW0(w_sum, n_w1 + n_w2));
    FF_GO(FF_T(ff_head_run_backward)(g, &opts, w1, w2, cotangent, exponent, edge_grad, w_sum));
    if (d.points != NULL) ff_graph_point_grad(g, edge_grad, NULL, d.points);
    for (int64_t i = 0; d.w1 != NULL && i < n_w1; i++)
        d.w1[i] = (real)ldexp(ff_exact_value(&w_sum[i]), exponent);
    for (int64_t i = 0; d.w2 != NULL && i < n_w2; i++)
        d.w2[i] = (real)ldexp(ff_exact_value(&w_sum[n_w1 + i]), exponent);
done:
    ff_free(edge_grad);
    ff_free(w_sum);
    return st;
}
