/* The embedding head over ranks: edges, features and gradients equal to the bit with those of one process, whatever
 * the cut and wherever the points are at home; a failure of one rank is every rank's. */
#include "ff_mpi_test.h"

#include "ff_embed.h"
#include "ff_sets.h"
#include "head_case.h"

typedef struct setting {
    head_set set;
    int64_t n;
    double cutoff;
    int cell, lmax;
    int64_t channels;
} setting;

static const setting settings[] = {
    {HEAD_UNIFORM, 400, 0.2, 0, 3, 5},  {HEAD_UNIFORM, 60, 0.5, 1, 4, 3}, {HEAD_UNIFORM, 25, 1.3, 3, 2, 2},
    {HEAD_CLUSTERS, 200, 0.3, 0, 2, 4}, {HEAD_GRID, 125, 0.36, 2, 3, 3},  {HEAD_LINE, 90, 0.08, 0, 5, 2},
    {HEAD_UNIFORM, 5, 0.9, 1, 2, 3},    {HEAD_UNIFORM, 1, 1.2, 1, 2, 2},  {HEAD_UNIFORM, 1, 0.5, 0, 2, 2},
    {HEAD_UNIFORM, 0, 0.5, 0, 3, 2},    {HEAD_UNIFORM, 30, 0.01, 0, 3, 2}};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

/* One process' results and the ranks' of one setting, in one precision each. */
typedef struct arrays {
    int64_t n_out, n_w1, n_w2;
    double *x, *w1, *w2, *cot, *out, *dx, *d1, *d2;
    float *w1_f, *w2_f, *cot_f, *out_f, *d1_f, *d2_f;
    double *dx_f;
} arrays;

static arrays make(const setting *s, const ff_head_opts *o)
{
    arrays a = {ff_head_n_out(o), ff_head_n_w1(o), ff_head_n_w2(o), .x = head_points(s->set, s->n)};
    a.w1 = head_numbers(40, a.n_w1), a.w2 = head_numbers(41, a.n_w2);
    a.cot = head_numbers(42, s->n * a.n_out), a.out = head_numbers(43, s->n * a.n_out);
    a.dx = head_numbers(44, 3 * s->n), a.d1 = head_numbers(45, a.n_w1), a.d2 = head_numbers(46, a.n_w2);
    a.w1_f = head_narrow(a.w1, a.n_w1), a.w2_f = head_narrow(a.w2, a.n_w2);
    a.cot_f = head_narrow(a.cot, s->n * a.n_out), a.out_f = head_narrow(a.out, s->n * a.n_out);
    a.d1_f = head_narrow(a.d1, a.n_w1), a.d2_f = head_narrow(a.d2, a.n_w2);
    a.dx_f = head_numbers(47, 3 * s->n);
    return a;
}

static void drop(arrays *a)
{
    free(a->x), free(a->w1), free(a->w2), free(a->cot), free(a->out), free(a->dx), free(a->d1), free(a->d2);
    free(a->w1_f), free(a->w2_f), free(a->cot_f), free(a->out_f), free(a->d1_f), free(a->d2_f), free(a->dx_f);
}

/* All points on this rank, through the public calls. */
static ff_status run_alone(const setting *s, const ff_head_opts *o, arrays *a, ff_graph **g)
{
    ff_head_grad_f64 d = FF_HEAD_GRAD_F64_INIT;
    ff_head_grad_f32 d_f = FF_HEAD_GRAD_F32_INIT;
    d.points = a->dx, d.w1 = a->d1, d.w2 = a->d2;
    d_f.points = a->dx_f, d_f.w1 = a->d1_f, d_f.w2 = a->d2_f;
    FF_TRY(ff_graph_create(a->x, s->n, s->cutoff, head_cell(s->cell), g));
    FF_TRY(ff_head_forward_f64(*g, o, a->w1, a->w2, a->out));
    FF_TRY(ff_head_backward_f64(*g, o, a->w1, a->w2, a->cot, &d));
    FF_TRY(ff_head_forward_f32(*g, o, a->w1_f, a->w2_f, a->out_f));
    return ff_head_backward_f32(*g, o, a->w1_f, a->w2_f, a->cot_f, &d_f);
}

