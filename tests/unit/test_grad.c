/* Gradients of whole evaluations in float64 against central differences along random directions, for every kind of
 * quantity; float32 against float64; corners of faces; errors. Plans are constants: float32 centroids, which decide
 * them, stay while everything else moves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ff_adj_backend.h"
#include "ff_grad.h"
#include "ff_random_case.h"

#define TWO_BC                                                                                               \
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"C_f\": 1},"                              \
    " \"boundary_source_data_ranks\": {\"body\": {\"heat\": 0, \"u\": 1}, \"floor\": {}},"                   \
    " \"reference_length_names\": [\"L\", \"delta\"], \"hidden_layer_sizes\": [6, 7], \"reference_area\": "  \
    "0.01,"                                                                                                  \
    " \"global_data_ranks\": {\"U\": 1, \"V\": 1, \"lnRe\": 0}, \"n_communication_hyperlayers\": 2,"         \
    " \"n_latent_scalars\": 2, \"n_latent_vectors\": 1, \"n_spherical_harmonics\": 2, "

static const ff_random_shape shapes[] = {
    {TWO_BC "\"theta\": 1.6, \"leaf_size\": 3, \"self_regularization_beta\": 0.05, "
            "\"latent_compression_scale\": 0.5}",
     {36, 9},
     17},
    {TWO_BC "\"theta\": 1.2, \"leaf_size\": 1, \"expand_far_targets\": true}", {26, 7}, -1},
    {TWO_BC
     "\"theta\": 1.2, \"leaf_size\": 4, \"expand_far_targets\": true, \"latent_compression_scale\": 2.0}",
     {27, 16},
     25},
    {TWO_BC "\"theta\": 2.0, \"leaf_size\": 1}", {48, -1}, -1}, /* a boundary is absent */
    {"{\"n_spatial_dims\": 2, \"output_field_ranks\": {\"p\": 0, \"v\": 1}, \"boundary_source_data_ranks\": "
     "{\"foil\": "
     "{\"r\": 0}}, \"reference_length_names\": [\"c\"], \"hidden_layer_sizes\": [9], \"n_latent_scalars\": 2,"
     " \"n_latent_vectors\": 1, \"global_data_ranks\": {\"U\": 1, \"lnRe\": 0}, \"network_type\": \"mlp\","
     " \"theta\": 1.8, \"leaf_size\": 2, \"n_communication_hyperlayers\": 1}",
     {70},
     23},
};
enum { N_SHAPE = sizeof shapes / sizeof *shapes };

typedef struct problem {
    ff_random_case rc;
    double *cot;
    int n_comp;
} problem;

static double draw(uint64_t stream, int64_t i)
{
    return ff_rc_draw(77, stream, i);
}

/* Larger weights than fresh ones, on a grid of 2^-18, so that every layer matters and steps are exact. */
static void problem_make(problem *p, const ff_random_shape *shape, uint64_t seed)
{
    assert_int_equal(ff_random_case_make(shape, seed, 0, 1, &p->rc), FF_OK);
    ff_model *m = p->rc.model;
    for (int t = 0; t < m->n_tensors; t++) {
        double gain = strstr(m->tensor[t].name, ".network.") != NULL ? 2.5 : 1;
        bool scale = strstr(m->tensor[t].name, "log_scalefactors") != NULL;
        for (int64_t i = 0; i < m->tensor[t].n; i++) {
            double v = scale ? 0.3 * draw((uint64_t)(500 + t), i) : gain * (double)m->tensor[t].value[i];
            if (strncmp(m->tensor[t].name, "final_", 6) == 0) v = 1 + 0.3 * draw((uint64_t)(500 + t), i);
            m->tensor[t].value[i] = (float)(round(v * 0x1p18) * 0x1p-18);
        }
    }
    p->n_comp = ff_names_comp(&m->config->outputs, m->config->dim);
    p->cot = ff_mem_alloc((size_t)(p->rc.n_targets * p->n_comp) + 1, sizeof(double));
    for (int64_t i = 0; i < p->rc.n_targets * p->n_comp; i++) p->cot[i] = draw(3, i);
}

static void problem_open(problem *p, int k)
{
    problem_make(p, &shapes[k], (uint64_t)(40 + k));
}

static void problem_close(problem *p)
{
    ff_random_case_free(&p->rc);
    ff_free(p->cot);
}

