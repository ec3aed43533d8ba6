/* Target positions in the gradient: transposed geometry, and contributions to remote targets back to their owners. */
#include "ff_grad_int.h"

#include "ff_mem.h"
#include "ff_moment.h"

#include <string.h>

/* ---- geometry of the transposed trees: the same sums in the same order as in the forward run ---- */

typedef struct geometry_ctx {
    const ff_eval *e;
    const ff_let *let;
    grad_set *s;
    const double *mu; /* [n_own] or NULL: no source */
} geometry_ctx;

/* Row: count, plain sum of x; sources also mu, mu x. */
static void geometry_point(void *ctx, int32_t p, double *sum)
{
    const geometry_ctx *g = ctx;
    int dim = g->e->dim;
    const double *x = g->s->x_point + (int64_t)p * dim;
    sum[0] += 1;
    for (int d = 0; d < dim; d++) sum[1 + d] += x[d];
    if (g->mu == NULL) return;
    double mu = g->mu[p - g->let->own_first], *w = sum + 1 + dim;
    w[0] += mu;
    for (int d = 0; d < dim; d++) w[1 + d] += mu * x[d];
}

static void geometry_node(void *ctx, int32_t i, const double *sum)
{
    const geometry_ctx *g = ctx;
    int dim = g->e->dim;
    double *plain = g->s->x_plain + (int64_t)i * dim;
    const double *w = sum + 1 + dim;
    for (int d = 0; d < dim; d++) plain[d] = sum[1 + d] / sum[0];
    if (g->mu == NULL) return;
    g->s->mu_node[i] = w[0];
    for (int d = 0; d < dim; d++) g->s->x_node[(int64_t)i * dim + d] = w[0] != 0 ? w[1 + d] / w[0] : plain[d];
}

static ff_status push_rows(const ff_let *let, int dim, double *node_rows, double *point_rows)
{
    ff_let_transfer *t = NULL;
    size_t bytes = (size_t)dim * sizeof(double);
    FF_TRY(ff_let_push_begin(let, bytes, node_rows, point_rows != NULL ? bytes : 0, point_rows, &t));
    return ff_let_push_end(&t);
}

static ff_status alloc_geometry(const ff_grad *g, int i)
{
    const ff_eval *e = g->e;
    const ff_tree *t = g->tlet[i]->tree;
    grad_set *s = &g->set[i];
    int64_t np = (int64_t)t->n_held * e->dim, nn = (int64_t)t->n_nodes * e->dim;
    FF_TRY(FF_NEW(s->x_point, np + 1));
    FF_TRY(FF_NEW(s->x_plain, nn + 1));
    FF_TRY(FF_NEW(s->x_node, nn + 1));
    FF_TRY(FF_NEW0(s->mu_node, t->n_nodes + 1));
    const double *own = e->set[i].x_point + (int64_t)e->let[i]->own_first * e->dim;
    memcpy(s->x_point + (int64_t)g->tlet[i]->own_first * e->dim, own,
           (size_t)(e->cloud[i]->n_own * e->dim) * sizeof *own);
    return FF_OK;
}

static ff_status make_geometry(const ff_grad *g, int i)
{
    const ff_eval *e = g->e;
    grad_set *s = &g->set[i];
    const ff_let *let = g->tlet[i];
    bool source = i < e->n_src;
    FF_TRY(ff_agree(e->comm, alloc_geometry(g, i)));
    geometry_ctx ctx = {e, let, s, source ? e->set[i].mu_own : NULL};
    ff_moment_ops ops = {1 + e->dim + (source ? 1 + e->dim : 0), geometry_point, geometry_node, &ctx};
    FF_TRY(ff_moment_run(let, &ops));
    FF_TRY(push_rows(let, e->dim, s->x_plain, s->x_point));
    return source ? push_rows(let, e->dim, s->x_node, NULL) : FF_OK;
}

static ff_status make_sums(const ff_grad *g, int i)
{
    const ff_eval *e = g->e;
    const ff_tree *t = g->tlet[i]->tree;
    grad_set *s = &g->set[i];
    int64_t np = (int64_t)t->n_held * e->dim, nn = (int64_t)t->n_nodes * e->dim;
    bool final = i == e->target && ((g->want & FF_GRAD_POINTS) != 0 || (ff_grad_faces(g) && i < e->n_src));
    if (final) {
        FF_TRY(ff_sums_create(np, &s->t_point[1]));
        FF_TRY(ff_sums_create(nn, &s->t_plain[1]));
    }
    if (!ff_grad_faces(g) || i >= e->n_src) return FF_OK;
    FF_TRY(ff_sums_create(np, &s->t_point[0]));
    FF_TRY(ff_sums_create(nn, &s->t_plain[0]));
    return ff_sums_create(nn, &s->t_node);
}

