/* Zonal scatter against its golden file (layout: golden data's README): every group, both precisions, without and with
 * spin, gate and normalisation, by both paths, on the CPU or a GPU; the larger error of the two counts. Every rank does
 * all of it. */
#include "verify_scatter.h"

#include "farfield_scatter.h"
#include "ff_h5.h"
#include "scatter_place.h"

#include <stdio.h>
#include <string.h>

enum { COUPLING, RADIAL, SPIN, GATE, DEG, N_INPUTS };
static const char *const input_name[N_INPUTS] = {"zonal_coupling", "radial_feat", "spin_l1", "edge_gate",
                                                 "inv_sqrt_deg"};

typedef struct group {
    const ff_h5 *file;
    const char *name;
    const scatter_place *place;
    ff_scatter_shape shape;
    ff_scatter_csr *csr;
    int64_t n_in[N_INPUTS], n_out; /* elements */
    double *in64[N_INPUTS], *cot64;
    float *in32[N_INPUTS], *cot32;
} group;

/* Results of one call, in double. */
typedef struct results {
    double *out, *grad[N_INPUTS];
} results;

/* ---- reading ---- */

/* n elements in rows of the file's first dimension; any other count is an error. */
static ff_status read_f64(const ff_h5 *f, const char *dataset, int64_t n, double **out)
{
    ff_h5_shape s;
    FF_TRY(ff_h5_shape_of(f, dataset, &s));
    if (s.dim[0] * s.row_len != n)
        return ff_fail(FF_E_INPUT, "%s: %s: %lld values, expected %lld from N, E, C and lmax", ff_h5_path(f),
                       dataset, (long long)(s.dim[0] * s.row_len), (long long)n);
    if (*out == NULL) FF_TRY(FF_NEW(*out, n + 1));
    return ff_h5_read(f, dataset, FF_H5_F64, 0, s.dim[0], *out);
}

static ff_status narrowed(const double *x, int64_t n, float **out)
{
    FF_TRY(FF_NEW(*out, n + 1));
    for (int64_t i = 0; i < n; i++) (*out)[i] = (float)x[i];
    return FF_OK;
}

static ff_status read_shape(group *g)
{
    int64_t lmax = 0;
    char at[300];
    (void)snprintf(at, sizeof at, "/%s", g->name);
    FF_TRY(ff_h5_attr_read(g->file, at, "N", FF_H5_I64, 1, &g->shape.n_nodes));
    FF_TRY(ff_h5_attr_read(g->file, at, "E", FF_H5_I64, 1, &g->shape.n_edges));
    FF_TRY(ff_h5_attr_read(g->file, at, "C", FF_H5_I64, 1, &g->shape.n_channels));
    FF_TRY(ff_h5_attr_read(g->file, at, "lmax", FF_H5_I64, 1, &lmax));
    int64_t n = g->shape.n_nodes, e = g->shape.n_edges, c = g->shape.n_channels;
    if (n < 0 || n > INT32_MAX || e < 0 || e > INT32_MAX || c < 1 || c > 1 << 20 || lmax < 1 ||
        lmax > FF_SCATTER_LMAX)
        return ff_fail(
            FF_E_INPUT,
            "%s: %s: N = %lld, E = %lld, C = %lld, lmax = %lld, expected N, E >= 0, C >= 1, lmax 1 to %d",
            ff_h5_path(g->file), at, (long long)n, (long long)e, (long long)c, (long long)lmax,
            FF_SCATTER_LMAX);
    g->shape.lmax = (int)lmax;
    int64_t d = (lmax + 1) * (lmax + 1);
    g->n_in[COUPLING] = e * (d - 1);
    g->n_in[RADIAL] = e * lmax * c;
    g->n_in[SPIN] = e * 3 * c;
    g->n_in[GATE] = e;
    g->n_in[DEG] = n;
    g->n_out = n * d * c;
    return FF_OK;
}

