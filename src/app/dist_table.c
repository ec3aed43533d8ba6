#include "dist_table.h"

enum { SHOWN = 16 };

typedef struct rank_row {
    ff_dist_row d;
    int64_t bytes, pairs;
    double t_exchange_s, t_wait_s;
} rank_row;

static double hidden_share(const rank_row *r)
{
    return r->t_exchange_s > 0 ? 100 * (1 - r->t_wait_s / r->t_exchange_s) : 100;
}

static void json_rank(ff_json *j, const rank_row *r)
{
    ff_json_open(j, NULL, '{');
    ff_json_int(j, "points", r->d.points);
    ff_json_int(j, "near_pairs", r->d.near_pairs);
    ff_json_int(j, "far_evaluations", r->d.far_evals);
    ff_json_int(j, "peers", r->d.peers);
    ff_json_int(j, "bytes_sent", r->bytes);
    ff_json_int(j, "work", r->d.work);
    ff_json_double(j, "t_exchange_s", r->t_exchange_s);
    ff_json_double(j, "t_wait_s", r->t_wait_s);
    ff_json_double(j, "hidden_percent", hidden_share(r));
    ff_json_close(j);
}

ff_status dist_table(ff_app *app, const ff_eval *e)
{
    ff_status st = FF_OK;
    int size = app->comm->size, layers = ff_eval_n_layers(e);
    const ff_eval_stats *s = ff_eval_get_stats(e);
    rank_row mine = {s->dist, s->bytes_sent, s->pairs, s->t_exchange_s, s->t_wait_s}, *all = NULL;
    if (size == 1) mine.t_exchange_s = mine.t_wait_s = 0; /* nothing is exchanged */
    FF_TRY(FF_NEW_ALL(app->comm, all, size));
    FF_GO(ff_comm_allgather(app->comm, &mine, sizeof mine, all));
    double work = 0, most = 0, hidden = 100;
    ff_info("rank     points   near pairs  far evals  peers  MB sent a layer  exchange ms  hidden %%");
    ff_json_open(&app->json, "ranks", '[');
    for (int r = 0; r < size; r++) {
        const rank_row *q = &all[r];
        work += (double)q->d.work / size;
        if ((double)q->d.work > most) most = (double)q->d.work;
        if (hidden_share(q) < hidden) hidden = hidden_share(q);
        json_rank(&app->json, q);
        if (r < SHOWN)
            ff_info("%4d %10lld %12.4g %10.4g %6lld %16.3f %12.3f %9.0f", r, (long long)q->d.points,
                    (double)q->d.near_pairs, (double)q->d.far_evals, (long long)q->d.peers,
                    1e-6 * (double)q->bytes / layers, 1e3 * q->t_exchange_s / layers, hidden_share(q));
    }
    ff_json_close(&app->json);
    if (size > SHOWN) ff_info("     ... %d more ranks", size - SHOWN);
    double imbalance = work > 0 ? 100 * (most / work - 1) : 0;
    ff_info("imbalance of work %.1f %%, least hidden exchange %.0f %%", imbalance, hidden);
    ff_json_double(&app->json, "imbalance_percent", imbalance);
    ff_json_double(&app->json, "hidden_percent", hidden);
done:
    ff_free(all);
    return st;
}