static double loss(const problem *p)
{
    ff_eval *e = NULL;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.f64 = true;
    int64_t n = p->rc.n_targets * p->n_comp;
    double *out = ff_mem_alloc((size_t)n + 1, sizeof(double)), sum = 0;
    assert_int_equal(ff_eval_create(ff_comm_self(), p->rc.c, &opts, &e), FF_OK);
    assert_int_equal(ff_eval_run(e, out), FF_OK);
    for (int64_t i = 0; i < n; i++) sum += out[i] * p->cot[i];
    ff_free(out);
    ff_eval_destroy(&e);
    return sum;
}

typedef struct gradient {
    ff_eval *e;
    ff_grad *g;
    const ff_grad_values *v;
} gradient;

/* b: NULL, or evaluates pair adjoints. */
static void gradient_open_on(const problem *p, bool f64, unsigned want, const ff_pair_backend *b, gradient *r)
{
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    opts.f64 = f64;
    opts.keep = true;
    opts.adjoint = b;
    double *out = ff_mem_alloc((size_t)(p->rc.n_targets * p->n_comp) + 1, sizeof(double));
    assert_int_equal(ff_eval_create(ff_comm_self(), p->rc.c, &opts, &r->e), FF_OK);
    assert_int_equal(ff_grad_create(r->e, want, &r->g), FF_OK);
    assert_int_equal(ff_eval_run(r->e, out), FF_OK);
    if (ff_grad_run(r->g, p->cot) != FF_OK) fail_msg("%s", ff_error_text());
    r->v = ff_grad_get(r->g);
    ff_free(out);
}

static void gradient_open(const problem *p, bool f64, unsigned want, gradient *r)
{
    gradient_open_on(p, f64, want, NULL, r);
}

static void gradient_close(gradient *r)
{
    ff_grad_destroy(&r->g);
    ff_eval_destroy(&r->e);
}

/* ---- directions ---- */

/* Arrays that move together, float or double; x[k] + step * direction. */
enum { MAX_ARRAY = 400 };
typedef struct direction {
    int n;
    float *f[MAX_ARRAY];
    double *d[MAX_ARRAY];
    const double *bar[MAX_ARRAY];
    int64_t count[MAX_ARRAY];
    bool skip_zero; /* zeros stay: the mean over a node jumps where its measure leaves zero */
} direction;

static void add_array(direction *q, float *f, double *d, const double *bar, int64_t count)
{
    assert_true(q->n < MAX_ARRAY);
    q->f[q->n] = f;
    q->d[q->n] = d;
    q->bar[q->n] = bar;
    q->count[q->n++] = count;
}

/* Small integers, so that steps stay on the grid of the float arrays. */
static double component(int k, int64_t i)
{
    return round(2.4 * draw((uint64_t)(600 + k), i));
}

static void move(direction *q, double step)
{
    for (int k = 0; k < q->n; k++)
        for (int64_t i = 0; i < q->count[k]; i++) {
            if (q->f[k] != NULL)
                q->f[k][i] = (float)((double)q->f[k][i] + step * component(k, i));
            else if (!q->skip_zero || q->d[k][i] != 0)
                q->d[k][i] += step * component(k, i);
        }
}

/* Central difference along the direction against the gradient's projection, in parts of its norm. */
static double check(const problem *p, const char *what, direction *q, double h, double limit)
{
    double want = 0, got = 0, norm = 0;
    if (q->n == 0) return 0;
    for (int k = -1; k <= 1; k += 2) {
        move(q, k * h);
        want += k * loss(p);
        move(q, -k * h);
    }
    want /= 2 * h;
    for (int k = 0; k < q->n; k++)
        for (int64_t i = 0; i < q->count[k]; i++) {
            if (q->skip_zero && q->d[k][i] == 0) continue;
            double t = q->bar[k][i] * component(k, i);
            got += t;
            norm += t * t;
        }
    double err = fabs(got - want) / (sqrt(norm) + 1e-300);
    printf("  %-16s %14.8g, differences %14.8g: used %.3f of %g\n", what, got, want, err / limit, limit);
    return norm > 0 ? err / limit : HUGE_VAL;
}

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

