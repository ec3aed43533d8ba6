/* The evaluation on a backend that keeps it to itself (ff_resident.h): networks, start and layers, results back to home
 * order. */
#include "ff_eval_resident_int.h"
#include "ff_timer.h"

#include <math.h>

bool ff_eval_is_resident(const ff_eval *e)
{
    return e->opts.backend != NULL && e->opts.backend->resident != NULL && !e->opts.f64;
}

/* ---- networks and shapes, once ---- */

static ff_status make_net(ff_eval *e, int layer, int j, int k, const ff_globe_shape *shape)
{
    const ff_pair_backend *b = e->opts.backend;
    const float *w[FF_GLOBE_MAX_LAYERS + 1], *bias[FF_GLOBE_MAX_LAYERS + 1];
    int bc = e->c->source[j].bc;
    ff_model_network(e->c->model, layer, bc, k, w, bias);
    return b->net_create(b->impl, shape, w, bias, e->gscalar, e->gvector,
                         e->c->length[k] * exp(ff_model_log_scale(e->c->model, layer, bc, k)),
                         &e->res->net[(layer * e->n_src + j) * e->n_len + k]);
}

static ff_status make_nets(ff_eval *e)
{
    ff_status st = FF_OK;
    const ff_model_config *m = e->c->model->config;
    int *ranks = NULL;
    FF_GO(FF_NEW0(e->res->net, (m->n_comm + 1) * e->n_src * e->n_len + 1));
    FF_GO(FF_NEW0(e->res->madds, m->n_comm + 1));
    FF_GO(FF_NEW(ranks, ff_model_max_fields(m) + 1));
    for (int layer = 0; layer <= m->n_comm; layer++)
        for (int j = 0; j < e->n_src; j++) {
            ff_globe_shape shape;
            ff_model_shape(m, layer, e->c->source[j].bc, ranks, &shape);
            for (int k = 0; k < e->n_len; k++) FF_GO(make_net(e, layer, j, k, &shape));
            if (j == 0) e->res->madds[layer] = ff_globe_pair_madds(&shape);
        }
done:
    ff_free(ranks);
    return st;
}

static ff_status make_tables(ff_eval *e)
{
    eval_resident *s = e->res;
    const ff_model_config *m = e->c->model->config;
    int n_out = ff_names_comp(&m->outputs, e->dim), at = 0;
    FF_TRY(FF_NEW(s->slot, e->n_len + 1));
    FF_TRY(FF_NEW(s->n_scalar, e->n_src + 1));
    FF_TRY(FF_NEW(s->n_stat, e->n_src + 1));
    FF_TRY(FF_NEW(s->weight, n_out + 1));
    FF_TRY(FF_NEW(s->bias, n_out + 1));
    FF_TRY(FF_NEW0(s->link, e->n_cloud + 1));
    for (int k = 0; k < e->n_len; k++) s->slot[k] = ff_model_length_slot(m, k);
    for (int j = 0; j < e->n_src; j++) {
        const ff_name_list *f = &m->bc[e->c->source[j].bc].fields;
        s->n_scalar[j] = ff_names_count(f, 0);
        s->n_stat[j] = e->dim + ff_names_comp(f, e->dim);
    }
    for (int i = 0; i < m->outputs.n; i++) {
        double w, b;
        ff_model_calibration(e->c->model, i, &w, &b);
        for (int d = 0; d < (m->outputs.item[i].rank == 0 ? 1 : e->dim); d++, at++) {
            s->weight[at] = (float)w;
            s->bias[at] = (float)b;
        }
    }
    s->m = (ff_resident_model){.dim = e->dim,
                               .n_src = e->n_src,
                               .n_cloud = e->n_cloud,
                               .target = e->target,
                               .n_comm = m->n_comm,
                               .n_ls = m->n_latent_scalar,
                               .n_lv = m->n_latent_vector,
                               .n_len = e->n_len,
                               .n_out = n_out,
                               .leaf_size = e->c->leaf_size,
                               .theta = e->c->theta,
                               .compression = m->compression,
                               .eps = m->eps,
                               .expand_far = e->c->expand_far,
                               .way_back = e->opts.adjoint != NULL,
                               .slot = s->slot,
                               .n_scalar = s->n_scalar,
                               .n_stat = s->n_stat,
                               .weight = s->weight,
                               .bias = s->bias,
                               .net = s->net};
    return FF_OK;
}

/* ---- calls from ff_eval.c ---- */

static ff_status create(ff_eval *e)
{
    const ff_resident_ops *ops = e->opts.backend->resident;
    FF_TRY(FF_NEW0(e->res, 1));
    FF_TRY(make_nets(e));
    FF_TRY(make_tables(e));
    ff_resident_comm comm = ff_eval_res_comm(e);
    return ops->create(e->opts.backend->impl, &e->res->m, &comm, &e->res->r);
}