static ff_status read_dst(group *g)
{
    ff_status st = FF_OK;
    int64_t *dst = NULL, e = g->shape.n_edges;
    void *there = NULL;
    char at[300];
    ff_h5_shape s;
    (void)snprintf(at, sizeof at, "/%s/dst", g->name);
    FF_TRY(ff_h5_shape_of(g->file, at, &s));
    if (s.dim[0] * s.row_len != e)
        return ff_fail(FF_E_INPUT, "%s: %s: %lld values, expected E = %lld", ff_h5_path(g->file), at,
                       (long long)(s.dim[0] * s.row_len), (long long)e);
    FF_GO(FF_NEW(dst, e + 1));
    FF_GO(ff_h5_read(g->file, at, FF_H5_I64, 0, s.dim[0], dst));
    for (int64_t i = 0; i < e; i++)
        if (dst[i] < 0 || dst[i] >= g->shape.n_nodes)
            FF_GO(ff_fail(FF_E_INPUT, "%s: %s: edge %lld: node %lld, expected 0 to %lld", ff_h5_path(g->file),
                          at, (long long)i, (long long)dst[i], (long long)g->shape.n_nodes - 1));
    FF_GO(scatter_place_put(g->place, dst, (size_t)e * sizeof *dst, &there));
    FF_GO(scatter_place_csr(g->place, there, e, g->shape.n_nodes, &g->csr));
done:
    if (there != NULL) scatter_place_drop(g->place, there);
    ff_free(dst);
    return st;
}

/* Local */
static ff_status read_group(group *g)
{
    char at[300];
    FF_TRY(read_shape(g));
    FF_TRY(read_dst(g));
    for (int i = 0; i < N_INPUTS; i++) {
        (void)snprintf(at, sizeof at, "/%s/%s", g->name, input_name[i]);
        FF_TRY(read_f64(g->file, at, g->n_in[i], &g->in64[i]));
        FF_TRY(narrowed(g->in64[i], g->n_in[i], &g->in32[i]));
    }
    (void)snprintf(at, sizeof at, "/%s/cotangent", g->name);
    FF_TRY(read_f64(g->file, at, g->n_out, &g->cot64));
    return narrowed(g->cot64, g->n_out, &g->cot32);
}

static void free_group(group *g)
{
    ff_scatter_csr_destroy(&g->csr);
    for (int i = 0; i < N_INPUTS; i++) {
        FF_FREE(g->in64[i]);
        FF_FREE(g->in32[i]);
    }
    FF_FREE(g->cot64);
    FF_FREE(g->cot32);
}

/* ---- computing ---- */

static ff_status new_results(const group *g, results *r)
{
    FF_TRY(FF_NEW(r->out, g->n_out + 1));
    for (int i = 0; i < N_INPUTS; i++) FF_TRY(FF_NEW(r->grad[i], g->n_in[i] + 1));
    return FF_OK;
}

static void free_results(results *r)
{
    FF_FREE(r->out);
    for (int i = 0; i < N_INPUTS; i++) FF_FREE(r->grad[i]);
}

static void widen(const float *x, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++) out[i] = (double)x[i];
}

/* Arrays of one call where it works: inputs, cotangent, output, gradients. */
typedef struct arrays {
    void *in[N_INPUTS], *cot, *out, *grad[N_INPUTS];
} arrays;

static ff_status run_f64(const group *g, const arrays *a, ff_scatter_path path)
{
    ff_scatter_in_f64 in = FF_SCATTER_IN_F64_INIT;
    ff_scatter_grad_f64 d = FF_SCATTER_GRAD_F64_INIT;
    in.stream = g->place->stream;
    in.coupling = a->in[COUPLING], d.coupling = a->grad[COUPLING];
    in.radial = a->in[RADIAL], d.radial = a->grad[RADIAL];
    in.spin_l1 = a->in[SPIN], d.spin_l1 = a->grad[SPIN];
    in.gate = a->in[GATE], d.gate = a->grad[GATE];
    in.inv_sqrt_deg = a->in[DEG], d.inv_sqrt_deg = a->grad[DEG];
    FF_TRY(ff_scatter_forward_f64(g->csr, &g->shape, &in, path, a->out));
    return ff_scatter_backward_f64(g->csr, &g->shape, &in, path, a->cot, &d);
}

