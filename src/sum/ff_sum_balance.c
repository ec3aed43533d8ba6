/* Cuts of points between ranks by work.
 *
 * The first cut has equal counts. Where the lists that follow from it give some rank more to do than groups of points would
 * allow, points are divided once more, by the work of each group, and trees and lists are made again. No bit of a sum depends
 * on the cut. */
#include "ff_sum_impl.h"

#include "ff_mem.h"

#include <math.h>
#include <string.h>

enum { N_GROUPS = 1 << FF_SUM_GROUP_LEVELS };

/* In near pairs: what a point costs on its way to expansions and back, and what a point costs to be divided again. */
enum { POINT = 250, POINT_AGAIN = 300 };
enum { MOST_POINTS = 4 }; /* of the mean, on any rank */

/* A far pair of nodes, in near pairs: turns take order^3 steps (measured: 1,700 at order 11), proxies meet each other. */
static int64_t far_cost(const ff_sum *s)
{
    const int64_t n1 = s->o.order + 1, n = s->n_proxy;
    return s->harm != NULL ? n1 * n1 * n1 : n * n;
}

/* Near pairs and the like of own groups; zeros for others. */
static void own_work(const ff_sum *s, const sum_side *to, const sum_side *from, const ff_plan *plan,
                     const int64_t *start, int n_groups, int64_t *work)
{
    const ff_tree *t = to->let->tree, *f = from->let->tree;
    const int64_t begin = to->cloud->cut[s->comm->rank], end = begin + to->cloud->n_own, far = far_cost(s);
    for (int g = 0; g < n_groups; g++)
        if (start[g] >= begin && start[g] < end) work[g] += POINT * (start[g + 1] - start[g]);
    for (int64_t r = 0; r < plan->n_rows; r++) {
        ff_dtt_lists l;
        ff_plan_row(plan, r, &l);
        int64_t near = 0, at = t->start[l.t] > begin ? t->start[l.t] : begin;
        for (int64_t k = 0; k < l.n_leaf; k++) near += f->count[l.leaf_s[k]];
        int g = 0;
        while (g < n_groups - 1 && start[g + 1] <= at) g++;
        work[g] += near * t->count[l.t] + far * l.n_far;
    }
}

static int64_t largest(const int64_t *cut, int size, const int64_t *start, int n_groups, const int64_t *work)
{
    int64_t most = 0;
    for (int r = 0, g = 0; r < size; r++) {
        int64_t sum = 0;
        for (; g < n_groups && start[g] < cut[r + 1]; g++) sum += work[g];
        most = sum > most ? sum : most;
    }
    return most;
}

/* A better cut of one side to side->wanted, if there is one that pays. Collective */
static ff_status balance_side(ff_sum *s, sum_side *to, const sum_side *from, const ff_plan *plan, bool *again)
{
    int64_t start[N_GROUPS + 1], work[N_GROUPS] = {0}, *cut = NULL;
    ff_subtree group[N_GROUPS];
    const ff_cloud *c = to->cloud;
    const int size = s->comm->size, n_groups = ff_sum_group_starts(c->n, c->leaf_size, start);
    ff_status st = FF_OK;
    own_work(s, to, from, plan, start, n_groups, work);
    FF_TRY(ff_comm_allreduce(s->comm, work, n_groups, FF_SUM_I64));
    for (int g = 0; g < n_groups; g++) group[g] = (ff_subtree){g, start[g], start[g + 1] - start[g]};
    FF_GO(FF_NEW_ALL(s->comm, cut, size + 1));
    st = ff_cut_by_work(group, n_groups, work, size, MOST_POINTS * (c->n / size + c->n / n_groups + 1), cut);
    FF_GO(ff_agree(s->comm, st));
    const int64_t gain =
        largest(c->cut, size, start, n_groups, work) - largest(cut, size, start, n_groups, work);
    if (gain > POINT_AGAIN * (c->n / size)) {
        *again = true;
        to->wanted = cut;
        cut = NULL;
    }
done:
    ff_free(cut);
    return st;
}

ff_status ff_sum_balance(ff_sum *s, bool *again)
{
    *again = false;
    if (s->comm->size == 1) return FF_OK;
    FF_TRY(balance_side(s, ff_sum_targets(s), ff_sum_sources(s), s->plan, again));
    if (s->plan_back == NULL) return FF_OK;
    return balance_side(s, ff_sum_sources(s), ff_sum_targets(s), s->plan_back, again);
}

ff_status ff_sum_imbalance(const ff_sum *s, double *out)
{
    const sum_side *to = &s->side[s->n_side - 1];
    const int64_t mine =
        s->plan->counts.near_near + far_cost(s) * s->plan->counts.far_node_pairs + POINT * to->cloud->n_own;
    int64_t most = mine, sum = mine;
    FF_TRY(ff_comm_allreduce(s->comm, &most, 1, FF_MAX_I64));
    FF_TRY(ff_comm_allreduce(s->comm, &sum, 1, FF_SUM_I64));
    *out = sum > 0 ? (double)most * s->comm->size / (double)sum : 1;
    return FF_OK;
}
