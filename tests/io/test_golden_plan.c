/* Trees and plans against those of the public reference, if its files are at hand: boxes, ids, ranges and the
 * sorted order exact, plans as sets. Regular grids in these files make exact ties in the acceptance test, so
 * a last bit that differs anywhere in the decisions shows. No tolerance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_mem.h"
#include "ff_plan.h"
#include "ff_sort.h"

#include <dirent.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char golden_dir[] = FF_SOURCE_DIR "/../shared/golden";

typedef struct named_tree {
    char name[64];
    ff_tree *tree;
    int64_t *order, *bfs;
} named_tree;

typedef struct golden {
    hid_t file;
    double theta;
    int leaf_size;
    bool expand_far;
    named_tree tree[8];
    int n_trees;
} golden;

static void must(ff_status st)
{
    if (st != FF_OK) fail_msg("%s", ff_error_text());
}

/* Whole dataset in the native type; *n elements. */
static void *read_all(hid_t file, const char *path, hid_t type, size_t size, hsize_t dims[2])
{
    hid_t set = H5Dopen2(file, path, H5P_DEFAULT);
    if (set < 0) fail_msg("%s: not found", path);
    hid_t space = H5Dget_space(set);
    dims[0] = dims[1] = 1;
    assert_in_range(H5Sget_simple_extent_ndims(space), 1, 2);
    H5Sget_simple_extent_dims(space, dims, NULL);
    void *p = malloc((size_t)(dims[0] * dims[1]) * size + 1);
    assert_non_null(p);
    assert_true(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, p) >= 0);
    H5Sclose(space);
    H5Dclose(set);
    return p;
}

static int64_t *read_i64(hid_t file, const char *dir, const char *name, int64_t *n)
{
    char path[512];
    hsize_t dims[2];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    int64_t *p = read_all(file, path, H5T_NATIVE_INT64, sizeof *p, dims);
    *n = (int64_t)dims[0];
    return p;
}

static float *read_f32(hid_t file, const char *path, int64_t *n, int *dim)
{
    hsize_t dims[2];
    float *p = read_all(file, path, H5T_NATIVE_FLOAT, sizeof *p, dims);
    *n = (int64_t)dims[0];
    *dim = (int)dims[1];
    return p;
}

static double json_number(const char *text, const char *key, double otherwise)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(text, quoted);
    return at != NULL ? strtod(at + strlen(quoted), NULL) : otherwise;
}

static void read_config(golden *g)
{
    char *text = NULL;
    hid_t attr = H5Aopen(g->file, "config_json", H5P_DEFAULT), type = H5Aget_type(attr);
    if (H5Tis_variable_str(type) > 0) {
        assert_true(H5Aread(attr, type, (void *)&text) >= 0);
    } else {
        text = calloc(H5Tget_size(type) + 1, 1);
        assert_true(H5Aread(attr, type, text) >= 0);
    }
    g->theta = json_number(text, "theta", 1.0);
    g->leaf_size = (int)json_number(text, "leaf_size", 1.0);
    g->expand_far = strstr(text, "\"expand_far_targets\": true") != NULL;
    free(text);
    H5Tclose(type);
    H5Aclose(attr);
}

static void compare_i64(const char *what, const int64_t *ours, const int64_t *theirs, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (ours[i] != theirs[i])
            fail_msg("%s[%lld] = %lld, the reference has %lld", what, (long long)i, (long long)ours[i],
                     (long long)theirs[i]);
}

/* ours[bfs id of node i] = value of node i, for the seven integer arrays of a tree. */
static void compare_tree_ids(const golden *g, const named_tree *nt, const char *dir)
{
    static const char *const names[] = {"node_left_child", "node_right_child", "leaf_start",
                                        "leaf_count",      "node_range_start", "node_range_count"};
    const ff_tree *t = nt->tree;
    for (size_t a = 0; a < sizeof names / sizeof *names; a++) {
        int64_t n, *theirs = read_i64(g->file, dir, names[a], &n),
                   *ours = calloc((size_t)n + 1, sizeof *ours);
        assert_int_equal(n, t->n_nodes);
        for (int32_t i = 0; i < t->n_nodes; i++) {
            bool leaf = t->node[i].right == FF_NODE_LEAF;
            int64_t value[] = {leaf ? -1 : nt->bfs[i + 1],
                               leaf ? -1 : nt->bfs[t->node[i].right],
                               leaf ? t->start[i] : -1,
                               leaf ? t->count[i] : 0,
                               t->start[i],
                               t->count[i]};
            ours[nt->bfs[i]] = value[a];
        }
        compare_i64(names[a], ours, theirs, n);
        free(theirs);
        free(ours);
    }
}

