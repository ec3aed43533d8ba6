/* Geometry, trees and plans of a golden file against ours. Trees and plans are compared as built on one rank;
 * the distributed plans are then held against those by digest. */
#include "verify.h"

#include "ff_plan.h"
#include "ff_sort.h"

#include <math.h>
#include <string.h>

/* ---- geometry ---- */

static double relative_each(const double *a, const double *b, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i]) worst = fmax(worst, b[i] == 0 ? HUGE_VAL : fabs(a[i] - b[i]) / fabs(b[i]));
    return worst;
}

static ff_status compare_geometry(verify *v, int i, const char *name, const double *mine, int len, double tol,
                                  bool relative)
{
    char dataset[700];
    double *ref = NULL, err = HUGE_VAL;
    int64_t rows = 0, row_len = 0, n = v->g->c->source[i].n;
    (void)snprintf(dataset, sizeof dataset, "/geometry/%s/%s", ff_golden_name(v->g, i), name);
    FF_TRY(ff_agree(v->app->comm, ff_golden_f64(v->g, dataset, &ref, &rows, &row_len)));
    int64_t from = rows * v->app->comm->rank / v->app->comm->size;
    if (row_len == len && from + n <= rows)
        err =
            relative ? relative_each(mine, ref + from, n) : verify_error(mine, ref + from * len, n * len, 1);
    ff_free(ref);
    return verify_row(v, dataset + 1, err, tol);
}

ff_status verify_geometry(verify *v)
{
    const ff_case *c = v->g->c;
    int dim = v->g->model->config->dim;
    for (int i = 0; i < c->n_sources; i++) {
        const ff_source *s = &c->source[i];
        double *x = NULL;
        FF_TRY(FF_NEW_ALL(v->app->comm, x, s->n * dim + 1));
        for (int64_t k = 0; k < s->n * dim; k++) x[k] = (double)s->x32[k];
        ff_status st = compare_geometry(v, i, "centroids", x, dim, 0, false);
        ff_free(x);
        FF_TRY(st);
        FF_TRY(compare_geometry(v, i, "normals", s->normal, dim, 1e-6, false));
        FF_TRY(compare_geometry(v, i, "areas", s->area, 1, 5e-6, true));
        FF_TRY(compare_geometry(v, i, "measure_over_reference_area", s->mu, 1, 5e-6, true));
    }
    return FF_OK;
}

/* ---- trees ---- */

typedef struct serial_tree {
    ff_tree *tree;
    int64_t *order, *bfs; /* [n_points], [n_nodes] */
} serial_tree;

static void serial_free(serial_tree *s)
{
    ff_tree_destroy(&s->tree);
    FF_FREE(s->order);
    FF_FREE(s->bfs);
}

static ff_status serial_build(verify *v, int i, serial_tree *out)
{
    ff_status st = FF_OK;
    char dataset[700];
    double *x = NULL;
    float *x32 = NULL;
    int64_t n = 0, dim = v->g->model->config->dim;
    if (i < 0)
        (void)snprintf(dataset, sizeof dataset, "/inputs/prediction_points");
    else
        (void)snprintf(dataset, sizeof dataset, "/geometry/%s/centroids", ff_golden_name(v->g, i));
    FF_GO(ff_golden_f64(v->g, dataset, &x, &n, NULL));
    FF_GO(FF_NEW(x32, n * dim + 1));
    for (int64_t k = 0; k < n * dim; k++) x32[k] = (float)x[k];
    FF_GO(FF_NEW(out->order, n + 1));
    FF_GO(ff_tree_build(x32, n, (int)dim, v->g->c->leaf_size, out->order, &out->tree));
    FF_GO(FF_NEW(out->bfs, out->tree->n_nodes + 1));
    st = ff_tree_bfs_ids(out->tree, out->bfs);
done:
    ff_free(x);
    ff_free(x32);
    return st;
}

