/* GLOBE network on the device: counts, packing, choice of kernel; host code.
 *
 * Order of the per-pair features here: for every vector k (global, then source): n = 1 .. n_harm of (k, r); last
 * g(r). Source-only features: source scalars; g of source vectors; for every pair a < b of vectors without r, b a
 * source vector: n = 1 .. n_harm. What depends on global data alone is folded into the first bias in double. */
#include "ff_globe_mma.cuh"

extern "C" {
#include "ff_globe_layout.h"
#include "ff_log.h"
}

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mutex>

/* ---- counts and columns of the reference's feature order ---- */

static int col_g(const ff_globe_shape *s, int v) /* v = n_vec means r */
{
    int base = s->n_gscalar + s->n_sscalar;
    if (v == s->n_gvector + s->n_svector) return base + s->n_gvector;
    return base + v + (v >= s->n_gvector ? 1 : 0);
}

static int col_harm(const ff_globe_shape *s, int n, int a, int b)
{
    int nv = s->n_gvector + s->n_svector + 1;
    int base = s->n_gscalar + s->n_sscalar + nv;
    return base + ff_globe_harm_place(n, s->n_harm) * (nv * (nv - 1) / 2) + a * nv - a * (a + 1) / 2 +
           (b - a - 1);
}

static int n_in_ref(const ff_globe_shape *s)
{
    int nv = s->n_gvector + s->n_svector + 1;
    return s->n_gscalar + s->n_sscalar + nv + nv * (nv - 1) / 2 * s->n_harm;
}

static void set_padding(ff_net_dims *d, int vectors, int width)
{
    d->rec_vec = vectors;
    d->rec_len = 4 * vectors + (vectors + 3) / 4 * 4;
    d->h0_len = width;
}

static ff_status fill_dims(const ff_globe_shape *s, double length, ff_net_dims *d)
{
    memset(d, 0, sizeof *d);
    if (s->n_field > FF_MAX_FIELDS)
        return ff_fail(FF_E_UNSUPPORTED, "cuda: output fields = %d, at most %d", s->n_field,
                       (int)FF_MAX_FIELDS);
    d->dim = s->dim;
    d->n_hidden = s->n_hidden;
    for (int l = 0; l < s->n_hidden; l++) d->hidden[l] = s->hidden[l];
    d->n_gvec = s->n_gvector;
    d->n_svec = s->n_svector;
    d->n_vec = s->n_gvector + s->n_svector;
    d->n_sscalar = s->n_sscalar;
    d->n_harm = s->n_harm;
    d->n_field = s->n_field;
    for (int f = 0; f < s->n_field; f++) {
        int vector = s->field_rank[f];
        d->rank[f] = (int8_t)vector;
        d->comp[f] = (int16_t)d->n_comp;
        if (vector)
            d->vfield[d->n_vfield++] = (int16_t)d->n_comp;
        else
            d->sfield[d->n_sfield++] = (int16_t)d->n_comp;
        d->n_comp += vector ? s->dim : 1;
        d->n_coef += vector ? 1 + 2 * d->n_vec : 1;
    }
    d->n_net_out = (s->mlp ? 1 : 2) * d->n_coef;
    d->n_feat = d->n_vec * s->n_harm + 1;
    int gg = d->n_gvec * (d->n_gvec - 1) / 2;
    d->n_src_feat = s->n_sscalar + s->n_svector + (d->n_vec * (d->n_vec - 1) / 2 - gg) * s->n_harm;
    set_padding(d, d->n_vec, d->hidden[0]);
    d->mlp = s->mlp;
    d->beta = (float)s->beta;
    d->eps2 = (float)(s->eps * s->eps);
    d->inv_length = (float)(1.0 / length);
    return FF_OK;
}

/* ---- folding and reordering ---- */

static double smooth(double x)
{
    return -expm1(-x) * log1p(x);
}