static double check_parameters(const problem *p, const gradient *r, double limit)
{
    const ff_model *m = p->rc.model;
    double worst = 0;
    static const char *const kind[] = {"kernel_layers.0",  "kernel_layers.1", "kernel_layers.2", "bias",
                                       "log_scalefactors", "final_field"};
    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
        direction q = {0};
        for (int t = 0; t < m->n_tensors; t++) {
            bool present = !has(m->tensor[t].name, "floor") || p->rc.c->n_sources > 1;
            if (has(m->tensor[t].name, kind[k]) && present)
                add_array(&q, m->tensor[t].value, NULL, r->v->tensor[t], m->tensor[t].n);
        }
        worst = fmax(worst, check(p, kind[k], &q, 0x1p-17, limit));
    }
    return worst;
}

static double check_inputs(const problem *p, const gradient *r, double limit)
{
    ff_case *c = p->rc.c;
    const ff_model_config *m = p->rc.model->config;
    int dim = m->dim;
    double worst = 0;
    direction points = {0}, fields = {0}, globals = {0}, lengths = {0}, x = {0}, normal = {0}, mu = {0};
    if (c->target_source < 0) add_array(&points, NULL, c->target_x, r->v->points, c->n_targets * dim);
    add_array(&globals, NULL, c->global, r->v->global, ff_names_comp(&m->globals, dim));
    add_array(&lengths, NULL, c->length, r->v->length, m->n_len);
    for (int j = 0; j < c->n_sources; j++) {
        ff_source *s = &c->source[j];
        int n_field = ff_names_comp(&m->bc[s->bc].fields, dim);
        if (n_field > 0) add_array(&fields, NULL, s->field, r->v->field[j], s->n * n_field);
        add_array(&x, NULL, s->x, r->v->centroid[j], s->n * dim);
        add_array(&normal, NULL, s->normal, r->v->normal[j], s->n * dim);
        add_array(&mu, NULL, s->mu, r->v->mu[j], s->n);
    }
    mu.skip_zero = true;
    worst = fmax(worst, check(p, "points", &points, 1e-6, limit));
    worst = fmax(worst, check(p, "fields", &fields, 1e-6, limit));
    worst = fmax(worst, check(p, "global data", &globals, 1e-6, limit));
    worst = fmax(worst, check(p, "lengths", &lengths, 1e-6, limit));
    /* small steps: they move coincident faces apart, where r^ = r / m turns within eps */
    worst = fmax(worst, check(p, "centroids", &x, 1e-7, limit));
    worst = fmax(worst, check(p, "normals", &normal, 1e-6, limit));
    return fmax(worst, check(p, "measures", &mu, 1e-7, limit));
}

static void f64_matches_central_differences(void **state)
{
    (void)state;
    /* of the norm: differences lose 1e-16 of the loss over a step of 1e-6; second derivatives of sign(a) a^2 jump */
    double limit = 2e-6;
    for (int k = 0; k < N_SHAPE; k++) {
        problem p;
        gradient r;
        problem_open(&p, k);
        gradient_open(&p, true, FF_GRAD_ALL, &r);
        printf("shape %d, loss %.6g\n", k, loss(&p));
        double worst = fmax(check_parameters(&p, &r, limit), check_inputs(&p, &r, limit));
        assert_true(worst <= 1);
        gradient_close(&r);
        problem_close(&p);
    }
}

static double compare(const double *a, const double *b, int64_t n)
{
    double scale = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(b[i]));
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, isfinite(a[i]) ? fabs(a[i] - b[i]) : HUGE_VAL);
    return worst / (scale + 1e-300);
}

/* All arrays in float32, pairs on b, against float64 within limit of each array's maximum. */
static void f32_case(int k, const ff_pair_backend *backend, double limit)
{
    problem p;
    gradient a, b;
    problem_open(&p, k);
    gradient_open_on(&p, false, FF_GRAD_ALL, backend, &a);
    gradient_open(&p, true, FF_GRAD_ALL, &b);
    const ff_model *m = p.rc.model;
    int dim = m->config->dim;
    double worst = 0;
    for (int t = 0; t < m->n_tensors; t++) {
        if (m->tensor[t].n == 1) continue; /* may cancel */
        double e = compare(a.v->tensor[t], b.v->tensor[t], m->tensor[t].n);
        if (e > limit) printf("%s: %g\n", m->tensor[t].name, e);
        worst = fmax(worst, e);
    }
    worst = fmax(worst, compare(a.v->points, b.v->points, p.rc.n_targets * dim));
    worst = fmax(worst, compare(a.v->length, b.v->length, m->config->n_len));
    for (int j = 0; j < p.rc.c->n_sources; j++) {
        int64_t n = p.rc.c->source[j].n;
        worst = fmax(worst, compare(a.v->centroid[j], b.v->centroid[j], n * dim));
        worst = fmax(worst, compare(a.v->normal[j], b.v->normal[j], n * dim));
        worst = fmax(worst, compare(a.v->mu[j], b.v->mu[j], n));
    }
    printf("shape %d: used %.3f of %g\n", k, worst / limit, limit);
    assert_true(worst <= limit);
    gradient_close(&a);
    gradient_close(&b);
    problem_close(&p);
}