static ff_status run_f32(const group *g, const arrays *a, ff_scatter_path path)
{
    ff_scatter_in_f32 in = FF_SCATTER_IN_F32_INIT;
    ff_scatter_grad_f32 d = FF_SCATTER_GRAD_F32_INIT;
    in.stream = g->place->stream;
    in.coupling = a->in[COUPLING], d.coupling = a->grad[COUPLING];
    in.radial = a->in[RADIAL], d.radial = a->grad[RADIAL];
    in.spin_l1 = a->in[SPIN], d.spin_l1 = a->grad[SPIN];
    in.gate = a->in[GATE], d.gate = a->grad[GATE];
    in.inv_sqrt_deg = a->in[DEG], d.inv_sqrt_deg = a->grad[DEG];
    FF_TRY(ff_scatter_forward_f32(g->csr, &g->shape, &in, path, a->out));
    return ff_scatter_backward_f32(g->csr, &g->shape, &in, path, a->cot, &d);
}

/* The first n_in inputs, one path; host holds results before they are widened. */
static ff_status run_at(const group *g, bool f64, int n_in, ff_scatter_path path, arrays *a, void *host,
                        results *r)
{
    const size_t real = f64 ? sizeof(double) : sizeof(float);
    FF_TRY(scatter_place_put(g->place, f64 ? (void *)g->cot64 : (void *)g->cot32, (size_t)g->n_out * real,
                             &a->cot));
    for (int i = 0; i < n_in; i++)
        FF_TRY(scatter_place_put(g->place, f64 ? (void *)g->in64[i] : (void *)g->in32[i],
                                 (size_t)g->n_in[i] * real, &a->in[i]));
    char *at = host;
    FF_TRY(scatter_place_put(g->place, at, (size_t)g->n_out * real, &a->out));
    for (int i = 0; i < n_in; i++)
        FF_TRY(scatter_place_put(g->place, at += (size_t)(i == 0 ? g->n_out : g->n_in[i - 1]) * real,
                                 (size_t)g->n_in[i] * real, &a->grad[i]));
    FF_TRY(f64 ? run_f64(g, a, path) : run_f32(g, a, path));
    at = host;
    for (int i = -1; i < n_in; i++) {
        const int64_t n = i < 0 ? g->n_out : g->n_in[i];
        double *to = i < 0 ? r->out : r->grad[i];
        FF_TRY(scatter_place_get(g->place, i < 0 ? a->out : a->grad[i], at, (size_t)n * real));
        if (!f64)
            widen((const float *)at, n, to);
        else if (n > 0)
            memcpy(to, at, (size_t)n * real);
        at += (size_t)n * real;
    }
    return FF_OK;
}

static ff_status run(const group *g, bool f64, bool full, ff_scatter_path path, results *r)
{
    arrays a = {.cot = NULL};
    double *host = NULL;
    int64_t n = g->n_out;
    for (int i = 0; i < N_INPUTS; i++) n += g->n_in[i];
    FF_TRY(FF_NEW0(host, n + 1));
    ff_status st = run_at(g, f64, full ? N_INPUTS : SPIN, path, &a, host, r);
    scatter_place_drop(g->place, a.cot), scatter_place_drop(g->place, a.out);
    for (int i = 0; i < N_INPUTS; i++)
        scatter_place_drop(g->place, a.in[i]), scatter_place_drop(g->place, a.grad[i]);
    ff_free(host);
    return st;
}

/* ---- comparing ---- */

