/* Pair lists of the way back for a backend, once a geometry. They need trees alone, so that a thread makes them while the
 * backend runs the layers before them: from ff_grad_create on, in the order of their use. Part of ff_grad_impl.h, float32
 * instance. */

#include <omp.h>
#include <pthread.h>

static void first_targets(const back *l, grad_pairs *p)
{
    for (int i = 0; i < l->e->n_cloud; i++) {
        const ff_tree *t = l->g->tlet[i]->tree;
        if (!is_target(l, i)) continue;
        p->point[i] = p->n_fixed;
        p->node[i] = p->n_fixed + t->n_held;
        p->n_fixed += t->n_held + t->n_nodes;
    }
}

/* Positions of the fixed targets [n_fixed][4]. */
static ff_status fixed_targets(const back *l, int j, const grad_pairs *p, double **out)
{
    int dim = l->e->dim;
    FF_TRY(FF_NEW0(*out, 4 * p->n_fixed + 1));
    for (int i = 0; i < l->e->n_cloud; i++) {
        const ff_tree *t = l->g->tlet[i]->tree;
        if (!is_target(l, i)) continue;
        double *point = *out + 4 * p->point[i], *node = *out + 4 * p->node[i];
        for (int64_t k = 0; k < t->n_held; k++)
            for (int d = 0; d < dim; d++) point[4 * k + d] = l->g->set[i].x_point[k * dim + d];
        for (int32_t k = 0; k < t->n_nodes; k++)
            for (int d = 0; d < dim; d++) node[4 * (int64_t)k + d] = centroid_of(l, i, j, k)[d];
    }
    return FF_OK;
}

/* Lists of one unit; q->some is the caller's afterwards. */
static ff_status list_unit(worker *w, pair_sink *q, ff_adj_lists **out)
{
    ff_status st = FF_OK;
    int dim = w->l->e->dim;
    double *x = NULL;
    unit_range(w);
    FF_GO(ff_adj_builder_create(&q->b));
    FF_GO(FF_NEW0(x, 4 * w->n_slots));
    for (int k = 0; k < w->n_slots; k++)
        for (int d = 0; d < dim; d++) x[4 * k + d] = slot_x(w, k)[d];
    FF_GO(ff_adj_builder_slots(q->b, w->n_slots, x));
    q->n = q->n_some = q->cap_some = 0;
    FF_GO(unit_walk(w));
    FF_GO(ff_adj_builder_runs(q->b, w->n_slots, q->n, q->run));
    FF_GO(ff_adj_builder_finish(&q->b, out));
done:
    ff_adj_builder_destroy(&q->b);
    ff_free(x);
    return st;
}

/* What the units leave, [n_units] each. */
typedef struct unit_lists {
    ff_adj_lists **part;
    grad_some **some;
    int64_t *n_some;
} unit_lists;

static ff_status list_units_all(const back *l, int j, const grad_pairs *p, const unit_lists *u)
{
    ff_status st = FF_OK;
    const grad_set *s = &l->g->set[j];
#pragma omp parallel
    {
        pair_sink q = {.p = p};
        worker w = {.l = l, .j = j, .sink = &q, .st = FF_OK};
        ff_status mine = FF_OK;
#pragma omp for schedule(dynamic, 1) nowait
        for (int64_t k = 0; k < s->n_units; k++) {
            if (mine != FF_OK) continue;
            w.unit = &s->unit[k];
            mine = list_unit(&w, &q, &u->part[k]);
            u->some[k] = q.some;
            u->n_some[k] = q.n_some;
            q.some = NULL;
        }
        ff_free(q.run);
        if (mine != FF_OK) {
#pragma omp atomic write
            st = mine;
        }
    }
    return st;
}

/* Units' lists behind each other. */
static ff_status join_units(const back *l, int j, const unit_lists *u, grad_pairs *p, ff_adj_lists **lists)
{
    ff_status st = FF_OK;
    int64_t n = l->g->set[j].n_units;
    double *x = NULL;
    for (int64_t k = 0; k < n; k++) {
        p->unit_slot[k + 1] = p->unit_slot[k] + u->part[k]->n_slot;
        p->n_some += u->n_some[k];
    }
    FF_GO(FF_NEW(p->some, p->n_some + 1));
    for (int64_t k = 0, at = 0; k < n; at += u->n_some[k++])
        if (u->n_some[k] > 0) memcpy(p->some + at, u->some[k], (size_t)u->n_some[k] * sizeof *p->some);
    FF_GO(fixed_targets(l, j, p, &x));
    FF_GO(ff_adj_lists_join(p->n_fixed, x, (const ff_adj_lists *const *)u->part, n, lists));
done:
    ff_free(x);
    return st;
}

static void unit_lists_free(unit_lists *u, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        if (u->part != NULL) ff_adj_lists_destroy(&u->part[k]);
        if (u->some != NULL) ff_free(u->some[k]);
    }
    ff_free(u->part);
    ff_free(u->some);
    ff_free(u->n_some);
}

/* Lists of source j with the targets of the final or a communication layer, and how its units and targets are numbered. */
static ff_status make_lists(ff_grad *g, bool final, int j)
{
    ff_status st = FF_OK;
    back l = {.g = g, .e = g->e, .final = final};
    grad_pairs *p = &g->pairs[final][j];
    int64_t n = g->set[j].n_units;
    unit_lists u = {NULL, NULL, NULL};
    FF_GO(FF_NEW0(p->unit_slot, n + 1));
    FF_GO(FF_NEW0(p->point, g->e->n_cloud));
    FF_GO(FF_NEW0(p->node, g->e->n_cloud));
    FF_GO(FF_NEW0(u.part, n + 1));
    FF_GO(FF_NEW0(u.some, n + 1));
    FF_GO(FF_NEW0(u.n_some, n + 1));
    first_targets(&l, p);
    FF_GO(list_units_all(&l, j, p, &u));
    FF_GO(join_units(&l, j, &u, p, &p->lists));
    p->n_slot = p->lists->n_slot;
    p->n_target = p->lists->n_target;
    p->pairs = p->lists->pairs;
done:
    unit_lists_free(&u, n);
    return st;
}