/* Zeros where lists are made in the layers; then these tell. */
static ff_status take_counts(ff_eval *e)
{
    ff_resident_counts n;
    FF_TRY(e->opts.backend->resident->counts(e->res->r, &n));
    int n_comm = e->c->model->config->n_comm;
    e->res->counts = n;
    e->stats.dist.near_pairs = n.near_pairs;
    e->stats.dist.far_evals = n.far_evals;
    e->stats.dist.work = n.comm_evals * n_comm + n.final_evals;
    return FF_OK;
}

/* Trees and lists on the device of what is given. */
static ff_status start(ff_eval *e, ff_resident_cloud *given)
{
    int me = e->comm->rank;
    for (int i = 0; i < e->n_cloud; i++) given[i] = ff_eval_res_given(e, i);
    ff_status st = e->opts.backend->resident->start(e->res->r, given);
    if (st == FF_OK) st = take_counts(e);
    e->stats.dist.points = 0;
    for (int i = 0; i < e->n_cloud; i++)
        e->stats.dist.points += e->whole ? given[i].cut[me + 1] - given[i].cut[me] : given[i].n;
    if (e->whole) e->stats.dist.peers = e->comm->size - 1;
    return ff_agree(e->comm, st);
}

/* Work is counted where lists are kept: the first time that may tell that the shares are far from equal. */
static ff_status start_whole(ff_eval *e, ff_resident_cloud *given)
{
    bool known = e->res->balanced, far = false;
    FF_TRY(ff_eval_res_share(e));
    FF_TRY(start(e, given));
    if (known) return FF_OK;
    FF_TRY(ff_eval_res_balance(e, &far));
    if (!far) return FF_OK;
    FF_TRY(ff_eval_res_share(e));
    return start(e, given);
}

ff_status ff_eval_resident_start(ff_eval *e)
{
    ff_status st = FF_OK;
    ff_resident_cloud *given = NULL;
    bool parts = e->comm->size > 1 && !e->whole;
    if (e->res == NULL) FF_TRY(ff_agree(e->comm, create(e)));
    FF_TRY(FF_NEW_ALL(e->comm, given, e->n_cloud + 1));
    ff_eval_res_limit(e, true);
    for (int i = 0; i < e->n_cloud && parts; i++) {
        ff_eval_res_link_free(&e->res->link[i]);
        FF_GO(ff_eval_res_to_own(e, i, &e->res->link[i]));
    }
    st = e->whole ? start_whole(e, given) : start(e, given);
done:
    ff_eval_res_limit(e, false);
    for (int i = 0; i < e->n_cloud; i++) ff_eval_res_drop_inputs(&e->res->link[i]);
    ff_free(given);
    return st;
}

/* Shows target cloud i's rows of layer k, home order. */
static ff_status show(ff_eval *e, int k, int i)
{
    ff_status st = FF_OK;
    bool final = k == e->c->model->config->n_comm, many = e->comm->size > 1 && !e->whole;
    int64_t n_comp = final ? e->res->m.n_out : e->n_dyn, n = ff_eval_res_n_home(e, i),
            n_given = many ? e->cloud[i]->n_own : n;
    float *given = NULL, *home = NULL;
    double *rows = NULL;
    st = FF_NEW(given, n_given * n_comp + 1);
    if (st == FF_OK) st = FF_NEW(home, n * n_comp + 1);
    if (st == FF_OK) st = FF_NEW(rows, n * n_comp + 1);
    FF_GO(ff_agree(e->comm, st));
    st = e->opts.backend->resident->rows(e->res->r, k, i, given);
    FF_GO(ff_agree(e->comm, st));
    if (many) FF_GO(ff_cloud_to_home(e->cloud[i], (size_t)n_comp * sizeof *home, given, home));
    for (int64_t a = 0; a < n * n_comp; a++) rows[a] = (double)(many ? home : given)[a];
    FF_GO(e->opts.layer(e->opts.ctx, k, final ? -1 : i, n, rows));
done:
    ff_free(given);
    ff_free(home);
    ff_free(rows);
    return st;
}

/* Target cloud i's rows of layer k for the way back, own order. */
static ff_status keep_rows(ff_eval *e, int k, int i)
{
    ff_status st = FF_OK;
    const ff_cloud *cloud = e->cloud[i];
    bool final = k == e->c->model->config->n_comm, many = e->comm->size > 1;
    int64_t n_comp = final ? e->res->m.n_out : e->n_dyn;
    float *given = NULL, *own = NULL;
    st = FF_NEW(given, (many ? cloud->n_own : ff_eval_res_n_home(e, i)) * n_comp + 1);
    if (st == FF_OK && !many) st = FF_NEW(own, cloud->n_own * n_comp + 1);
    if (st == FF_OK) st = e->opts.backend->resident->rows(e->res->r, k, i, given);
    FF_GO(ff_agree(e->comm, st));
    if (!many) FF_GO(ff_cloud_to_own(cloud, (size_t)n_comp * sizeof *own, given, own));
    e->kept[k * e->n_cloud + i] = many ? given : own;
    if (many) given = NULL;
    own = NULL;
done:
    ff_free(given);
    ff_free(own);
    return st;
}