/* Reads trees/<name>/<what> as doubles; checks the number of rows. */
static ff_status tree_array(verify *v, int i, const char *what, int64_t rows, double **out)
{
    char dataset[700];
    int64_t n = 0;
    (void)snprintf(dataset, sizeof dataset, "/trees/%s/%s", ff_golden_name(v->g, i), what);
    FF_TRY(ff_golden_f64(v->g, dataset, out, &n, NULL));
    if (n == rows) return FF_OK;
    FF_FREE(*out);
    return ff_fail(FF_E_INPUT, "%s: %s has %lld rows, expected %lld", v->g->path, dataset, (long long)n,
                   (long long)rows);
}

/* Value of node k for one of the compared arrays; false: unknown name. */
static double node_value(const serial_tree *s, int64_t k, const char *what, int64_t d)
{
    const ff_tree *t = s->tree;
    const ff_node *n = &t->node[k];
    bool leaf = n->right == FF_NODE_LEAF;
    if (strcmp(what, "node_aabb_min") == 0) return (double)n->lo[d];
    if (strcmp(what, "node_aabb_max") == 0) return (double)n->hi[d];
    if (strcmp(what, "node_diameter_sq") == 0) return (double)n->diam2;
    if (strcmp(what, "node_left_child") == 0) return leaf ? -1 : (double)s->bfs[k + 1];
    if (strcmp(what, "node_right_child") == 0) return leaf ? -1 : (double)s->bfs[n->right];
    if (strcmp(what, "leaf_start") == 0) return leaf ? (double)t->start[k] : -1;
    if (strcmp(what, "leaf_count") == 0) return leaf ? (double)t->count[k] : 0;
    if (strcmp(what, "node_range_start") == 0) return (double)t->start[k];
    return (double)t->count[k]; /* node_range_count */
}

static ff_status compare_tree(verify *v, int i, const serial_tree *s)
{
    static const struct {
        const char *what;
        bool vector;
    } array[] = {{"node_aabb_min", true},    {"node_aabb_max", true},     {"node_diameter_sq", false},
                 {"node_left_child", false}, {"node_right_child", false}, {"leaf_start", false},
                 {"leaf_count", false},      {"node_range_start", false}, {"node_range_count", false}};
    int64_t different = 0, n_nodes = s->tree->n_nodes, dim = s->tree->dim;
    char what[600];
    double *ref = NULL;
    for (size_t a = 0; a < sizeof array / sizeof array[0]; a++) {
        FF_TRY(tree_array(v, i, array[a].what, n_nodes, &ref));
        int64_t len = array[a].vector ? dim : 1;
        for (int64_t k = 0; k < n_nodes; k++)
            for (int64_t d = 0; d < len; d++)
                different += node_value(s, k, array[a].what, d) != ref[s->bfs[k] * len + d];
        ff_free(ref);
    }
    FF_TRY(tree_array(v, i, "sorted_source_order", s->tree->n_points, &ref));
    for (int64_t k = 0; k < s->tree->n_points; k++) different += (double)s->order[k] != ref[k];
    ff_free(ref);
    (void)snprintf(what, sizeof what, "trees/%s (entries that differ)", ff_golden_name(v->g, i));
    return verify_row(v, what, (double)different, 0);
}