static double legendre(int n, double c)
{
    double a = 1.0, b = c;
    for (int i = 2; i <= n; i++) {
        double p = ((2 * i - 1) * c * b - (i - 1) * a) / i;
        a = b;
        b = p;
    }
    return n == 0 ? 1.0 : b;
}

/* unit, m, g of a global vector */
static void unit_of(const double *v, int dim, double eps, double *u, double *m, double *g)
{
    double q = eps * eps;
    for (int k = 0; k < dim; k++) q += v[k] * v[k];
    *m = sqrt(q);
    for (int k = 0; k < 3; k++) u[k] = k<dim && * m> 0 ? v[k] / *m : 0.0;
    *g = smooth(*m);
}

/* First layer split: bias with all constants, source part [n_src_feat][H], pair part [H][n_feat]; gvec [][8]. */
static void split_first(const ff_globe_shape *s, const ff_net_dims *d, const float *w, const float *b,
                        const double *gscalar, const double *gvector, float *b_src, float *w_src,
                        float *w_pair, float *gvec)
{
    int n_in = n_in_ref(s), h = s->hidden[0], nv = d->n_vec, ng = d->n_gvec;
    double *u = (double *)calloc((size_t)ng * 5 + 1, sizeof *u);
    for (int a = 0; a < ng; a++) {
        double *ua = u + 5 * a;
        unit_of(gvector + a * s->dim, s->dim, s->eps, ua, ua + 3, ua + 4);
        for (int k = 0; k < 5; k++) gvec[8 * a + k] = (float)ua[k];
    }
    for (int o = 0; o < h; o++) {
        const float *row = w + (size_t)o * (size_t)n_in;
        double sum = b[o];
        for (int i = 0; i < s->n_gscalar; i++) sum += row[i] * gscalar[i];
        for (int a = 0; a < ng; a++) {
            sum += row[col_g(s, a)] * u[5 * a + 4];
            for (int c = a + 1; c < ng; c++) {
                const double *x = u + 5 * a, *y = u + 5 * c;
                double dot = x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
                for (int n = 1; n <= s->n_harm; n++)
                    sum += row[col_harm(s, n, a, c)] * smooth(x[3] * y[3]) * legendre(n, dot);
            }
        }
        b_src[o] = (float)sum;
        int f = 0;
        for (int i = 0; i < s->n_sscalar; i++) w_src[(size_t)(f++) * h + o] = row[s->n_gscalar + i];
        for (int v = ng; v < nv; v++) w_src[(size_t)(f++) * h + o] = row[col_g(s, v)];
        for (int a = 0; a < nv; a++)
            for (int c = a + 1; c < nv; c++) {
                if (c < ng) continue;
                for (int n = 1; n <= s->n_harm; n++) w_src[(size_t)(f++) * h + o] = row[col_harm(s, n, a, c)];
            }
        float *p = w_pair + (size_t)o * (size_t)d->n_feat;
        for (int k = 0; k < nv; k++)
            for (int n = 1; n <= s->n_harm; n++) *p++ = row[col_harm(s, n, k, nv)];
        *p = row[col_g(s, nv)];
    }
    free(u);
}

/* [out][in] -> [in][out], then the bias (NULL: none) */
static float *put_transposed(float *at, const float *w, const float *b, int n_in, int n_out)
{
    for (int i = 0; i < n_in; i++)
        for (int o = 0; o < n_out; o++) *at++ = w[(size_t)o * (size_t)n_in + i];
    for (int o = 0; o < n_out; o++) *at++ = b != NULL ? b[o] : 0.0f;
    return at;
}

/* Pieces that become one block on the device. */
enum { MAX_PIECES = 8 };
typedef struct parcel {
    char *host;
    size_t n, cap;
    void **piece[MAX_PIECES]; /* where a piece's address goes */
    size_t at[MAX_PIECES];
    int n_pieces;
} parcel;

