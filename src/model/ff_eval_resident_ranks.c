/* Several ranks around a backend that keeps an evaluation: what each cloud brings, the exchange, shares of the targets. */
#include "ff_eval_resident_int.h"
#include "ff_moment.h"

#include <math.h>
#include <string.h>

int64_t ff_eval_res_n_home(const ff_eval *e, int i)
{
    return i < e->n_src ? e->c->source[i].n : e->c->n_targets;
}

/* ---- the exchange ---- */

ff_status ff_eval_res_agree(void *ctx, ff_status mine)
{
    const ff_eval *e = ctx;
    return ff_agree(e->comm, mine);
}

void ff_eval_res_limit(ff_eval *e, bool on)
{
    double deadline_s = e->opts.backend->deadline_s;
    if (deadline_s > 0 && !ff_comm_lost(e->comm)) ff_comm_limit(e->comm, on ? deadline_s : HUGE_VAL);
}

typedef struct upper_ctx {
    const int32_t *row_of;
    double *rows;
    int m;
} upper_ctx;

static void upper_node(void *ctx, int32_t i, const double *sum)
{
    const upper_ctx *u = ctx;
    if (u->row_of[i] >= 0) memcpy(u->rows + (int64_t)u->row_of[i] * u->m, sum, (size_t)u->m * sizeof *sum);
}

static ff_status upper(void *ctx, int cloud, int m, const double *own, double *rows)
{
    const ff_eval *e = ctx;
    upper_ctx u = {e->res->link[cloud].l.row_of, rows, m};
    ff_moment_ops ops = {m, NULL, upper_node, &u};
    return ff_moment_upper(e->let[cloud], &ops, own);
}

/* Messages of a cloud's rows; without the empty ones. */
static ff_resident_msgs row_messages(const cloud_link *l, size_t row_bytes, void *send, void *recv)
{
    ff_resident_msgs m = {l->l.send_msg, l->l.recv_msg, 0, 0};
    ff_link_rows(&l->l, row_bytes, send, recv, &m);
    return m;
}

static ff_status begin(void *ctx, int cloud, size_t row_bytes, void *send, void *recv)
{
    ff_eval *e = ctx;
    cloud_link *l = &e->res->link[cloud];
    ff_resident_msgs m = row_messages(l, row_bytes, send, recv);
    return e->let[cloud]->transport->begin(e->comm, m.send, m.n_send, m.recv, m.n_recv, &l->req);
}

static ff_status end(void *ctx, int cloud)
{
    ff_eval *e = ctx;
    return e->let[cloud]->transport->end(e->comm, &e->res->link[cloud].req);
}

static void rows_of(void *ctx, int cloud, size_t row_bytes, void *send, void *recv, ff_resident_msgs *m)
{
    ff_link_rows(&((const ff_eval *)ctx)->res->link[cloud].l, row_bytes, send, recv, m);
}

static void sums_of(void *ctx, int cloud, size_t row_bytes, void *all, ff_resident_msgs *m)
{
    ff_link_sums(&((const ff_eval *)ctx)->res->link[cloud].l, row_bytes, all, m);
}

/* ---- what a cloud brings ---- */

void ff_eval_res_drop_inputs(cloud_link *l)
{
    FF_FREE(l->x);
    FF_FREE(l->normal);
    FF_FREE(l->field);
    FF_FREE(l->mu);
}

void ff_eval_res_link_free(cloud_link *l)
{
    ff_link_free(&l->l);
    ff_eval_res_drop_inputs(l);
    *l = (cloud_link){.req = NULL};
}

ff_status ff_eval_res_to_own(ff_eval *e, int i, cloud_link *l)
{
    const ff_cloud *cloud = e->cloud[i];
    bool source = i < e->n_src;
    int64_t n = cloud->n_own, dim = e->dim;
    int64_t n_field = source ? e->res->n_stat[i] - dim : 0;
    const ff_source *src = source ? &e->c->source[i] : NULL;
    const eval_set *set = &e->set[i];
    ff_status st = ff_link_make(e->let[i], source, set->task, set->remote, set->n_tasks, &l->l);
    if (st == FF_OK) st = FF_NEW(l->x, n * dim + 1);
    if (st == FF_OK) st = FF_NEW(l->normal, n * dim + 1);
    if (st == FF_OK) st = FF_NEW(l->field, n * n_field + 1);
    if (st == FF_OK) st = FF_NEW(l->mu, n + 1);
    FF_TRY(ff_agree(e->comm, st));
    FF_TRY(ff_cloud_to_own(cloud, (size_t)dim * sizeof(double), source ? src->x : e->c->target_x, l->x));
    if (!source) return FF_OK;
    FF_TRY(ff_cloud_to_own(cloud, (size_t)dim * sizeof(double), src->normal, l->normal));
    if (n_field > 0) FF_TRY(ff_cloud_to_own(cloud, (size_t)n_field * sizeof(double), src->field, l->field));
    return ff_cloud_to_own(cloud, sizeof(double), src->mu, l->mu);
}

static ff_resident_cloud given_home(const ff_eval *e, int i)
{
    if (i >= e->n_src)
        return (ff_resident_cloud){.n = e->c->n_targets, .x32 = e->c->target_x32, .x = e->c->target_x};
    const ff_source *s = &e->c->source[i];
    return (ff_resident_cloud){
        .n = s->n, .x32 = s->x32, .x = s->x, .normal = s->normal, .field = s->field, .mu = s->mu};
}