ff_status ff_grad_points_create(ff_grad *g)
{
    const ff_eval *e = g->e;
    ff_status st = FF_OK;
    for (int i = 0; i < e->n_cloud; i++) {
        if (g->own_tlet) {
            FF_TRY(make_geometry(g, i));
            continue;
        }
        g->set[i].x_point = e->set[i].x_point;
        g->set[i].x_plain = e->set[i].x_plain;
        g->set[i].x_node = e->set[i].x_node;
        g->set[i].mu_node = e->set[i].mu_node;
    }
    for (int i = 0; i < e->n_cloud && st == FF_OK; i++) st = make_sums(g, i);
    return ff_agree(e->comm, st);
}

static void clear(ff_sums *s)
{
    if (s != NULL) ff_sums_clear(s);
}

void ff_grad_points_clear(ff_grad *g)
{
    for (int i = 0; i < g->e->n_cloud; i++) {
        for (int f = 0; f < 2; f++) {
            clear(g->set[i].t_point[f]);
            clear(g->set[i].t_plain[f]);
        }
        clear(g->set[i].t_node);
    }
}

/* ---- contributions home ---- */

/* The accumulators of one cloud that travel together: of points, and up to two of nodes. */
typedef struct homeward {
    int dim, n_node_sums;
    ff_sums *point, *node[2];
} homeward;

static void get_row(void *ctx, bool point, int32_t i, void *row)
{
    const homeward *h = ctx;
    char *to = row;
    for (int q = 0; q < (point ? 1 : h->n_node_sums); q++)
        for (int d = 0; d < h->dim; d++) {
            int64_t words[2];
            ff_sums_get_words(point ? h->point : h->node[q], (int64_t)i * h->dim + d, words);
            memcpy(to, words, sizeof words); /* rows of a message may stand unaligned */
            to += sizeof words;
        }
}

static void add_row(void *ctx, bool point, int32_t i, const void *row)
{
    const homeward *h = ctx;
    const char *from = row;
    for (int q = 0; q < (point ? 1 : h->n_node_sums); q++)
        for (int d = 0; d < h->dim; d++) {
            int64_t words[2];
            memcpy(words, from, sizeof words);
            from += sizeof words;
            ff_sums_put_words(point ? h->point : h->node[q], (int64_t)i * h->dim + d, words);
        }
}

/* Bottoms and the nodes above them, which every rank holds: their rows are added over all ranks, in three words so that
 * sums of ranks cannot wrap. */
static void list_upper(const ff_let *let, int32_t i, int64_t *bottom, int32_t *list, int64_t *n)
{
    list[(*n)++] = i;
    if (let->bottom_node[*bottom] == i) {
        ++*bottom;
        return;
    }
    list_upper(let, i + 1, bottom, list, n);
    list_upper(let, let->tree->node[i].right, bottom, list, n);
}

static ff_status add_upper(const ff_grad *g, const ff_let *let, const homeward *h)
{
    ff_status st = FF_OK;
    int32_t *list = NULL;
    ff_sums *part = NULL;
    int64_t n = 0, bottom = 0, k = 0, words[2], per = (int64_t)h->n_node_sums * h->dim;
    st = FF_NEW(list, 2 * let->n_bottom + 1);
    if (st == FF_OK) st = ff_sums_create(2 * let->n_bottom * per + 1, &part);
    FF_GO(ff_agree(g->e->comm, st));
    if (let->n_bottom > 0) list_upper(let, 0, &bottom, list, &n);
    for (int pass = 0; pass < 2; pass++) {
        k = 0;
        for (int64_t a = 0; a < n; a++)
            for (int q = 0; q < h->n_node_sums; q++)
                for (int d = 0; d < h->dim; d++, k++) {
                    int64_t at = (int64_t)list[a] * h->dim + d;
                    ff_sums_get_words(pass == 0 ? h->node[q] : part, pass == 0 ? at : k, words);
                    if (pass == 0) ff_sums_put_words(part, k, words);
                    int64_t minus[2] = {-words[0], -words[1]};
                    ff_sums_put_words(h->node[q], at, pass == 0 ? minus : words);
                }
        if (pass == 0) FF_GO(ff_sums_allreduce(g->e->comm, part));
    }
done:
    ff_free(list);
    ff_sums_destroy(&part);
    return st;
}