/* *d_ptr becomes the address of a copy of h once the parcel is sent. */
static ff_status put(parcel *p, void *d_ptr, const void *h, size_t bytes)
{
    size_t at = (p->n + 255) / 256 * 256, need = at + bytes + 16;
    if (p->n_pieces == MAX_PIECES)
        return ff_fail(FF_E_INTERNAL, "cuda: a network of more than %d pieces", (int)MAX_PIECES);
    if (need > p->cap) {
        char *host = (char *)realloc(p->host, 2 * need);
        if (host == NULL) return ff_fail(FF_E_MEM, "cuda: packing %zu bytes: out of memory", 2 * need);
        p->host = host;
        p->cap = 2 * need;
    }
    memcpy(p->host + at, h, bytes);
    p->piece[p->n_pieces] = (void **)d_ptr;
    p->at[p->n_pieces++] = at;
    p->n = at + bytes;
    return FF_OK;
}

static ff_status send_parcel(const parcel *p, ff_cuda_net *net)
{
    ff_status st = FF_OK;
    FF_CU(cudaMallocAsync(&net->block, p->n + 16, net->stream));
    net->block_bytes = p->n + 16;
    FF_CU(cudaMemcpyAsync(net->block, p->host, p->n, cudaMemcpyHostToDevice, net->stream));
    for (int k = 0; k < p->n_pieces; k++) *p->piece[k] = net->block + p->at[k];
done:
    return st;
}

static ff_status pack_plain(ff_cuda_net *net, parcel *p, const float *const *w, const float *const *b)
{
    const ff_net_dims *d = &net->d;
    size_t n = 0;
    for (int l = 0; l <= d->n_hidden; l++) {
        int n_in = l == 0 ? d->n_feat : d->hidden[l - 1],
            n_out = l < d->n_hidden ? d->hidden[l] : d->n_net_out;
        n += (size_t)(n_in + 1) * (size_t)n_out;
    }
    float *all = (float *)malloc(n * sizeof *all), *at = all;
    if (all == NULL) return ff_fail(FF_E_MEM, "cuda: packing %zu weights: out of memory", n);
    for (int l = 0; l <= d->n_hidden; l++)
        at = put_transposed(at, w[l], l == 0 ? NULL : b[l], l == 0 ? d->n_feat : d->hidden[l - 1],
                            l < d->n_hidden ? d->hidden[l] : d->n_net_out);
    ff_status st = put(p, &net->w_pair, all, n * sizeof *all);
    free(all);
    return st;
}

static ff_status pack_fused(ff_cuda_net *net, parcel *p, const float *const *w, const float *const *b)
{
    const ff_fused_row *row = net->fused;
    char *image = (char *)calloc(row->image_bytes, 1);
    float *bias = (float *)calloc((size_t)row->n_bias, sizeof *bias);
    ff_status st = FF_E_MEM;
    if (image == NULL || bias == NULL) {
        ff_fail(st, "cuda: packing %zu bytes of weights: out of memory", row->image_bytes);
        goto done;
    }
    row->pack(&net->d, w, b, image, bias);
    st = put(p, &net->image, image, row->image_bytes);
    if (st == FF_OK) st = put(p, &net->bias, bias, (size_t)row->n_bias * sizeof *bias);
done:
    free(image);
    free(bias);
    return st;
}

static ff_status pack_mma(ff_cuda_net *net, parcel *p, const float *const *w, const float *const *b)
{
    const ff_mma_cfg *c = net->mma;
    size_t n_tab = ff_mma_tab_len(&net->d, c);
    char *image = (char *)calloc(c->image_bytes, 1);
    float *bias = (float *)calloc(c->n_bias, sizeof *bias);
    int32_t *tab = (int32_t *)calloc(n_tab, sizeof *tab);
    ff_status st = FF_E_MEM;
    if (image == NULL || bias == NULL || tab == NULL) {
        ff_fail(st, "cuda: packing %zu bytes of weights: out of memory", c->image_bytes);
        goto done;
    }
    ff_mma_pack(&net->d, c, net->precision, w, b, image, bias, tab);
    st = put(p, &net->image, image, c->image_bytes);
    if (st == FF_OK) st = put(p, &net->bias, bias, c->n_bias * sizeof *bias);
    if (st == FF_OK) st = put(p, &net->tab, tab, n_tab * sizeof *tab);
done:
    free(image);
    free(bias);
    free(tab);
    return st;
}