/* ---- ahead of their use ---- */

/* The thread waits while lists that the backend has not taken hold more than AHEAD_BYTES. */
enum { AHEAD_BYTES = 64 << 20 };

struct grad_ahead {
    ff_grad *g;
    pthread_t thread;
    int n_threads, n_all; /* of its own teams; of the caller's before */
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t change;
    int n_made;
    int64_t waiting; /* bytes */
    bool stop, ended;
    ff_status st;
};

/* The k-th lists in the order of their use; false: there are no more. */
static bool ahead_at(const ff_grad *g, int k, bool *final, int *j)
{
    int n = g->e->n_src;
    *final = k < n;
    *j = k % n;
    return k < (g->e->c->model->config->n_comm > 0 ? 2 * n : n);
}

static int64_t lists_bytes(const ff_adj_lists *l)
{
    return l->n_run * (int64_t)sizeof *l->run + (l->n_slot + l->n_target) * 4 * (int64_t)sizeof *l->x_s;
}

static void *make_ahead(void *ctx)
{
    ff_status st = FF_OK;
    grad_ahead *a = ctx;
    bool final, stop = false;
    omp_set_num_threads(a->n_threads);
    for (int k = 0, j; st == FF_OK && !stop && ahead_at(a->g, k, &final, &j); k++) {
        st = make_lists(a->g, final, j);
        pthread_mutex_lock(&a->lock);
        a->n_made += st == FF_OK;
        a->waiting += st == FF_OK ? lists_bytes(a->g->pairs[final][j].lists) : 0;
        pthread_cond_signal(&a->change);
        while (a->waiting > AHEAD_BYTES && !a->stop) pthread_cond_wait(&a->change, &a->lock);
        stop = a->stop;
        pthread_mutex_unlock(&a->lock);
    }
    pthread_mutex_lock(&a->lock);
    a->st = st;
    a->ended = true;
    pthread_cond_signal(&a->change);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* Waits for the lists of source j, which the caller takes. */
static ff_status ahead_take(grad_ahead *a, bool final, int j)
{
    int k = final ? j : a->g->e->n_src + j;
    pthread_mutex_lock(&a->lock);
    while (a->n_made <= k && !a->ended) pthread_cond_wait(&a->change, &a->lock);
    ff_status st = a->n_made > k ? FF_OK : a->st;
    if (st == FF_OK) a->waiting -= lists_bytes(a->g->pairs[final][j].lists);
    pthread_cond_signal(&a->change);
    pthread_mutex_unlock(&a->lock);
    return st;
}

void ff_grad_lists_end(ff_grad *g)
{
    grad_ahead *a = g->ahead;
    if (a == NULL) return;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_signal(&a->change);
    pthread_mutex_unlock(&a->lock);
    (void)pthread_join(a->thread, NULL);
    (void)pthread_cond_destroy(&a->change);
    (void)pthread_mutex_destroy(&a->lock);
    omp_set_num_threads(a->n_all);
    FF_FREE(g->ahead);
}

ff_status ff_grad_lists_begin(ff_grad *g)
{
    grad_ahead *a = NULL;
    for (int f = 0; f < 2; f++) FF_TRY(FF_NEW0(g->pairs[f], g->e->n_src + 1));
    if (omp_in_parallel())
        return FF_OK; /* threads work at samples of their own: lists are made when needed */
    FF_TRY(FF_NEW0(a, 1));
    a->g = g;
    /* Two teams at once. Where they, or the driver beside them, had more threads than there are cores, times scattered. */
    a->n_all = omp_get_max_threads();
    const int n = a->n_all / 2 + 1;
    a->n_threads = (n + 1) / 2;
    (void)pthread_mutex_init(&a->lock, NULL);
    (void)pthread_cond_init(&a->change, NULL);
    if (pthread_create(&a->thread, NULL, make_ahead, a) == 0) {
        g->ahead = a;
        omp_set_num_threads(n);
        return FF_OK;
    }
    (void)pthread_cond_destroy(&a->change);
    (void)pthread_mutex_destroy(&a->lock);
    ff_free(a); /* no thread is to be had: as in parallel */
    return FF_OK;
}

/* The lists of source j, which the backend may have already. */
static ff_status take_lists(const back *l, int j)
{
    ff_grad *g = l->g;
    grad_pairs *p = &g->pairs[l->final][j];
    if (p->taken) return FF_OK;
    FF_TRY(g->ahead != NULL ? ahead_take(g->ahead, l->final, j) : make_lists(g, l->final, j));
    p->taken = true;
    if (j == g->e->n_src - 1 && (!l->final || g->e->c->model->config->n_comm == 0)) ff_grad_lists_end(g);
    return FF_OK;
}

static ff_status give_lists(const back *l, int j)
{
    const ff_pair_backend *b = l->e->opts.adjoint;
    grad_pairs *p = &l->g->pairs[l->final][j];
    if (p->job != NULL) return FF_OK;
    ff_status st = b->adjoint->job_create(b->impl, p->lists, &p->job);
    if (st == FF_OK) ff_adj_lists_destroy(&p->lists);
    return st;
}