static void compare_tree_boxes(const golden *g, const named_tree *nt, const char *dir)
{
    const ff_tree *t = nt->tree;
    static const char *const names[] = {"node_aabb_min", "node_aabb_max", "node_diameter_sq"};
    for (int a = 0; a < 3; a++) {
        char path[512];
        int64_t n;
        int dim;
        snprintf(path, sizeof path, "%s/%s", dir, names[a]);
        float *theirs = read_f32(g->file, path, &n, &dim);
        assert_int_equal(n, t->n_nodes);
        for (int32_t i = 0; i < t->n_nodes; i++) {
            const float *ours = a == 0 ? t->node[i].lo : a == 1 ? t->node[i].hi : &t->node[i].diam2;
            for (int d = 0; d < dim; d++)
                if (!(ours[d] == theirs[nt->bfs[i] * dim + d]))
                    fail_msg("%s of node %d axis %d = %.9g, the reference has %.9g", path, (int)nt->bfs[i], d,
                             (double)ours[d], (double)theirs[nt->bfs[i] * dim + d]);
        }
        free(theirs);
    }
}

static void check_tree(golden *g, const char *name)
{
    char points[256], dir[128];
    int64_t n, n_order;
    int dim;
    named_tree *nt = &g->tree[g->n_trees++];
    assert_in_range(g->n_trees, 1, 8);
    snprintf(nt->name, sizeof nt->name, "%s", name);
    if (strcmp(name, "prediction") == 0)
        snprintf(points, sizeof points, "inputs/prediction_points");
    else
        snprintf(points, sizeof points, "geometry/%s/centroids", name);
    float *x = read_f32(g->file, points, &n, &dim);
    nt->order = calloc((size_t)n + 1, sizeof *nt->order);
    must(ff_tree_build(x, n, dim, g->leaf_size, nt->order, &nt->tree));
    nt->bfs = calloc((size_t)nt->tree->n_nodes + 1, sizeof *nt->bfs);
    must(ff_tree_bfs_ids(nt->tree, nt->bfs));
    snprintf(dir, sizeof dir, "trees/%s", name);
    int64_t *theirs = read_i64(g->file, dir, "sorted_source_order", &n_order);
    assert_int_equal(n_order, n);
    compare_i64("sorted_source_order", nt->order, theirs, n);
    compare_tree_ids(g, nt, dir);
    compare_tree_boxes(g, nt, dir);
    free(theirs);
    free(x);
}

/* A set of interactions of one kind as 64-bit keys: 20 bits each of two or three ids. */
typedef struct key_set {
    uint64_t *key;
    int64_t n, cap;
} key_set;

static void set_add(key_set *s, int64_t a, int64_t b, int64_t c)
{
    must(ff_mem_reserve(&s->key, &s->cap, s->n + 1, sizeof *s->key));
    assert_true(a < 1 << 20 && b < 1 << 20 && c < 1 << 20);
    s->key[s->n++] = (uint64_t)a << 40 | (uint64_t)b << 20 | (uint64_t)c;
}

static void compare_sets(const char *what, key_set *ours, key_set *theirs)
{
    must(ff_sort_u64(ours->key, NULL, ours->n));
    must(ff_sort_u64(theirs->key, NULL, theirs->n));
    if (ours->n != theirs->n)
        fail_msg("%s: %lld pairs, the reference has %lld", what, (long long)ours->n, (long long)theirs->n);
    for (int64_t k = 0; k < ours->n; k++)
        if (ours->key[k] != theirs->key[k]) fail_msg("%s: sets differ", what);
    FF_FREE(ours->key);
    FF_FREE(theirs->key);
}

enum { NEAR, NEAR_FAR, FAR_NEAR, FAR_FAR, KINDS };

/* Our row as the reference would list it. */
static void expand_row(const named_tree *t, const named_tree *s, bool expand_far, const ff_dtt_lists *l,
                       key_set set[KINDS])
{
    int64_t n_t = t->tree->count[l->t], start_t = t->tree->start[l->t];
    for (int64_t k = 0; k < l->n_far; k++) {
        if (!expand_far) set_add(&set[FAR_FAR], t->bfs[l->t], s->bfs[l->far_s[k]], 0);
        for (int64_t i = 0; expand_far && i < n_t; i++)
            set_add(&set[NEAR_FAR], t->order[start_t + i], s->bfs[l->far_s[k]], 0);
    }
    for (int64_t k = 0; k < l->n_leaf; k++) {
        int32_t leaf = l->leaf_s[k];
        int64_t n_s = s->tree->count[leaf], start_s = s->tree->start[leaf];
        for (int64_t i = 0; i < n_t; i++) {
            if (!(l->t_mask[k] >> i & 1)) {
                set_add(&set[NEAR_FAR], t->order[start_t + i], s->bfs[leaf], 0);
                continue;
            }
            for (int64_t j = 0; j < n_s; j++) {
                int64_t target = t->order[start_t + i], source = s->order[start_s + j];
                if (l->s_mask[k] >> j & 1)
                    set_add(&set[NEAR], target, source, 0);
                else
                    set_add(&set[FAR_NEAR], t->bfs[l->t], source, target);
            }
        }
    }
}