/* Aggregates of the nodes inside this rank's run. */
static ff_status compare_aggregates(verify *v, const ff_eval *e, int i, const serial_tree *s)
{
    ff_status st = FF_OK;
    ff_let *const *lets;
    const uint8_t *need;
    const int64_t *weight;
    (void)ff_eval_lets(e, &lets, &need, &weight);
    const ff_let *let = lets[i];
    double *centroid = NULL, *normal = NULL, *total = NULL, err[3] = {0, 0, 0};
    int64_t dim = s->tree->dim, n = s->tree->n_nodes;
    int rank = v->app->comm->rank;
    char what[600];
    FF_GO(tree_array(v, i, "node_centroid", n, &centroid));
    FF_GO(tree_array(v, i, "node_normal", n, &normal));
    FF_GO(tree_array(v, i, "node_total_area", n, &total));
    double scale = verify_max_abs(centroid, n * dim);
    for (int32_t k = 0; k < let->tree->n_nodes; k++) {
        const double *x, *w;
        double mu;
        int64_t from = let->tree->start[k], to = from + let->tree->count[k];
        if (from < let->cloud->cut[rank] || to > let->cloud->cut[rank + 1]) continue;
        int64_t ref = s->bfs[let->tree->id[k]];
        ff_eval_node(e, i, k, &x, &w, &mu);
        err[2] = fmax(err[2], relative_each(&mu, &total[ref], 1));
        if (mu == 0) continue; /* the reference puts 0 there; ours is the plain mean */
        err[0] = fmax(err[0], verify_error(x, centroid + ref * dim, dim, scale));
        err[1] = fmax(err[1], verify_error(w, normal + ref * dim, dim, 1));
    }
done:
    ff_free(centroid);
    ff_free(normal);
    ff_free(total);
    FF_TRY(ff_agree(v->app->comm, st));
    (void)snprintf(what, sizeof what, "trees/%s/node_centroid", ff_golden_name(v->g, i));
    FF_TRY(verify_row(v, what, err[0], 1e-6));
    (void)snprintf(what, sizeof what, "trees/%s/node_normal", ff_golden_name(v->g, i));
    FF_TRY(verify_row(v, what, err[1], 1e-6));
    (void)snprintf(what, sizeof what, "trees/%s/node_total_area", ff_golden_name(v->g, i));
    return verify_row(v, what, err[2], 5e-6);
}

/* ---- plans, as sets of integer keys ---- */

typedef struct key_set {
    uint64_t *key;
    int64_t n, cap;
} key_set;

static ff_status key_add(key_set *s, int64_t a, int64_t b, int64_t n_b)
{
    FF_TRY(ff_mem_reserve(&s->key, &s->cap, s->n + 1, sizeof *s->key));
    s->key[s->n++] = (uint64_t)(a * n_b + b);
    return FF_OK;
}

/* Entries in one but not in the other; repeated entries count too. */
static ff_status key_difference(key_set *a, key_set *b, int64_t *out)
{
    FF_TRY(ff_sort_u64(a->key, NULL, a->n));
    FF_TRY(ff_sort_u64(b->key, NULL, b->n));
    int64_t i = 0, k = 0;
    while (i < a->n || k < b->n) {
        bool left = i < a->n && (k >= b->n || a->key[i] <= b->key[k]);
        bool right = k < b->n && (i >= a->n || b->key[k] <= a->key[i]);
        *out += left != right;
        i += left;
        k += right;
    }
    return FF_OK;
}

enum { NEAR, NEAR_FAR, FAR_NEAR, FAR_FAR, N_KINDS };

typedef struct plan_keys {
    key_set kind[N_KINDS];
} plan_keys;

static void plan_keys_free(plan_keys *p)
{
    for (int k = 0; k < N_KINDS; k++) ff_free(p->kind[k].key);
}

/* A far-near entry (T, s) that adds to target t: key ((T n_s + s) n_t + t). */
static ff_status add_far_near(plan_keys *p, const serial_tree *t, const serial_tree *s, int64_t node,
                              int64_t point, int64_t target)
{
    return key_add(&p->kind[FAR_NEAR], node * s->tree->n_points + point, target, t->tree->n_points);
}

static ff_status leaf_keys(plan_keys *p, const serial_tree *t, const serial_tree *s, int32_t tl, int32_t sl,
                           uint64_t tm, uint64_t sm)
{
    for (int64_t i = 0; i < t->tree->count[tl]; i++) {
        int64_t ti = t->order[t->tree->start[tl] + i];
        if ((tm >> i & 1) == 0) {
            FF_TRY(key_add(&p->kind[NEAR_FAR], ti, s->bfs[sl], s->tree->n_nodes));
            continue;
        }
        for (int64_t j = 0; j < s->tree->count[sl]; j++) {
            int64_t sj = s->order[s->tree->start[sl] + j];
            if (sm >> j & 1)
                FF_TRY(key_add(&p->kind[NEAR], ti, sj, s->tree->n_points));
            else
                FF_TRY(add_far_near(p, t, s, t->bfs[tl], sj, ti));
        }
    }
    return FF_OK;
}