static void f32_matches_f64(void **state)
{
    (void)state;
    for (int k = 0; k < N_SHAPE; k++) f32_case(k, NULL, 5e-5); /* what golden files are held to */
}

/* The device's text on the host. bf16: tests/unit/test_adj_tile.c says where 1e-1 comes from. */
static void backend_matches_f64(void **state)
{
    (void)state;
    for (int k = 0; k < N_SHAPE; k++)
        for (int prec = FF_ADJ_F32; prec <= FF_ADJ_BF16; prec += FF_ADJ_BF16 - FF_ADJ_F32) {
            ff_pair_backend b = ab_backend(&prec);
            f32_case(k, &b, prec == FF_ADJ_F32 ? 5e-5 : 1e-1);
        }
}

/* Lists that nobody comes to take, the thread stopped wherever it is. */
static void unused_lists_go(void **state)
{
    (void)state;
    int prec = FF_ADJ_F32;
    ff_pair_backend b = ab_backend(&prec);
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    problem p;
    gradient r;
    problem_open(&p, 0);
    size_t used = ff_mem_used();
    opts.keep = true;
    opts.adjoint = &b;
    for (int k = 0; k < 20; k++) {
        assert_int_equal(ff_eval_create(ff_comm_self(), p.rc.c, &opts, &r.e), FF_OK);
        assert_int_equal(ff_grad_create(r.e, FF_GRAD_ALL, &r.g), FF_OK);
        gradient_close(&r);
        assert_int_equal(ff_mem_used(), used);
    }
    problem_close(&p);
}

/* What is not asked for does not change what is; a second run gives the same bits; NaN comes out as NaN. */
static void runs_repeat(void **state)
{
    (void)state;
    problem p;
    gradient a, b;
    problem_open(&p, 0);
    gradient_open(&p, false, FF_GRAD_ALL, &a);
    gradient_open(&p, false, FF_GRAD_PARAMS, &b);
    const ff_model *m = p.rc.model;
    assert_null(b.v->points);
    assert_null(b.v->field);
    assert_null(b.v->centroid);
    for (int t = 0; t < m->n_tensors; t++)
        assert_memory_equal(a.v->tensor[t], b.v->tensor[t], (size_t)m->tensor[t].n * sizeof(double));
    double *first = ff_mem_alloc((size_t)m->tensor[0].n, sizeof(double));
    memcpy(first, a.v->tensor[0], (size_t)m->tensor[0].n * sizeof(double));
    assert_int_equal(ff_grad_run(a.g, p.cot), FF_OK);
    assert_memory_equal(first, a.v->tensor[0], (size_t)m->tensor[0].n * sizeof(double));
    p.cot[1] = NAN;
    assert_int_equal(ff_grad_run(a.g, p.cot), FF_OK);
    bool nan = false;
    for (int t = 0; t < m->n_tensors; t++) nan = nan || isnan(a.v->tensor[t][0]);
    assert_true(nan);
    ff_free(first);
    gradient_close(&a);
    gradient_close(&b);
    problem_close(&p);
}

static void expect_times(const double *a, const double *b, int64_t n, double factor)
{
    for (int64_t i = 0; i < n; i++)
        if (!(a[i] == factor * b[i])) fail_msg("%.17g, expected %.17g", a[i], factor * b[i]);
}