static ff_status bring_home(const ff_grad *g, int i, ff_sums *point, ff_sums *plain, ff_sums *node)
{
    homeward h = {g->e->dim, node != NULL ? 2 : 1, point, {plain, node}};
    size_t row = (size_t)h.dim * 2 * sizeof(int64_t);
    ff_let_return_ops ops = {row * (size_t)h.n_node_sums, row, get_row, add_row, &h};
    if (!g->own_tlet) return FF_OK;
    int64_t bad = ff_sums_bad(point) || ff_sums_bad(plain) || (node != NULL && ff_sums_bad(node));
    FF_TRY(ff_comm_allreduce(g->e->comm, &bad, 1, FF_MAX_I64));
    FF_TRY(ff_let_return(g->tlet[i], &ops));
    FF_TRY(add_upper(g, g->tlet[i], &h));
    if (bad) ff_sums_set_bad(point); /* NaN everywhere */
    return FF_OK;
}

/* ---- from target nodes down to points ---- */

typedef struct down_ctx {
    const ff_grad *g;
    int i;
    const ff_sums *point, *plain, *node;
    double unscale;         /* a factor of the sums */
    double *x_bar, *mu_bar; /* [n_own] rows, added to; mu_bar may be NULL */
} down_ctx;

/* Row: [dim] of plain means, [dim] of weighted means / mu, and sum of (weighted / mu) mean. */
static void down_node(void *ctx, int32_t i, double *row)
{
    const down_ctx *c = ctx;
    const grad_set *s = &c->g->set[c->i];
    int dim = c->g->e->dim;
    double count = (double)c->g->tlet[c->i]->tree->count[i];
    for (int d = 0; d < dim; d++) {
        int64_t at = (int64_t)i * dim + d;
        row[d] += c->unscale * ff_sums_value(c->plain, at) / count;
        if (c->node == NULL) continue;
        double bar = c->unscale * ff_sums_value(c->node, at), mu = s->mu_node[i];
        if (mu != 0) {
            row[dim + d] += bar / mu;
            row[2 * dim] += bar / mu * s->x_node[at];
        } else {
            row[d] += bar / count;
        }
    }
}

static void down_point(void *ctx, int32_t p, const double *row)
{
    const down_ctx *c = ctx;
    const ff_eval *e = c->g->e;
    int dim = e->dim;
    int64_t k = p - c->g->tlet[c->i]->own_first;
    double mu = c->node != NULL ? e->set[c->i].mu_own[k] : 0, mu_bar = -row[2 * dim];
    for (int d = 0; d < dim; d++) {
        int64_t at = (int64_t)p * dim + d;
        c->x_bar[k * dim + d] += c->unscale * ff_sums_value(c->point, at) + row[d] + mu * row[dim + d];
        mu_bar += row[dim + d] * c->g->set[c->i].x_point[at];
    }
    if (c->node != NULL && c->mu_bar != NULL) c->mu_bar[k] += mu_bar;
}

static ff_status collect(const ff_grad *g, int i, bool final, double unscale, double *x_bar, double *mu_bar)
{
    const grad_set *s = &g->set[i];
    ff_sums *point = s->t_point[final], *plain = s->t_plain[final], *node = final ? NULL : s->t_node;
    FF_TRY(bring_home(g, i, point, plain, node));
    down_ctx ctx = {g, i, point, plain, node, unscale, x_bar, mu_bar};
    ff_moment_down_ops ops = {2 * g->e->dim + 1, down_node, down_point, &ctx};
    ff_status st = ff_moment_down(g->tlet[i], &ops);
    clear(point);
    clear(plain);
    clear(node);
    return st;
}

/* To v.points, and to the faces whose centroids the targets are. */
static ff_status collect_final(ff_grad *g, double unscale)
{
    const ff_eval *e = g->e;
    int i = e->target;
    grad_set *s = &g->set[i];
    int64_t n = e->cloud[i]->n_own * e->dim;
    double *x_bar = NULL;
    FF_TRY(FF_NEW0_ALL(e->comm, x_bar, n + 1));
    ff_status st = FF_OK;
    if (s->t_point[1] != NULL) st = collect(g, i, true, unscale, x_bar, NULL);
    if (st == FF_OK && g->v.points != NULL)
        st = ff_cloud_to_home(e->cloud[i], (size_t)e->dim * sizeof *x_bar, x_bar, g->v.points);
    if (ff_grad_faces(g) && i < e->n_src)
        for (int64_t k = 0; k < n; k++) s->x_bar[k] += x_bar[k];
    ff_free(x_bar);
    return st;
}

ff_status ff_grad_points_collect(ff_grad *g, bool final, double unscale)
{
    if (final) return collect_final(g, unscale);
    for (int j = 0; j < g->e->n_src; j++)
        if (g->set[j].t_point[0] != NULL)
            FF_TRY(collect(g, j, false, unscale, g->set[j].x_bar, g->set[j].mu_bar));
    return FF_OK;
}
