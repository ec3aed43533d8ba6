/* Features of points in a periodic box and the force-like derivative of a scalar of them, checked by a difference
 * quotient. Needs farfield_head.h only. */
#include "farfield_head.h"

#include <math.h>
#include <stdio.h>

enum { N = 20, LMAX = 2, C = 3, D = 9, RADIAL = 4, HIDDEN = 5 };

static const ff_cell box = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {1, 1, 1}};
static double w1[HIDDEN * RADIAL], w2[LMAX * C * HIDDEN], cot[N * D * C], out[N * D * C];

/* L = sum of cotangent times features; its gradient with respect to the points if grad is not NULL. */
static double loss(const double *points, const ff_head_opts *opts, const ff_head_grad_f64 *grad)
{
    ff_graph *graph = NULL;
    double sum = 0;
    ff_status st = ff_graph_create(points, N, 0.4, &box, &graph);
    if (st == FF_OK) st = ff_head_forward_f64(graph, opts, w1, w2, out);
    if (st == FF_OK && grad != NULL) {
        printf("%lld edges\n", (long long)graph->n_edges);
        st = ff_head_backward_f64(graph, opts, w1, w2, cot, grad);
    }
    for (int i = 0; i < N * D * C; i++) sum += cot[i] * out[i];
    ff_graph_destroy(&graph);
    return st == FF_OK ? sum : NAN;
}

int main(void)
{
    static double points[3 * N], d_points[3 * N];
    ff_head_opts opts = FF_HEAD_OPTS_INIT;
    ff_head_grad_f64 grad = FF_HEAD_GRAD_F64_INIT;
    opts.lmax = LMAX, opts.n_channels = C, opts.n_radial = RADIAL, opts.n_hidden = HIDDEN;
    opts.path = FF_SCATTER_FUSED;
    grad.points = d_points;
    for (int i = 0; i < 3 * N; i++) points[i] = 0.5 + 0.5 * sin(7.0 * i * i + 1);
    for (int i = 0; i < HIDDEN * RADIAL; i++) w1[i] = cos(2.0 * i);
    for (int i = 0; i < LMAX * C * HIDDEN; i++) w2[i] = sin(3.0 * i);
    for (int i = 0; i < N * D * C; i++) cot[i] = cos(5.0 * i);

    const double before = loss(points, &opts, &grad), h = 1e-6;
    const double x = points[4];
    points[4] = x + h;
    const double up = loss(points, &opts, NULL);
    points[4] = x - h;
    const double quotient = (up - loss(points, &opts, NULL)) / (2 * h);
    printf("L = %.6f, dL/dy of point 1: %.9f, difference quotient %.9f\n", before, d_points[4], quotient);
    if (fabs(quotient - d_points[4]) < 1e-5 * (1 + fabs(quotient))) return 0;
    fprintf(stderr, "head: %s\n", ff_error_text());
    return 1;
}