/* A loss in other units, by powers of two that no fixed unit of sums could hold: every gradient changes by just them. */
static void units_of_the_loss_do_not_matter(void **state)
{
    (void)state;
    static const double factors[] = {0x1p-100, 0x1p70};
    problem p;
    gradient a, b;
    problem_open(&p, 0);
    gradient_open(&p, false, FF_GRAD_ALL, &b);
    const ff_model *m = p.rc.model;
    int64_t n = p.rc.n_targets * p.n_comp, dim = m->config->dim;
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < n; i++) p.cot[i] *= factors[k];
        gradient_open(&p, false, FF_GRAD_ALL, &a);
        for (int t = 0; t < m->n_tensors; t++)
            expect_times(a.v->tensor[t], b.v->tensor[t], m->tensor[t].n, factors[k]);
        expect_times(a.v->length, b.v->length, m->config->n_len, factors[k]);
        expect_times(a.v->points, b.v->points, p.rc.n_targets * dim, factors[k]);
        for (int j = 0; j < p.rc.c->n_sources; j++) {
            expect_times(a.v->mu[j], b.v->mu[j], p.rc.c->source[j].n, factors[k]);
            expect_times(a.v->centroid[j], b.v->centroid[j], p.rc.c->source[j].n * dim, factors[k]);
        }
        gradient_close(&a);
        for (int64_t i = 0; i < n; i++) p.cot[i] /= factors[k];
    }
    gradient_close(&b);
    problem_close(&p);
}

static void a_run_must_come_first(void **state)
{
    (void)state;
    problem p;
    ff_eval *e = NULL;
    ff_grad *g = NULL;
    ff_eval_opts opts = FF_EVAL_OPTS_INIT;
    problem_open(&p, 4);
    assert_int_equal(ff_eval_create(ff_comm_self(), p.rc.c, &opts, &e), FF_OK);
    assert_int_equal(ff_grad_create(e, 0, &g), FF_E_ARG);
    assert_null(g);
    ff_eval_destroy(&e);
    opts.keep = true;
    assert_int_equal(ff_eval_create(ff_comm_self(), p.rc.c, &opts, &e), FF_OK);
    assert_int_equal(ff_grad_create(e, 0, &g), FF_OK);
    assert_int_equal(ff_grad_run(g, p.cot), FF_E_ARG);
    ff_error_clear();
    ff_grad_destroy(&g);
    ff_eval_destroy(&e);
    problem_close(&p);
}

/* ---- corners ---- */

static double geometry_loss(int dim, const float *points, const int64_t *cells, int64_t n,
                            const double *weight, const double *bar)
{
    ff_source s = {0};
    double sum = 0;
    assert_int_equal(ff_source_geometry(&s, dim, points, cells, n, weight, 0.3), FF_OK);
    for (int64_t i = 0; i < n * dim; i++) sum += bar[i] * s.x[i] + bar[100 + i] * s.normal[i];
    for (int64_t i = 0; i < n; i++) sum += bar[200 + i] * s.mu[i];
    ff_free(s.x32);
    ff_free(s.x);
    ff_free(s.normal);
    ff_free(s.area);
    ff_free(s.mu);
    return sum;
}

static void corners_match_central_differences(void **state)
{
    (void)state;
    enum { N_POINT = 9, N_CELL = 7 };
    for (int dim = 2; dim <= 3; dim++) {
        float points[N_POINT * 3];
        int64_t cells[N_CELL * 3];
        double bar[300], weight[N_CELL], got[N_POINT * 3] = {0}, limit = 1e-8, worst = 0;
        for (int i = 0; i < N_POINT * dim; i++) points[i] = (float)(round(draw(1, i) * 0x1p10) * 0x1p-10);
        for (int i = 0; i < N_CELL; i++) weight[i] = 1 + 0.5 * draw(2, i);
        for (int i = 0; i < 300; i++) bar[i] = draw(3, i);
        for (int i = 0; i < N_CELL; i++)
            for (int k = 0; k < dim; k++) cells[i * dim + k] = (i + k * (1 + i % 3)) % N_POINT;
        ff_grad_corners(dim, points, cells, N_CELL, weight, 0.3, bar, bar + 100, bar + 200, got);
        for (int i = 0; i < N_POINT * dim; i++) {
            static const double at[4] = {-2, -1, 1, 2}, w[4] = {1, -8, 8, -1};
            double want = 0, h = 0x1p-12;
            float x = points[i];
            for (int k = 0; k < 4; k++) {
                points[i] = (float)((double)x + at[k] * h);
                want += w[k] * geometry_loss(dim, points, cells, N_CELL, weight, bar) / (12 * h);
            }
            points[i] = x;
            worst = fmax(worst, fabs(got[i] - want));
        }
        printf("%dd: used %.3f of %g\n", dim, worst / limit, limit);
        assert_true(worst <= limit);
    }
}