/* ---- choice of the kernel ---- */

static ff_cuda_kernel preferred = FF_CUDA_BEST;

void ff_cuda_prefer(ff_cuda_kernel kernel)
{
    preferred = kernel;
}

static int widest(const ff_net_dims *d)
{
    int n = 0;
    for (int l = 0; l < d->n_hidden; l++) n = d->hidden[l] > n ? d->hidden[l] : n;
    return n;
}

/* bf16 asked for: networks up to this width are evaluated in TF32. Features, SiLU and outputs take their time there, not
 * products, and few units average little of bf16's rounding away (drivaer_small, 24 units: 1.05e-2 against 1.5e-3). */
enum { NARROW = 32 };

/* globe_wgmma does 2.5 to 3 times the work of globe_mma in a time, but its instances pad shapes more. */
static ff_status choose(ff_cuda_net *net)
{
    ff_mma_cfg *c = (ff_mma_cfg *)calloc(1, sizeof *c);
    if (net->precision == FF_CUDA_BF16 && widest(&net->d) <= NARROW) net->precision = FF_CUDA_TF32;
    if (c == NULL) return ff_fail(FF_E_MEM, "cuda: network: out of memory");
    const ff_fused_row *row = net->precision != FF_CUDA_F32 && preferred == FF_CUDA_BEST
                                  ? ff_fused_find(&net->d, net->precision)
                                  : NULL;
    bool plain_too = net->precision == FF_CUDA_F32;
    ff_status st =
        plain_too && preferred == FF_CUDA_PLAIN
            ? FF_E_UNSUPPORTED
            : ff_mma_plan(&net->d, net->precision, preferred == FF_CUDA_MMA_SMALL ? 99 * 1024 : 0, c);
    if (st == FF_OK &&
        (row == NULL || (preferred == FF_CUDA_BEST && ff_fused_work(row) > 2.0 * ff_mma_work(&net->d, c)))) {
        net->mma = c;
        set_padding(&net->d, net->d.n_vec, c->rows[0]);
        c = NULL;
    } else if (row != NULL) {
        net->fused = row;
        set_padding(&net->d, row->n_vec, row->width);
        ff_error_clear();
        st = FF_OK;
    } else if (st == FF_E_UNSUPPORTED && plain_too) {
        ff_error_clear();
        st = FF_OK;
    }
    free(c);
    net->h0_scale = plain_too ? 1.0f : 0.5f;
    return st;
}

/* Share of the tensor cores' dense rate in the network's format, per cent, as measured on an H200 with 64, 128, 256, 512
 * units a layer (docs/kernels.md); float32: of a third of the TF32 rate, and of the FP32 rate for the plain kernel. */
static int expected_share(const ff_cuda_net *net)
{
    static const int mma[3][4] = {{16, 18, 21, 22}, {13, 19, 23, 25}, {9, 13, 20, 23}};
    int k = 0;
    while (k < 3 && widest(&net->d) > 64 << k) k++;
    if (net->mma != NULL) return mma[net->precision][k];
    if (net->fused == NULL) return 15;
    return net->precision == FF_CUDA_TF32 ? 37 : net->fused->width > 64 ? 65 : 25;
}

