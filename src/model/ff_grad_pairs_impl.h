/* A layer's pair adjoints on a backend: raw features of sources and cotangents of targets out, cotangents of the features
 * and weight gradients back. Part of ff_grad_impl.h, float32 instance. */

/* ---- a source in a layer ---- */

/* What goes to the backend and comes back. */
typedef struct pair_run {
    int j;
    bool bad;
    grad_pairs *p;
    float *raw, *strength, *out_bar;        /* [n_slot][n_raw], [n_len][n_slot], [n_target][n_comp] */
    double *raw_bar, *strength_bar, *x_bar; /* [n_slot][n_raw], [n_len][n_slot], [n_slot][dim] or NULL */
    int64_t *grad, *target;                 /* [n_len][grad_len][2]; [n_target][dim][2] or NULL */
    ff_adj_net **net;                       /* [n_len] */
} pair_run;

static ff_status pair_run_alloc(const back *l, pair_run *r)
{
    const back_source *s = &l->src[r->j];
    int64_t n_len = l->e->n_len, n = r->p->n_slot, n_t = r->p->n_target, dim = l->e->dim;
    bool wanted = l->final ? ff_grad_moves(l->g) : ff_grad_faces(l->g);
    FF_TRY(FF_NEW(r->raw, n * s->n_raw + 1));
    FF_TRY(FF_NEW(r->strength, n_len * n + 1));
    FF_TRY(FF_NEW(r->out_bar, n_t * l->n_comp + 1));
    FF_TRY(FF_NEW(r->raw_bar, n * s->n_raw + 1));
    FF_TRY(FF_NEW(r->strength_bar, n_len * n + 1));
    FF_TRY(FF_NEW(r->grad, 2 * n_len * (int64_t)s->grad_len));
    FF_TRY(FF_NEW0(r->net, n_len));
    if (ff_grad_faces(l->g)) FF_TRY(FF_NEW(r->x_bar, n * dim + 1));
    return wanted ? FF_NEW(r->target, 2 * n_t * dim + 1) : FF_OK;
}

static void pair_run_free_nets(const back *l, pair_run *r)
{
    const ff_pair_backend *b = l->e->opts.adjoint;
    for (int k = 0; k < l->e->n_len && r->net != NULL; k++)
        if (r->net[k] != NULL) b->adjoint->net_destroy(b->impl, &r->net[k]);
    FF_FREE(r->net);
}

static void pair_run_free(const back *l, pair_run *r)
{
    pair_run_free_nets(l, r);
    FF_FREE(r->raw);
    FF_FREE(r->strength);
    FF_FREE(r->out_bar);
    FF_FREE(r->raw_bar);
    FF_FREE(r->strength_bar);
    FF_FREE(r->x_bar);
    FF_FREE(r->grad);
    FF_FREE(r->target);
}

static void fill_targets(const back *l, const pair_run *r)
{
    size_t row = (size_t)l->n_comp * sizeof(real);
    for (int i = 0; i < l->e->n_cloud; i++) {
        const ff_tree *t = l->g->tlet[i]->tree;
        if (!is_target(l, i)) continue;
        ff_mem_copy(r->out_bar + r->p->point[i] * l->n_comp, l->t_point[i], (size_t)t->n_held * row);
        ff_mem_copy(r->out_bar + r->p->node[i] * l->n_comp, l->t_node[i], (size_t)t->n_nodes * row);
    }
    for (int64_t k = 0; k < r->p->n_some; k++) {
        const grad_some *q = &r->p->some[k];
        some_bar(l, q->cloud, q->first, q->mask, r->out_bar + (r->p->n_fixed + k) * l->n_comp);
    }
}

/* Raw features and strengths of unit k, in whose place w stands. */
static void fill_unit(const worker *w, const pair_run *r, int64_t k)
{
    const ff_eval *e = w->l->e;
    int n_raw = w->s->n_raw;
    for (int s = 0; s < w->n_slots; s++) {
        int64_t slot = r->p->unit_slot[k] + s;
        const real *dyn;
        const double *stat;
        slot_rows(w, s, &dyn, &stat);
        raw_of(w->s, dyn, stat, r->raw + slot * n_raw);
        for (int b = 0; b < e->n_len; b++)
            r->strength[b * r->p->n_slot + slot] =
                dyn[e->n_lat + ff_model_length_slot(e->c->model->config, b)];
    }
}

static void take_unit(const worker *w, const pair_run *r, int64_t k)
{
    int64_t slot = r->p->unit_slot[k], n = r->p->n_slot;
    for (int s = 0; s < w->n_slots; s++, slot++)
        slot_close(w, s, r->raw_bar + slot * w->s->n_raw, r->strength_bar + slot, n,
                   r->x_bar != NULL ? r->x_bar + slot * w->l->e->dim : NULL);
}

/* All units of the source in parallel: before the backend runs (take false), and after. */
static void each_unit(const back *l, const pair_run *r, bool take)
{
    int j = r->j;
    const grad_set *s = &l->g->set[j];
#pragma omp parallel for schedule(static, 16) if (r->p->n_slot > GRAD_MANY_ROWS)
    for (int64_t k = 0; k < s->n_units; k++) {
        worker w = {.l = l, .s = &l->src[j], .j = j, .unit = &s->unit[k]};
        unit_range(&w);
        if (take)
            take_unit(&w, r, k);
        else
            fill_unit(&w, r, k);
    }
}