/* Error of both paths' arrays against dataset <group>/f64/<variant>/<what>.                              Collective */
static ff_status compare(verify *v, const group *g, bool f64, bool full, const char *what,
                         const double *const *a, int64_t n, double tol)
{
    double *ref = NULL, err = 0;
    char at[300], name[300];
    (void)snprintf(at, sizeof at, "/%s/f64/%s/%s", g->name, full ? "full" : "plain", what);
    (void)snprintf(name, sizeof name, "%s/%s/%s/%s", g->name, f64 ? "f64" : "f32", full ? "full" : "plain",
                   what);
    ff_status st = ff_agree(v->app->comm, read_f64(g->file, at, n, &ref));
    if (st == FF_OK) {
        double scale = verify_max_abs(ref, n);
        for (int p = 0; p < 2; p++) {
            double one = verify_error(a[p], ref, n, scale);
            err = one > err ? one : err;
        }
        st = verify_row(v, name, err, tol);
    }
    ff_free(ref);
    return st;
}

/* float64 outputs are equal to the bit: the order of the sum is fixed. The rest: the specification's tolerances. */
static double tolerance(bool f64, int input)
{
    if (input < 0) return f64 ? 0 : 1e-6;
    if (f64) return 1e-13;
    return input == DEG ? 5e-5 : 1e-6; /* inv_sqrt_deg: one long sum a node that cancels */
}

/* Collective */
static ff_status compare_variant(verify *v, const group *g, bool f64, bool full)
{
    ff_status st = FF_OK;
    results r[2] = {{0}};
    char what[64];
    for (int p = 0; p < 2 && st == FF_OK; p++) {
        ff_scatter_path path = p == 0 ? FF_SCATTER_REFERENCE : FF_SCATTER_FUSED;
        st = new_results(g, &r[p]);
        if (st == FF_OK) st = run(g, f64, full, path, &r[p]);
    }
    FF_GO(ff_agree(v->app->comm, st));
    FF_GO(compare(v, g, f64, full, "out", (const double *const[]){r[0].out, r[1].out}, g->n_out,
                  tolerance(f64, -1)));
    if (!ff_config_bool(v->app->config, "verify.gradients")) goto done;
    for (int i = 0; i < (full ? N_INPUTS : SPIN); i++) {
        (void)snprintf(what, sizeof what, "grad_%s", input_name[i]);
        FF_GO(compare(v, g, f64, full, what, (const double *const[]){r[0].grad[i], r[1].grad[i]}, g->n_in[i],
                      tolerance(f64, i)));
    }
done:
    free_results(&r[0]);
    free_results(&r[1]);
    return st;
}

static ff_status compare_group(verify *v, const scatter_place *place, const ff_h5 *f, const char *name)
{
    ff_status st = FF_OK;
    group g = {.file = f, .name = name, .place = place};
    FF_GO(ff_agree(v->app->comm, read_group(&g)));
    for (int k = 0; k < 4; k++) FF_GO(compare_variant(v, &g, k >= 2, k % 2 == 1));
done:
    free_group(&g);
    return st;
}

ff_status verify_scatter(verify *v, const char *path)
{
    ff_status st = FF_OK;
    ff_h5 *f = NULL;
    char **names = NULL, at[300];
    int n = 0;
    scatter_place place;
    FF_TRY(scatter_place_open(v->app, &place));
    ff_info("  scatter on %s", scatter_place_name(&place));
    st = ff_h5_open(ff_comm_self(), path, &f);
    if (st == FF_OK) st = ff_h5_list(f, "/", &names, &n);
    FF_GO(ff_agree(v->app->comm, st));
    for (int i = 0; i < n; i++) {
        (void)snprintf(at, sizeof at, "/%s/zonal_coupling", names[i]);
        if (ff_h5_exists(f, at)) FF_GO(compare_group(v, &place, f, names[i]));
    }
done:
    ff_h5_names_free(&names, n);
    if (f != NULL) {
        ff_status closed = ff_h5_close(&f);
        if (st == FF_OK) st = closed;
    }
    scatter_place_close(&place);
    return st;
}