/* One line a kernel and shape, once a process. */
static void announce(const ff_cuda_net *net)
{
    static char said[16][160];
    static int n_said = 0;
    static std::mutex lock; /* of both */
    std::lock_guard<std::mutex> guard(lock);
    static const char *const rate[] = {"a third of the TF32", "the TF32", "the bf16"};
    char text[160] = "", sizes[80] = "";
    for (int l = 0; l < net->d.n_hidden; l++) {
        size_t at = strlen(sizes);
        (void)snprintf(sizes + at, sizeof sizes - at, "%s%d", l > 0 ? " x " : "", net->d.hidden[l]);
    }
    (void)snprintf(text, sizeof text, "pair kernel %s, hidden %s: about %d %% of %s rate expected (H200)",
                   ff_cuda_net_kernel(net), sizes, expected_share(net),
                   net->fused == NULL && net->mma == NULL ? "the FP32" : rate[net->precision]);
    for (int i = 0; i < n_said; i++)
        if (strcmp(said[i], text) == 0) return;
    if (n_said == (int)(sizeof said / sizeof *said)) return;
    memcpy(said[n_said++], text, sizeof text);
    ff_info("%s", text);
}

ff_status ff_cuda_net_create(const ff_globe_shape *shape, const float *const *w, const float *const *b,
                             const double *gscalar, const double *gvector, double length,
                             ff_cuda_precision precision, void *stream, ff_cuda_net **out)
{
    ff_status st = FF_OK;
    ff_cuda_net *net = (ff_cuda_net *)calloc(1, sizeof *net);
    const float *wl[FF_GLOBE_MAX_LAYERS + 1];
    float *b_src = NULL, *w_src = NULL, *w_pair = NULL, *gvec = NULL;
    parcel p;
    size_t h0 = (size_t)shape->hidden[0];
    *out = NULL;
    if (net == NULL) return ff_fail(FF_E_MEM, "cuda: network: out of memory");
    memset(&p, 0, sizeof p);
    net->stream = (cudaStream_t)stream;
    st = fill_dims(shape, length, &net->d);
    if (st != FF_OK) goto done;
    net->precision = precision;
    st = choose(net);
    if (st != FF_OK) goto done;
    b_src = (float *)calloc(h0, sizeof *b_src);
    w_src = (float *)calloc(h0 * (size_t)net->d.n_src_feat + 1, sizeof *w_src);
    w_pair = (float *)calloc(h0 * (size_t)net->d.n_feat, sizeof *w_pair);
    gvec = (float *)calloc((size_t)net->d.n_gvec * 8 + 1, sizeof *gvec);
    if (b_src == NULL || w_src == NULL || w_pair == NULL || gvec == NULL) {
        st = ff_fail(FF_E_MEM, "cuda: network: out of memory");
        goto done;
    }
    split_first(shape, &net->d, w[0], b[0], gscalar, gvector, b_src, w_src, w_pair, gvec);
    wl[0] = w_pair;
    for (int l = 1; l <= shape->n_hidden; l++) wl[l] = w[l];
    st = put(&p, &net->b_src, b_src, h0 * sizeof *b_src);
    if (st == FF_OK) st = put(&p, &net->w_src, w_src, h0 * (size_t)net->d.n_src_feat * sizeof *w_src);
    if (st == FF_OK) st = put(&p, &net->gvec, gvec, (size_t)net->d.n_gvec * 8 * sizeof *gvec);
    if (st == FF_OK)
        st = net->fused != NULL ? pack_fused(net, &p, wl, b)
             : net->mma != NULL ? pack_mma(net, &p, wl, b)
                                : pack_plain(net, &p, wl, b);
    if (st == FF_OK) st = send_parcel(&p, net);
    if (st == FF_OK && preferred == FF_CUDA_BEST) announce(net);
done:
    free(p.host);
    free(b_src);
    free(w_src);
    free(w_pair);
    free(gvec);
    if (st != FF_OK) ff_cuda_net_destroy(&net);
    *out = net;
    return st;
}

void ff_cuda_net_destroy(ff_cuda_net **net)
{
    ff_cuda_net *n = *net;
    *net = NULL;
    if (n == NULL) return;
    if (n->block != NULL) (void)cudaFreeAsync(n->block, n->stream);
    free(n->mma);
    free(n);
}

const char *ff_cuda_net_kernel(const ff_cuda_net *net)
{
    return net->fused != NULL ? "globe_wgmma" : net->mma != NULL ? "globe_mma" : "globe_plain";
}