static ff_resident_cloud given_own(const ff_eval *e, int i)
{
    const cloud_link *l = &e->res->link[i];
    ff_resident_cloud c = {
        .n = e->cloud[i]->n_own, .x = l->x, .normal = l->normal, .field = l->field, .mu = l->mu};
    ff_link_give(&l->l, &c);
    return c;
}

/* ---- whole trees: ranks share the targets ---- */

/* Device bytes of one point or node, roughly: rows, tree, and the records of the layer in work. */
static int64_t row_bytes(const ff_eval *e)
{
    const ff_model_config *m = e->c->model->config;
    int most = 0;
    for (int j = 0; j < e->n_src; j++) {
        int n = ff_names_comp(&m->bc[e->c->source[j].bc].fields, e->dim);
        if (n > most) most = n;
    }
    return 100 + 16 * e->dim + 4 * (most + e->dim + e->n_dyn) + e->n_len * 4 * m->hidden[0];
}

ff_status ff_eval_resident_whole(ff_eval *e)
{
    const ff_pair_backend *b = e->opts.backend;
    int64_t limit = b->whole_bytes, rows = 0;
    FF_TRY(ff_comm_allreduce(e->comm, &limit, 1, FF_MIN_I64));
    for (int i = 0; i < e->n_cloud; i++) {
        int64_t n = ff_eval_res_n_home(e, i);
        FF_TRY(ff_comm_allreduce(e->comm, &n, 1, FF_SUM_I64));
        rows += n + ff_topo_nodes(n, e->c->leaf_size);
    }
    e->whole = limit > 0 && rows <= limit / row_bytes(e);
    return FF_OK;
}

static ff_status gather(void *ctx, void *all, const size_t *off)
{
    const ff_eval *e = ctx;
    ff_status st = FF_OK;
    int size = e->comm->size, me = e->comm->rank;
    size_t *bytes = NULL;
    char *own = NULL;
    st = FF_NEW(bytes, size);
    if (st == FF_OK) st = FF_NEW(own, off[me + 1] - off[me] + 1);
    FF_GO(ff_agree(e->comm, st));
    for (int r = 0; r < size; r++) bytes[r] = off[r + 1] - off[r];
    memcpy(own, (char *)all + off[me], bytes[me]);
    st = ff_comm_allgatherv(e->comm, own, bytes[me], all, bytes);
done:
    ff_free(bytes);
    ff_free(own);
    return st;
}

ff_status ff_eval_res_share(ff_eval *e)
{
    eval_resident *s = e->res;
    int size = e->comm->size, runs = size + 1;
    if (s->home == NULL) {
        ff_status st = FF_NEW0(s->home, e->n_cloud * runs);
        if (st == FF_OK) st = FF_NEW0(s->cut, e->n_cloud * runs);
        if (st == FF_OK) st = FF_NEW0(s->share, runs);
        if (st == FF_OK) st = FF_NEW0(s->old_share, runs);
        if (st == FF_OK) st = FF_NEW0(s->work, runs);
        FF_TRY(ff_agree(e->comm, st));
        for (int r = 0; r <= size; r++) s->share[r] = (double)r / size;
    }
    for (int i = 0; i < e->n_cloud; i++) {
        int64_t n = ff_eval_res_n_home(e, i), *home = s->home + i * runs;
        FF_TRY(ff_comm_allgather(e->comm, &n, sizeof n, home + 1));
        for (int r = 0; r < size; r++) home[r + 1] += home[r];
        ff_cut_by_share(home[size], e->c->leaf_size, size, s->share, s->cut + i * runs);
    }
    return FF_OK;
}

ff_status ff_eval_res_balance(ff_eval *e, bool *far)
{
    eval_resident *s = e->res;
    int size = e->comm->size;
    int64_t most = 0;
    double sum = 0;
    FF_TRY(ff_comm_allgather(e->comm, &e->stats.dist.work, sizeof *s->work, s->work));
    for (int r = 0; r < size; r++) {
        sum += (double)s->work[r];
        if (s->work[r] > most) most = s->work[r];
    }
    memcpy(s->old_share, s->share, (size_t)(size + 1) * sizeof *s->share);
    ff_cut_share(size, s->work, s->old_share, s->share);
    *far = (double)most * size > 1.03 * sum;
    s->balanced = s->balanced || sum > 0;
    return FF_OK;
}

static ff_resident_cloud given_share(const ff_eval *e, int i)
{
    ff_resident_cloud c = given_home(e, i);
    int runs = e->comm->size + 1;
    c.home = e->res->home + i * runs;
    c.cut = e->res->cut + i * runs;
    return c;
}

ff_resident_cloud ff_eval_res_given(const ff_eval *e, int i)
{
    if (e->whole) return given_share(e, i);
    return e->comm->size > 1 ? given_own(e, i) : given_home(e, i);
}

ff_resident_comm ff_eval_res_comm(ff_eval *e)
{
    const ff_device_comm *device = e->opts.backend->device_comm;
    if (device != NULL && device->comm != e->comm) device = NULL; /* it joins other ranks */
    return (ff_resident_comm){.size = e->comm->size,
                              .rank = e->comm->rank,
                              .ctx = e,
                              .whole = e->whole,
                              .gather = gather,
                              .agree = ff_eval_res_agree,
                              .upper = upper,
                              .begin = begin,
                              .end = end,
                              .device = device,
                              .rows = rows_of,
                              .sums = sums_of};
}