static ff_status create_nets(const back *l, const pair_run *r)
{
    const ff_pair_backend *b = l->e->opts.adjoint;
    for (int k = 0; k < l->e->n_len; k++) {
        ff_adj_view v;
        ff_globe_adj_view_f32(l->src[r->j].net[k], &v);
        FF_TRY(b->adjoint->net_create(b->impl, &v, &r->net[k]));
    }
    return FF_OK;
}

/* Cotangents of target positions, where their tiles would have added them. */
static void take_targets(const back *l, const pair_run *r)
{
    int j = r->j, dim = l->e->dim;
    for (int i = 0; i < l->e->n_cloud && r->target != NULL; i++) {
        const grad_set *t = &l->g->set[i];
        const ff_tree *tree = l->g->tlet[i]->tree;
        ff_sums *nodes = i == j && !l->final ? t->t_node : t->t_plain[l->final],
                *points = t->t_point[l->final];
        if (!is_target(l, i)) continue;
        for (int64_t k = 0; k < (int64_t)tree->n_held * dim && points != NULL; k++)
            ff_sums_put_words(points, k, r->target + 2 * (r->p->point[i] * dim + k));
        for (int64_t k = 0; k < (int64_t)tree->n_nodes * dim && nodes != NULL; k++)
            ff_sums_put_words(nodes, k, r->target + 2 * (r->p->node[i] * dim + k));
    }
    for (int64_t k = 0; k < r->p->n_some && r->target != NULL; k++) {
        const grad_some *q = &r->p->some[k];
        const grad_set *t = &l->g->set[q->cloud];
        ff_sums *nodes = q->cloud == j && !l->final ? t->t_node : t->t_plain[l->final];
        for (int d = 0; d < dim && nodes != NULL; d++)
            ff_sums_put_words(nodes, (int64_t)q->node * dim + d,
                              r->target + 2 * ((r->p->n_fixed + k) * dim + d));
    }
}

static void take_weights(const back *l, const pair_run *r)
{
    const back_source *s = &l->src[r->j];
    for (int b = 0; b < l->e->n_len; b++) {
        const int64_t *words = r->grad + 2 * b * (int64_t)s->grad_len;
#pragma omp parallel for schedule(static) if (ff_grad_many_weights(l->g))
        for (int64_t k = 0; k < (int64_t)s->grad_len; k++) ff_sums_put_words(s->sums[b], k, words + 2 * k);
        if (r->bad) ff_sums_set_bad(s->sums[b]);
    }
}

/* ---- sources one after the other ---- */

/* What the run of source j takes. */
static ff_status pair_run_open(const back *l, int j, pair_run *r)
{
    *r = (pair_run){.j = j, .p = &l->g->pairs[l->final][j]};
    FF_TRY(take_lists(l, j));
    FF_TRY(pair_run_alloc(l, r));
    fill_targets(l, r);
    each_unit(l, r, false);
    return FF_OK;
}

/* Adds what it left to where it belongs. */
static void pair_run_close(back *l, pair_run *r)
{
    take_weights(l, r);
    take_targets(l, r);
    each_unit(l, r, true);
    l->pairs += r->p->pairs * l->e->n_len;
    pair_run_free(l, r);
}

/* The source before and the one behind are the processor's while the backend has one. */
typedef struct neighbours {
    back *l;
    pair_run *run;  /* of both, one after the other */
    int done, next; /* -1: none */
    ff_status st;
} neighbours;

static void work_meanwhile(void *ctx)
{
    neighbours *n = ctx;
    if (n->done >= 0) pair_run_close(n->l, n->run);
    if (n->next >= 0) n->st = pair_run_open(n->l, n->next, n->run);
}

static ff_status run_source(back *l, pair_run *r, neighbours *n)
{
    ff_status st = FF_OK;
    const ff_pair_backend *b = l->e->opts.adjoint;
    ff_adj_args a = {.n_net = l->e->n_len,
                     .raw = r->raw,
                     .strength = r->strength,
                     .out_bar = r->out_bar,
                     .raw_bar = r->raw_bar,
                     .strength_bar = r->strength_bar,
                     .x_bar = r->x_bar,
                     .grad = r->grad,
                     .target = r->target,
                     .meanwhile = work_meanwhile,
                     .ctx = n};
    double t0 = ff_now_s(), t1;
    FF_TRY(give_lists(l, r->j));
    t1 = ff_now_s();
    l->g->stats.t_lists_s += t1 - t0;
    FF_GO(create_nets(l, r));
    FF_GO(b->adjoint->run(b->impl, r->p->job, r->net, &a));
    FF_GO(n->st);
    r->bad = a.bad;
done:
    l->g->stats.t_pairs_s += ff_now_s() - t1;
    pair_run_free_nets(l, r);
    return st;
}

static ff_status run_units_backend(back *l)
{
    ff_status st = FF_OK;
    int n_src = l->e->n_src;
    pair_run run[2] = {{.p = NULL}, {.p = NULL}};
    double t0 = ff_now_s();
    if (n_src == 0) return FF_OK;
    FF_GO(pair_run_open(l, 0, &run[0]));
    l->g->stats.t_lists_s += ff_now_s() - t0;
    for (int j = 0; j < n_src; j++) {
        neighbours n = {l, &run[(j + 1) % 2], j - 1, j + 1 < n_src ? j + 1 : -1, FF_OK};
        FF_GO(run_source(l, &run[j % 2], &n));
        ff_progress_add(l->progress, l->g->set[j].n_units);
    }
    pair_run_close(l, &run[(n_src - 1) % 2]);
done:
    for (int k = 0; k < 2; k++) pair_run_free(l, &run[k]);
    return st;
}