/* ---- vertices: corners, geometry and the evaluation together ---- */

enum { ROUND = 12, N_CORNER = ROUND * (ROUND / 2), BAND_AREA = 8 };

/* A closed band of triangles; geometry of source 0 from it, float32 centroids (the plan) only at first. */
static void set_geometry(problem *p, const float *points, const int64_t *cells, int64_t n, bool first)
{
    ff_source *s = &p->rc.c->source[0], fresh = {0};
    assert_int_equal(ff_source_geometry(&fresh, 3, points, cells, n, NULL, BAND_AREA), FF_OK);
    if (first) memcpy(s->x32, fresh.x32, (size_t)(3 * n) * sizeof *s->x32);
    memcpy(s->x, fresh.x, (size_t)(3 * n) * sizeof *s->x);
    memcpy(s->normal, fresh.normal, (size_t)(3 * n) * sizeof *s->normal);
    memcpy(s->mu, fresh.mu, (size_t)n * sizeof *s->mu);
    ff_free(fresh.x32);
    ff_free(fresh.x);
    ff_free(fresh.normal);
    ff_free(fresh.area);
    ff_free(fresh.mu);
}

static int64_t make_band(float *points, int64_t *cells)
{
    int64_t n = 0;
    for (int64_t i = 0; i < ROUND / 2; i++)
        for (int64_t k = 0; k < ROUND; k++) {
            double a = 6.283185307179586 * (double)k / ROUND, x[3] = {cos(a), sin(a), 0.4 * (double)i};
            for (int d = 0; d < 3; d++)
                points[3 * (i * ROUND + k) + d] =
                    (float)(round((x[d] + 0.05 * draw(50, 3 * (i * ROUND + k) + d)) * 0x1p10) * 0x1p-10);
            int64_t a0 = i * ROUND + k, a1 = i * ROUND + (k + 1) % ROUND, b0 = a0 + ROUND, b1 = a1 + ROUND;
            if (i + 1 == ROUND / 2) continue;
            int64_t two[6] = {a0, a1, b0, a1, b1, b0};
            memcpy(cells + 3 * n, two, sizeof two);
            n += 2;
        }
    return n;
}

static void vertices_match_central_differences(void **state)
{
    (void)state;
    problem p;
    gradient r;
    float points[3 * N_CORNER];
    int64_t cells[3 * 2 * N_CORNER], n = make_band(points, cells);
    double bar[3 * N_CORNER] = {0}, limit = 1e-6, h = 0x1p-13, want = 0, got = 0, norm = 0;
    static const ff_random_shape band = {TWO_BC "\"theta\": 1.6, \"leaf_size\": 2}", {120, 9}, -1};
    assert_int_equal(n, 120);
    problem_make(&p, &band, 44);
    set_geometry(&p, points, cells, n, true);
    gradient_open(&p, true, FF_GRAD_FACES, &r);
    ff_grad_corners(3, points, cells, n, NULL, BAND_AREA, r.v->centroid[0], r.v->normal[0], r.v->mu[0], bar);
    for (int k = 0; k < 4; k++) { /* fourth order: steps are large, since points are float32 */
        static const double at[4] = {-2, -1, 1, 2}, weight[4] = {1, -8, 8, -1};
        float moved[3 * N_CORNER];
        for (int i = 0; i < 3 * N_CORNER; i++)
            moved[i] = (float)((double)points[i] + at[k] * h * component(9, i));
        set_geometry(&p, moved, cells, n, false);
        want += weight[k] * loss(&p) / (12 * h);
    }
    for (int i = 0; i < 3 * N_CORNER; i++) {
        got += bar[i] * component(9, i);
        norm += pow(bar[i] * component(9, i), 2);
    }
    double err = fabs(got - want) / sqrt(norm);
    printf("vertices %.9g, differences %.9g: used %.3f of %g\n", got, want, err / limit, limit);
    assert_true(err <= limit);
    gradient_close(&r);
    problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_matches_central_differences),
        cmocka_unit_test(f32_matches_f64),
        cmocka_unit_test(backend_matches_f64),
        cmocka_unit_test(unused_lists_go),
        cmocka_unit_test(runs_repeat),
        cmocka_unit_test(units_of_the_loss_do_not_matter),
        cmocka_unit_test(a_run_must_come_first),
        cmocka_unit_test(corners_match_central_differences),
        cmocka_unit_test(vertices_match_central_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