static ff_status fields(ff_eval *e, double *out)
{
    const ff_resident_ops *ops = e->opts.backend->resident;
    double *own = NULL;
    if (e->comm->size == 1 || e->whole) return ff_eval_res_agree(e, ops->fields(e->res->r, out));
    const ff_cloud *cloud = e->cloud[e->target];
    FF_TRY(FF_NEW_ALL(e->comm, own, cloud->n_own * e->res->m.n_out + 1));
    ff_status st = ff_eval_res_agree(e, ops->fields(e->res->r, own));
    if (st == FF_OK) st = ff_cloud_to_home(cloud, (size_t)e->res->m.n_out * sizeof *own, own, out);
    ff_free(own);
    return st;
}

static ff_status take_traffic(ff_eval *e)
{
    ff_resident_traffic t;
    FF_TRY(e->opts.backend->resident->traffic(e->res->r, &t));
    e->stats.bytes_sent = t.bytes_sent;
    e->stats.t_exchange_s = t.t_exchange_s;
    e->stats.t_wait_s = t.t_wait_s;
    return FF_OK;
}

ff_status ff_eval_resident_run(ff_eval *e, double *out)
{
    ff_status st = FF_OK;
    const ff_resident_ops *ops = e->opts.backend->resident;
    int n_comm = e->c->model->config->n_comm;
    ff_phase_begin("layers");
    ff_eval_res_limit(e, true);
    ff_eval_drop_kept(e);
    if (e->opts.keep) FF_GO(FF_NEW0_ALL(e->comm, e->kept, (n_comm + 1) * e->n_cloud + 1));
    for (int k = 0; k <= n_comm; k++) {
        st = ops->layer(e->res->r, k);
        if (e->comm->size > 1 || st != FF_OK) FF_GO(ff_eval_res_agree(e, st));
        for (int i = 0; i < e->n_cloud; i++) {
            if (k == n_comm ? i != e->target : i >= e->n_src) continue;
            if (e->opts.layer != NULL) FF_GO(show(e, k, i));
            if (e->opts.keep) FF_GO(keep_rows(e, k, i));
        }
    }
    FF_GO(fields(e, out));
    if (e->comm->size > 1) FF_GO(ff_eval_res_agree(e, take_traffic(e)));
    FF_GO(ff_eval_res_agree(e, e->res->counts.final_evals == 0 ? take_counts(e) : FF_OK));
    if (e->whole) FF_GO(ff_eval_res_balance(e, &(bool){false}));
    e->stats.pairs = e->stats.dist.work;
    for (int k = 0; k <= n_comm; k++)
        e->stats.flop +=
            2 * e->res->madds[k] * (k == n_comm ? e->res->counts.final_evals : e->res->counts.comm_evals);
done:
    if (st == FF_OK && e->opts.adjoint != NULL) ops->idle(e->res->r);
    ff_eval_res_limit(e, false);
    ff_phase_end();
    ff_phase_count("layers", "evals", (double)e->stats.pairs, 0);
    return st;
}

ff_status ff_eval_resident_values(ff_eval *e, int j, float *rows)
{
    return e->opts.backend->resident->values(e->res->r, j, rows);
}

int ff_eval_resident_phases(ff_eval *e, ff_resident_phase *p, int max)
{
    return e->res != NULL && e->res->r != NULL ? e->opts.backend->resident->phases(e->res->r, p, max) : 0;
}

void ff_eval_resident_free(ff_eval *e)
{
    eval_resident *s = e->res;
    const ff_pair_backend *b = e->opts.backend;
    if (s == NULL) return;
    b->resident->destroy(&s->r);
    for (int k = 0; s->net != NULL && k < (e->c->model->config->n_comm + 1) * e->n_src * e->n_len; k++)
        b->net_destroy(b->impl, &s->net[k]);
    for (int i = 0; i < e->n_cloud && s->link != NULL; i++) ff_eval_res_link_free(&s->link[i]);
    ff_free(s->net);
    ff_free(s->madds);
    ff_free(s->slot);
    ff_free(s->n_scalar);
    ff_free(s->n_stat);
    ff_free(s->weight);
    ff_free(s->bias);
    ff_free(s->link);
    ff_free(s->home);
    ff_free(s->cut);
    ff_free(s->share);
    ff_free(s->old_share);
    ff_free(s->work);
    FF_FREE(e->res);
}
