/* Pairs of units as lists for a backend (ff_pair_adjoint.h) instead of tiles. Part of ff_grad_unit_impl.h.
 *
 * Targets of a source's lists: for every target cloud its held points, then its held nodes (the fixed ones); behind all
 * of them, unit after unit as they come, points of leaves that share a far-near value. */

struct pair_sink { /* a unit's */
    const grad_pairs *p;
    ff_adj_builder *b;
    int64_t n, n_some, cap_run, cap_some;
    ff_adj_run *run; /* [n] */
    grad_some *some; /* [n_some] */
};

/* Targets from .. from + n - 1; a run never reaches from the fixed targets to the others. */
static void sink_run(worker *w, int slot, int64_t from, int64_t n)
{
    pair_sink *q = w->sink;
    ff_adj_run *last = q->n > 0 ? &q->run[q->n - 1] : NULL;
    if (last != NULL && last->slot == slot && last->first + (int64_t)last->n == from &&
        from != q->p->n_fixed) {
        last->n += (int32_t)n;
        return;
    }
    if (w->st == FF_OK && q->n == q->cap_run)
        w->st = ff_mem_reserve(&q->run, &q->cap_run, q->n + 1, sizeof *q->run);
    if (w->st == FF_OK) q->run[q->n++] = (ff_adj_run){slot, (int32_t)from, (int32_t)n};
}

static void sink_points(worker *w, int slot, int64_t p, int64_t n)
{
    sink_run(w, slot, w->sink->p->point[w->i] + p, n);
}

static void sink_node(worker *w, int slot, int32_t node)
{
    sink_run(w, slot, w->sink->p->node[w->i] + node, 1);
}

static const double *centroid_of(const back *l, int i, int j, int32_t node)
{
    const grad_set *t = &l->g->set[i];
    return (i == j && !l->final ? t->x_node : t->x_plain) + (int64_t)node * l->e->dim;
}

static ff_status sink_target(ff_adj_builder *b, const double *x, int dim, int32_t *index)
{
    double row[4] = {0, 0, 0, 0};
    for (int d = 0; d < dim; d++) row[d] = x[d];
    return ff_adj_builder_target(b, row, index);
}

/* The sources of a leaf ask for the same points one after the other: the last few entries are looked through. */
static void sink_some(worker *w, int slot, int32_t node, int64_t first, uint64_t mask)
{
    enum { LOOK_BACK = 32 };
    pair_sink *q = w->sink;
    int32_t index;
    for (int64_t k = q->n_some; k-- > 0 && k + LOOK_BACK >= q->n_some;)
        if (q->some[k].cloud == w->i && q->some[k].node == node && q->some[k].mask == mask) {
            sink_run(w, slot, q->p->n_fixed + k, 1);
            return;
        }
    if (w->st == FF_OK) w->st = ff_mem_reserve(&q->some, &q->cap_some, q->n_some + 1, sizeof *q->some);
    if (w->st == FF_OK) w->st = sink_target(q->b, centroid_of(w->l, w->i, w->j, node), w->l->e->dim, &index);
    if (w->st != FF_OK) return;
    q->some[q->n_some++] = (grad_some){w->i, node, first, mask};
    sink_run(w, slot, q->p->n_fixed + index, 1);
}