static ff_status our_keys(const ff_plan *plan, const serial_tree *t, const serial_tree *s, plan_keys *p)
{
    for (int64_t r = 0; r < plan->n_rows; r++) {
        ff_dtt_lists q;
        ff_plan_row(plan, r, &q);
        for (int64_t k = 0; k < q.n_far; k++) {
            if (!plan->expand_far)
                FF_TRY(key_add(&p->kind[FAR_FAR], t->bfs[q.t], s->bfs[q.far_s[k]], s->tree->n_nodes));
            for (int64_t i = 0; plan->expand_far && i < t->tree->count[q.t]; i++)
                FF_TRY(key_add(&p->kind[NEAR_FAR], t->order[t->tree->start[q.t] + i], s->bfs[q.far_s[k]],
                               s->tree->n_nodes));
        }
        for (int64_t k = 0; k < q.n_leaf; k++)
            FF_TRY(leaf_keys(p, t, s, q.t, q.leaf_s[k], q.t_mask[k], q.s_mask[k]));
    }
    return FF_OK;
}

static ff_status plan_ids(verify *v, int i, int j, const char *what, int64_t **out, int64_t *n)
{
    char dataset[1300];
    (void)snprintf(dataset, sizeof dataset, "/plans/%s/%s/%s", ff_golden_name(v->g, i),
                   ff_golden_name(v->g, j), what);
    return ff_golden_i64(v->g, dataset, out, n);
}

/* Pairs of two id lists of equal length as keys. */
static ff_status ref_pairs(verify *v, int i, int j, const char *a_name, const char *b_name, int64_t n_b,
                           key_set *out)
{
    int64_t *a = NULL, *b = NULL, n = 0, m = 0;
    ff_status st = plan_ids(v, i, j, a_name, &a, &n);
    if (st == FF_OK) st = plan_ids(v, i, j, b_name, &b, &m);
    if (st == FF_OK && n != m) st = ff_fail(FF_E_INPUT, "%s: plan lists of unequal length", v->g->path);
    for (int64_t k = 0; k < n && st == FF_OK; k++) st = key_add(out, a[k], b[k], n_b);
    ff_free(a);
    ff_free(b);
    return st;
}

static ff_status ref_far_near(verify *v, int i, int j, const serial_tree *t, const serial_tree *s,
                              plan_keys *p)
{
    static const char *const names[5] = {"fn_target_node_ids", "fn_source_ids", "fn_broadcast_starts",
                                         "fn_broadcast_counts", "fn_broadcast_targets"};
    int64_t *a[5] = {NULL}, n[5] = {0};
    ff_status st = FF_OK;
    for (int k = 0; k < 5 && st == FF_OK; k++) st = plan_ids(v, i, j, names[k], &a[k], &n[k]);
    bool good = n[1] == n[0] && n[2] == n[0] && n[3] == n[0];
    for (int64_t k = 0; k < n[0] && st == FF_OK && good; k++)
        good = a[2][k] >= 0 && a[3][k] >= 0 && a[2][k] <= n[4] && a[3][k] <= n[4] - a[2][k];
    if (st == FF_OK && !good)
        st = ff_fail(FF_E_INPUT, "%s: plan %s <- %s: far-near lists point past fn_broadcast_targets",
                     v->g->path, ff_golden_name(v->g, i), ff_golden_name(v->g, j));
    for (int64_t k = 0; k < n[0] && st == FF_OK; k++)
        for (int64_t q = 0; q < a[3][k] && st == FF_OK; q++)
            st = add_far_near(p, t, s, a[0][k], a[1][k], a[4][a[2][k] + q]);
    for (int k = 0; k < 5; k++) ff_free(a[k]);
    return st;
}