/* This rank's share [begin, begin + n) into the same places of b. */
static ff_status run_share(ff_mt *t, const setting *s, const ff_head_opts *o, const arrays *a, arrays *b,
                           int64_t begin, int64_t n, ff_embed **e)
{
    const int64_t at = begin * a->n_out;
    FF_TRY(ff_embed_create(t->world, a->x + 3 * begin, n, s->cutoff, head_cell(s->cell), NULL, e));
    FF_TRY(ff_embed_forward_f64(*e, o, a->w1, a->w2, b->out + at));
    FF_TRY(ff_embed_backward_f64(*e, o, a->w1, a->w2, a->cot + at, b->dx + 3 * begin, b->d1, b->d2));
    FF_TRY(ff_embed_forward_f32(*e, o, a->w1_f, a->w2_f, b->out_f + at));
    return ff_embed_backward_f32(*e, o, a->w1_f, a->w2_f, a->cot_f + at, b->dx_f + 3 * begin, b->d1_f,
                                 b->d2_f);
}

static bool same(const void *a, const void *b, int64_t n, size_t size)
{
    return n == 0 || memcmp(a, b, (size_t)n * size) == 0;
}

/* Edges of own points against those of all points. */
static void check_edges(ff_mt *t, const ff_embed *e, const ff_graph *g, const char *what)
{
    const ff_graph *mine = e->graph;
    int64_t bad = 0;
    FF_EXPECT(t, e->n_edges == g->n_edges && e->n_coincident == g->n_coincident && e->n_points == g->n_nodes,
              "%s: %lld edges, expected %lld", what, (long long)e->n_edges, (long long)g->n_edges);
    for (int64_t k = 0; k < mine->n_nodes; k++) {
        const int64_t id = e->halo->gid[e->halo->own[k]], n = g->off[id + 1] - g->off[id];
        if (mine->off[k + 1] - mine->off[k] != n) {
            bad++;
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            const int64_t p = mine->off[k] + i, q = g->off[id] + i;
            bad += e->halo->gid[mine->src[p]] != g->src[q];
            bad += memcmp(mine->vec + 3 * p, g->vec + 3 * q, 3 * sizeof *g->vec) != 0;
            bad +=
                g->image != NULL && memcmp(mine->image + 3 * p, g->image + 3 * q, 3 * sizeof *g->image) != 0;
        }
    }
    FF_EXPECT(t, bad == 0, "%s: %lld edges differ", what, (long long)bad);
}

static void try_setting(ff_mt *t, const setting *s, int spread, ff_scatter_path path)
{
    char what[64];
    ff_head_opts o = FF_HEAD_OPTS_INIT;
    ff_graph *g = NULL;
    ff_embed *e = NULL;
    o.lmax = s->lmax, o.n_channels = s->channels, o.n_radial = 5, o.n_hidden = 6, o.path = path;
    arrays a = make(s, &o), b = make(s, &o);
    const int64_t begin = ff_set_home(s->n, t->size, t->rank, spread),
                  n = ff_set_home(s->n, t->size, t->rank + 1, spread) - begin;
    (void)snprintf(what, sizeof what, "setting %d spread %d path %d", (int)(s - settings), spread, (int)path);
    FF_EXPECT_OK(t, run_alone(s, &o, &a, &g));
    FF_EXPECT_OK(t, run_share(t, s, &o, &a, &b, begin, n, &e));
    if (ff_mt_good(t)) {
        const int64_t at = begin * a.n_out;
        check_edges(t, e, g, what);
        FF_EXPECT(t, same(a.out + at, b.out + at, n * a.n_out, sizeof *a.out), "%s: out", what);
        FF_EXPECT(t, same(a.out_f + at, b.out_f + at, n * a.n_out, sizeof *a.out_f), "%s: out, float32",
                  what);
        FF_EXPECT(t, same(a.dx + 3 * begin, b.dx + 3 * begin, 3 * n, sizeof *a.dx), "%s: points", what);
        FF_EXPECT(t, same(a.dx_f + 3 * begin, b.dx_f + 3 * begin, 3 * n, sizeof *a.dx), "%s: points, float32",
                  what);
        FF_EXPECT(t, same(a.d1, b.d1, a.n_w1, sizeof *a.d1) && same(a.d2, b.d2, a.n_w2, sizeof *a.d2),
                  "%s: weights", what);
        FF_EXPECT(
            t, same(a.d1_f, b.d1_f, a.n_w1, sizeof *a.d1_f) && same(a.d2_f, b.d2_f, a.n_w2, sizeof *a.d2_f),
            "%s: weights, float32", what);
    }
    ff_graph_destroy(&g);
    ff_embed_destroy(&e);
    drop(&a), drop(&b);
}

