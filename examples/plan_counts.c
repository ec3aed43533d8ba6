/* Sums 1/R over random charges through an interaction plan, and compares with the plain double sum.
 * Needs farfield_plan.h only.   usage: plan_counts [n_points] [theta] */
#include "farfield_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double inverse_r(const double *a, const double *b)
{
    double r2 = 0.0;
    for (int d = 0; d < 3; d++) r2 += (a[d] - b[d]) * (a[d] - b[d]);
    return r2 > 0.0 ? 1.0 / sqrt(r2) : 0.0; /* a point does not act on itself */
}

/* Centre of the points of each node, x [n][3] in sorted order: with unit charges, where its charge is. */
static void node_centres(const ff_tree *tree, const double *x, double *centre)
{
    for (int64_t i = 0; i < ff_tree_n_nodes(tree); i++) {
        ff_node_info n;
        (void)ff_tree_node(tree, i, &n);
        for (int d = 0; d < 3; d++) {
            centre[3 * i + d] = 0.0;
            for (int64_t k = n.start; k < n.start + n.count; k++)
                centre[3 * i + d] += x[3 * k + d] / (double)n.count;
        }
    }
}

/* phi [n] at sorted points: leaf_size is 1, so every leaf pair is one pair of points. */
static void sum_plan(const ff_plan *plan, const ff_tree *tree, const double *x, const double *centre,
                     double *phi)
{
    for (int64_t r = 0; r < ff_plan_n_rows(plan); r++) {
        ff_dtt_lists l;
        ff_node_info t, s;
        double at_node = 0.0;
        ff_plan_row(plan, r, &l);
        (void)ff_tree_node(tree, l.t, &t);
        for (int64_t k = 0; k < l.n_far; k++) {
            (void)ff_tree_node(tree, l.far_s[k], &s);
            at_node +=
                (double)s.count * inverse_r(&centre[3 * (int64_t)l.t], &centre[3 * (int64_t)l.far_s[k]]);
        }
        for (int64_t k = 0; k < l.n_leaf; k++) {
            (void)ff_tree_node(tree, l.leaf_s[k], &s);
            at_node += inverse_r(&x[3 * t.start], &x[3 * s.start]);
        }
        for (int64_t i = t.start; i < t.start + t.count; i++) phi[i] += at_node;
    }
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? atoll(argv[1]) : 3000;
    ff_plan_opts opts = FF_PLAN_OPTS_INIT;
    opts.theta = argc > 2 ? atof(argv[2]) : 0.5;
    size_t rows = n > 0 ? (size_t)n : 1;
    double *x = calloc(rows, 3 * sizeof *x), *sorted = calloc(rows, 3 * sizeof *x),
           *phi = calloc(rows, sizeof *x);
    double *centre = calloc(2 * rows, 3 * sizeof *x), worst = 0.0, mean = 0.0;
    int64_t *order = calloc(rows, sizeof *order);
    ff_tree *tree = NULL;
    ff_plan *plan = NULL;
    ff_status st = FF_E_MEM;
    if (x == NULL || sorted == NULL || phi == NULL || centre == NULL || order == NULL) goto done;
    srand(1);
    for (int64_t i = 0; i < 3 * n; i++)
        x[i] = (float)rand() / (float)RAND_MAX; /* float32: what the tree sees */

    if ((st = ff_tree_create_f64(x, n, 3, NULL, order, &tree)) != FF_OK) goto done;
    if ((st = ff_plan_create(tree, tree, &opts, &plan)) != FF_OK) goto done;
    ff_dtt_counts c;
    ff_plan_counts(plan, &c);
    printf("%lld points, theta %g: %lld near pairs, %lld far node pairs; all pairs would be %lld\n",
           (long long)n, opts.theta, (long long)c.near_near, (long long)c.far_far, (long long)(n * n));
    if (n <= 5000 && (st = ff_plan_validate(plan, tree, tree)) != FF_OK) goto done;

    for (int64_t k = 0; k < 3 * n; k++) sorted[k] = x[3 * order[k / 3] + k % 3];
    node_centres(tree, sorted, centre);
    sum_plan(plan, tree, sorted, centre, phi);
    for (int64_t i = 0; i < n && n <= 20000; i++) {
        double direct = 0.0;
        for (int64_t j = 0; j < n; j++) direct += inverse_r(&sorted[3 * i], &sorted[3 * j]);
        double error = direct > 0.0 ? fabs(phi[i] - direct) / direct : 0.0;
        mean += error / (double)n;
        worst = error > worst ? error : worst;
    }
    printf("relative error: mean %.2e, largest %.2e, bound theta = %g\n", mean, worst, opts.theta);
    if (worst > opts.theta) st = FF_E_CHECK; /* |R' - R| <= theta R' for every far pair of positive charges */
done:
    if (st != FF_OK) fprintf(stderr, "plan_counts: %s\n", ff_error_text());
    ff_plan_destroy(&plan);
    ff_tree_destroy(&tree);
    free(x), free(sorted), free(phi), free(centre), free(order);
    return ff_exit_code(st);
}
