/* Near and far pairs in one precision (real, FF_T). Sources are collected until there are CHUNK of them, then the tile
 * runs: what is added up together depends on the plan's list alone. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

#include <string.h>

typedef FF_REAL real;

enum { CHUNK = 512 };

/* One thread's arrays, by component. Coordinates are relative to origin, the middle of the target node's box. */
typedef struct bench {
    const sum_job *job;
    double origin[3], *proxy; /* [3][n_proxy] scratch */
    int64_t n_t, ld_t, n_s, ld_s, most_t;
    real *xt, *xs, *q; /* [3][ld_t], [3][ld_s], [n_dens * n_in][ld_s] */
    double *out;       /* [n_dens * n_out][ld_t] */
} bench;

static int64_t padded(int64_t n)
{
    return (n + FF_SUM_PAD - 1) / FF_SUM_PAD * FF_SUM_PAD;
}

static ff_status bench_alloc(bench *b, const sum_job *job)
{
    const ff_sum *s = job->s;
    int64_t most = s->n_proxy;
    if (s->o.leaf_size > most) most = s->o.leaf_size;
    *b = (bench){.job = job, .ld_s = CHUNK + most};
    b->most_t = padded(most);
    FF_TRY(FF_NEW(b->proxy, 3 * s->n_proxy));
    FF_TRY(FF_NEW(b->xt, 3 * b->most_t));
    FF_TRY(FF_NEW(b->xs, 3 * b->ld_s));
    FF_TRY(FF_NEW(b->q, job->n_dens * job->n_in * b->ld_s));
    return FF_NEW(b->out, job->n_dens * job->n_out * b->most_t);
}

static void bench_free(bench *b)
{
    void *const owned[] = {b->proxy, b->xt, b->xs, b->q, b->out};
    for (int i = 0; i < 5; i++) ff_free(owned[i]);
}

static void flush(bench *b)
{
    const sum_job *j = b->job;
    FF_T(ff_sum_args)
    a = {.n_t = b->n_t, .ld_t = b->ld_t, .n_s = b->n_s, .ld_s = b->ld_s, .xt = b->xt, .xs = b->xs};
    for (int k = 0; k < j->n_dens && b->n_s > 0; k++) {
        a.q = b->q + (int64_t)k * j->n_in * b->ld_s;
        a.out = b->out + (int64_t)k * j->n_out * b->ld_t;
        FF_T(ff_sum_tile)(&j->spec, &a);
    }
    b->n_s = 0;
}

/* Targets begin: x [n], entry i of component d at x[d * step_d + i * step_i]. */
static void begin(bench *b, int64_t n, const double *x, int64_t step_d, int64_t step_i, const double sub[3])
{
    b->n_t = n;
    b->ld_t = padded(n);
    b->n_s = 0;
    for (int d = 0; d < 3; d++)
        for (int64_t i = 0; i < b->ld_t; i++)
            b->xt[d * b->ld_t + i] = (real)(x[d * step_d + (i < n ? i : n - 1) * step_i] - sub[d]);
    memset(b->out, 0, (size_t)(b->job->n_dens * b->job->n_out * b->ld_t) * sizeof *b->out);
}

static void add_node(bench *b, int32_t i)
{
    const sum_job *j = b->job;
    const int64_t n = j->s->n_proxy;
    ff_sum_proxies(j->s, j->from, i, b->origin, n, b->proxy);
    for (int d = 0; d < 3; d++)
        for (int64_t k = 0; k < n; k++) b->xs[d * b->ld_s + b->n_s + k] = (real)b->proxy[d * n + k];
    for (int c = 0; c < j->n_dens * j->n_in; c++) {
        const double *w = j->w + ((int64_t)i * j->n_dens * j->n_in + c) * n;
        for (int64_t k = 0; k < n; k++) b->q[c * b->ld_s + b->n_s + k] = (real)w[k];
    }
    b->n_s += n;
    if (b->n_s >= CHUNK) flush(b);
}

static void add_leaf(bench *b, int32_t i)
{
    const sum_job *j = b->job;
    const ff_tree *t = j->from->let->tree;
    const int64_t first = t->first[i], n = t->count[i];
    for (int d = 0; d < 3; d++)
        for (int64_t k = 0; k < n; k++)
            b->xs[d * b->ld_s + b->n_s + k] = (real)(j->from->x[3 * (first + k) + d] - b->origin[d]);
    for (int c = 0; c < j->n_dens * j->n_in; c++)
        for (int64_t k = 0; k < n; k++)
            b->q[c * b->ld_s + b->n_s + k] = (real)j->q[(first + k) * j->n_dens * j->n_in + c];
    b->n_s += n;
    if (b->n_s >= CHUNK) flush(b);
}

static void far_row(bench *b, const ff_dtt_lists *l)
{
    const sum_job *j = b->job;
    const int64_t n = j->s->n_proxy;
    static const double zero[3] = {0, 0, 0};
    ff_sum_proxies(j->s, j->to, l->t, b->origin, n, b->proxy);
    begin(b, n, b->proxy, n, 1, zero);
    for (int64_t k = 0; k < l->n_far; k++) add_node(b, l->far_s[k]);
    flush(b);
    for (int c = 0; c < j->n_dens * j->n_out; c++)
        memcpy(j->a + ((int64_t)l->t * j->n_dens * j->n_out + c) * n, b->out + c * b->ld_t,
               (size_t)n * sizeof(double));
}

static void leaf_row(bench *b, const ff_dtt_lists *l)
{
    const sum_job *j = b->job;
    const ff_tree *t = j->to->let->tree;
    const int n_out = j->n_dens * j->n_out;
    const int64_t first = t->first[l->t], n = t->count[l->t];
    begin(b, n, j->to->x + 3 * first, 1, 3, b->origin);
    double *u = j->u + (first - j->to->let->own_first) * n_out;
    for (int64_t k = 0; k < l->n_leaf; k++)
        if (!ff_sum_exact_leaf(j, l->t, l->leaf_s[k], u)) add_leaf(b, l->leaf_s[k]);
    flush(b);
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < n_out; c++) u[i * n_out + c] += b->out[c * b->ld_t + i];
}

ff_status FF_T(ff_sum_rows)(const sum_job *job)
{
    ff_status st = FF_OK;
#pragma omp parallel
    {
        bench b;
        ff_status mine = bench_alloc(&b, job);
        if (mine != FF_OK) {
#pragma omp atomic write
            st = mine;
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t r = 0; r < job->plan->n_rows; r++) {
            ff_dtt_lists l;
            if (mine != FF_OK) continue;
            ff_plan_row(job->plan, r, &l);
            memcpy(b.origin, job->to->mid + 3 * (int64_t)l.t, sizeof b.origin);
            if (l.n_far > 0 && job->s->harm != NULL)
                ff_sum_far_harm(job, &l);
            else if (l.n_far > 0)
                far_row(&b, &l);
            if (l.n_leaf > 0) leaf_row(&b, &l);
        }
        bench_free(&b);
    }
    return st;
}