static void read_pairs(const golden *g, const char *dir, const char *first, const char *second, key_set *set)
{
    int64_t n, m, *a = read_i64(g->file, dir, first, &n), *b = read_i64(g->file, dir, second, &m);
    assert_int_equal(n, m);
    for (int64_t k = 0; k < n; k++) set_add(set, a[k], b[k], 0);
    free(a);
    free(b);
}

/* Far-near entries with their targets; an entry without targets contributes nothing and is left out. */
static void read_far_near(const golden *g, const char *dir, key_set *set)
{
    int64_t n, m, *node = read_i64(g->file, dir, "fn_target_node_ids", &n);
    int64_t *source = read_i64(g->file, dir, "fn_source_ids", &m);
    int64_t *start = read_i64(g->file, dir, "fn_broadcast_starts", &m);
    int64_t *count = read_i64(g->file, dir, "fn_broadcast_counts", &m);
    int64_t *target = read_i64(g->file, dir, "fn_broadcast_targets", &m);
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < count[k]; i++) set_add(set, node[k], source[k], target[start[k] + i]);
    free(node), free(source), free(start), free(count), free(target);
}

static void check_counts(const ff_plan *plan, const key_set ours[KINDS])
{
    assert_int_equal(plan->counts.near_near, ours[NEAR].n);
    assert_int_equal(plan->counts.near_far, ours[NEAR_FAR].n);
    assert_int_equal(plan->counts.far_far, ours[FAR_FAR].n);
    assert_true(plan->counts.far_near <= ours[FAR_NEAR].n);
}

static void check_plan(const golden *g, const named_tree *t, const named_tree *s)
{
    char dir[256];
    key_set ours[KINDS] = {0}, theirs[KINDS] = {0};
    ff_plan *plan = NULL;
    snprintf(dir, sizeof dir, "plans/%s/%s", t->name, s->name);
    must(ff_plan_build(t->tree, s->tree, g->theta, g->expand_far, 0, t->tree->n_points, &plan));
    must(ff_plan_validate(plan, t->tree, s->tree));
    for (int64_t r = 0; r < plan->n_rows; r++) {
        ff_dtt_lists row;
        ff_plan_row(plan, r, &row);
        expand_row(t, s, g->expand_far, &row, ours);
    }
    read_pairs(g, dir, "near_target_ids", "near_source_ids", &theirs[NEAR]);
    read_pairs(g, dir, "nf_target_ids", "nf_source_node_ids", &theirs[NEAR_FAR]);
    read_pairs(g, dir, "far_target_node_ids", "far_source_node_ids", &theirs[FAR_FAR]);
    read_far_near(g, dir, &theirs[FAR_NEAR]);
    check_counts(plan, ours);
    print_message("  %s: %lld near, %lld near-far, %lld far-near, %lld far-far\n", dir,
                  (long long)plan->counts.near_near, (long long)plan->counts.near_far,
                  (long long)plan->counts.far_near, (long long)plan->counts.far_far);
    for (int kind = 0; kind < KINDS; kind++) compare_sets(dir, &ours[kind], &theirs[kind]);
    ff_plan_destroy(&plan);
}

static herr_t visit_tree(hid_t group, const char *name, const H5L_info_t *info, void *ctx)
{
    (void)group, (void)info;
    check_tree(ctx, name);
    return 0;
}

static void check_file(const char *name)
{
    char path[512];
    golden g = {.leaf_size = 1};
    snprintf(path, sizeof path, "%s/%s", golden_dir, name);
    g.file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (g.file < 0) fail_msg("%s: cannot be opened", path);
    if (H5Lexists(g.file, "plans", H5P_DEFAULT) > 0) {
        print_message("%s\n", name);
        read_config(&g);
        hsize_t at = 0;
        assert_true(H5Literate_by_name(g.file, "trees", H5_INDEX_NAME, H5_ITER_INC, &at, visit_tree, &g,
                                       H5P_DEFAULT) >= 0);
        for (int t = 0; t < g.n_trees; t++)
            for (int s = 0; s < g.n_trees; s++)
                if (strcmp(g.tree[s].name, "prediction") != 0) check_plan(&g, &g.tree[t], &g.tree[s]);
    }
    for (int t = 0; t < g.n_trees; t++) {
        ff_tree_destroy(&g.tree[t].tree);
        free(g.tree[t].order);
        free(g.tree[t].bfs);
    }
    H5Fclose(g.file);
}

static void trees_and_plans_equal_the_reference(void **state)
{
    (void)state;
    DIR *dir = opendir(golden_dir);
    if (dir == NULL) {
        print_message("%s is not there: skipped\n", golden_dir);
        skip();
    }
    int n_files = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        size_t length = strlen(e->d_name);
        if (length < 4 || strcmp(e->d_name + length - 3, ".h5") != 0) continue;
        check_file(e->d_name);
        n_files++;
    }
    closedir(dir);
    assert_true(n_files > 0);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(trees_and_plans_equal_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