static void ranks_do_not_show(void **state)
{
    ff_mt *t = *state;
    const int n_spreads = t->size < 3    ? FF_SPREADS
                          : t->size == 3 ? 2
                                         : 1; /* waiting ranks are slow where cores are few */
    for (int i = 0; i < N_SETTINGS; i++)
        for (int k = 0; k < n_spreads; k++)
            try_setting(t, &settings[i], (i + k) % FF_SPREADS, (ff_scatter_path)((i + k) % 2));
    ff_mt_verdict(t);
}

/* A point that is not finite on one rank, with its own number. */
static void a_bad_point_is_refused_by_all(void **state)
{
    ff_mt *t = *state;
    double x[30];
    ff_embed *e = (ff_embed *)&e;
    for (int i = 0; i < 30; i++) x[i] = head_random(1, i + 30 * t->rank);
    if (t->rank == t->size - 1) x[3 * 4 + 2] = NAN;
    ff_status st = ff_embed_create(t->world, x, 10, 0.3, NULL, NULL, &e);
    char want[64];
    (void)snprintf(want, sizeof want, "point %d: z = nan", 10 * (t->size - 1) + 4);
    FF_EXPECT(t, st == FF_E_INPUT && e == NULL, "status %d", (int)st);
    FF_EXPECT(t, strstr(ff_error_text(), want) != NULL, "\"%s\" lacks \"%s\"", ff_error_text(), want);
    ff_mt_verdict(t);
}

/* ---- memory ---- */

static ff_status small_run(ff_mt *t)
{
    ff_status st = FF_OK;
    ff_embed *e = NULL;
    ff_head_opts o = FF_HEAD_OPTS_INIT;
    o.lmax = 1, o.n_channels = 2, o.n_radial = 3, o.n_hidden = 2;
    double x[60], w1[6], w2[4], cot[160], out[160], dx[60], d1[6], d2[4];
    for (int i = 0; i < 60; i++) x[i] = head_random(i % 3, i + 60 * t->rank);
    for (int i = 0; i < 160; i++) cot[i] = 1;
    for (int i = 0; i < 6; i++) w1[i] = w2[i % 4] = 0.5;
    FF_GO(ff_embed_create(t->world, x, 20, 0.7, NULL, NULL, &e));
    FF_GO(ff_embed_forward_f64(e, &o, w1, w2, out));
    FF_GO(ff_embed_backward_f64(e, &o, w1, w2, cot, dx, d1, d2));
done:
    ff_embed_destroy(&e);
    return st;
}

/* From the 16th allocation on, every eleventh: all of them, on one rank, are in tests/fault. */
static void one_rank_without_memory_stops_all(void **state)
{
    ff_mt *t = *state;
    int64_t hit = 1, n = 1;
    for (; hit != 0; n += n < 16 ? 1 : 11) {
        const size_t before = ff_mem_blocks();
        ff_mem_fail_at(t->rank == t->size - 1 ? n : 0);
        ff_status st = small_run(t);
        hit = t->rank == t->size - 1 && ff_mem_fault_hit();
        ff_mem_fail_at(0);
        (void)ff_comm_allreduce(t->world, &hit, 1, FF_MAX_I64);
        FF_EXPECT(t, st == (hit != 0 ? FF_E_MEM : FF_OK), "allocation %lld: status %d", (long long)n,
                  (int)st);
        FF_EXPECT(t, ff_mem_blocks() == before, "allocation %lld: blocks leaked", (long long)n);
        ff_error_clear();
    }
    FF_EXPECT(t, n > 80, "%lld allocations, expected more", (long long)n);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {
    FF_MT(ranks_do_not_show),
    FF_MT(a_bad_point_is_refused_by_all),
    FF_MT(one_rank_without_memory_stops_all),
};
FF_MT_MAIN(tests)