static ff_status compare_plan(verify *v, int i, int j, const serial_tree *t, const serial_tree *s,
                              uint64_t *digest)
{
    static const char *const kind[N_KINDS] = {"near", "near-far", "far-near", "far-far"};
    ff_status st = FF_OK;
    const ff_case *c = v->g->c;
    ff_plan *plan = NULL;
    plan_keys ours = {0}, ref = {0};
    int64_t diff[N_KINDS] = {0};
    FF_GO(ff_plan_build(t->tree, s->tree, c->theta, c->expand_far, 0, t->tree->n_points, &plan));
    *digest = ff_plan_digest(plan, t->tree, s->tree);
    FF_GO(our_keys(plan, t, s, &ours));
    FF_GO(ref_pairs(v, i, j, "near_target_ids", "near_source_ids", s->tree->n_points, &ref.kind[NEAR]));
    FF_GO(ref_pairs(v, i, j, "nf_target_ids", "nf_source_node_ids", s->tree->n_nodes, &ref.kind[NEAR_FAR]));
    FF_GO(ref_pairs(v, i, j, "far_target_node_ids", "far_source_node_ids", s->tree->n_nodes,
                    &ref.kind[FAR_FAR]));
    FF_GO(ref_far_near(v, i, j, t, s, &ref));
    for (int k = 0; k < N_KINDS; k++) FF_GO(key_difference(&ours.kind[k], &ref.kind[k], &diff[k]));
done:
    plan_keys_free(&ours);
    plan_keys_free(&ref);
    ff_plan_destroy(&plan);
    FF_TRY(ff_agree(v->app->comm, st));
    for (int k = 0; k < N_KINDS; k++) {
        char what[1200];
        (void)snprintf(what, sizeof what, "plans/%s/%s/%s (%lld)", ff_golden_name(v->g, i),
                       ff_golden_name(v->g, j), kind[k], (long long)ours.kind[k].n);
        FF_TRY(verify_row(v, what, (double)diff[k], 0));
    }
    return FF_OK;
}

/* Digests of the ranks' own parts add up to the serial one. */
static ff_status compare_distributed(verify *v, const ff_eval *e, int i, int j, uint64_t serial)
{
    ff_let *const *lets;
    const uint8_t *need;
    const int64_t *weight;
    int n = ff_eval_lets(e, &lets, &need, &weight), t = i < 0 ? n - 1 : i, rank = v->app->comm->rank;
    const ff_cloud *cloud = lets[t]->cloud;
    ff_plan *plan = NULL;
    char what[1200];
    if (!need[t * n + j])
        return FF_OK; /* no layer walks it: without communication layers, boundary to boundary */
    ff_status st = ff_plan_build(lets[t]->tree, lets[j]->tree, v->g->c->theta, v->g->c->expand_far,
                                 cloud->cut[rank], cloud->cut[rank + 1], &plan);
    uint64_t digest = st == FF_OK ? ff_plan_digest(plan, lets[t]->tree, lets[j]->tree) : 0;
    int64_t sum;
    memcpy(&sum, &digest, sizeof sum);
    ff_plan_destroy(&plan);
    FF_TRY(ff_agree(v->app->comm, st));
    FF_TRY(ff_comm_allreduce(v->app->comm, &sum, 1, FF_SUM_I64));
    memcpy(&digest, &sum, sizeof digest);
    (void)snprintf(what, sizeof what, "plans/%s/%s over %d ranks (digest)", ff_golden_name(v->g, i),
                   ff_golden_name(v->g, j), v->app->comm->size);
    return verify_row(v, what, digest == serial ? 0 : 1, 0);
}

ff_status verify_trees_and_plans(verify *v, const ff_eval *e)
{
    ff_status st = FF_OK;
    int n = v->g->c->n_sources;
    serial_tree *tree = NULL;
    FF_GO(FF_NEW0_ALL(v->app->comm, tree, n + 1));
    for (int i = 0; i <= n; i++) { /* tree[n]: prediction points */
        int name = i < n ? i : -1;
        FF_GO(ff_agree(v->app->comm, serial_build(v, name, &tree[i])));
        FF_GO(compare_tree(v, name, &tree[i]));
        if (i < n) FF_GO(compare_aggregates(v, e, i, &tree[i]));
    }
    for (int i = 0; i <= n; i++)
        for (int j = 0; j < n; j++) {
            uint64_t digest = 0;
            FF_GO(compare_plan(v, i < n ? i : -1, j, &tree[i], &tree[j], &digest));
            FF_GO(compare_distributed(v, e, i < n ? i : -1, j, digest));
        }
done:
    for (int i = 0; i <= n && tree != NULL; i++) serial_free(&tree[i]);
    ff_free(tree);
    return st;
}
