#include "ff_bodies.h"

#include "ff_mem.h"
#include "ff_sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Vertices, edges and faces of the icosahedron; an edge's ends ascend, edges ascend. */
enum { ICO_POINTS = 12, ICO_EDGES = 30, ICO_FACES = 20 };

static const signed char ico_sign[ICO_POINTS][3] = {/* 1: one, 2: golden ratio, on the axis it stands at */
                                                    {-1, 2, 0}, {1, 2, 0}, {-1, -2, 0}, {1, -2, 0},
                                                    {0, -1, 2}, {0, 1, 2}, {0, -1, -2}, {0, 1, -2},
                                                    {2, 0, -1}, {2, 0, 1}, {-2, 0, -1}, {-2, 0, 1}};
static const int ico_face[ICO_FACES][3] = {{0, 11, 5}, {0, 5, 1},  {0, 1, 7},   {0, 7, 10}, {0, 10, 11},
                                           {1, 5, 9},  {5, 11, 4}, {11, 10, 2}, {10, 7, 6}, {7, 1, 8},
                                           {3, 9, 4},  {3, 4, 2},  {3, 2, 6},   {3, 6, 8},  {3, 8, 9},
                                           {4, 9, 5},  {2, 4, 11}, {6, 2, 10},  {8, 6, 7},  {9, 8, 1}};
/* Radii of the lumpy body, before division by the mean. */
static const double car_radius[ICO_POINTS] = {2.160842, 0.863541, 0.336420, 1.328719, 0.581432, 0.496934,
                                              1.223448, 1.520460, 0.697935, 0.817363, 0.742066, 1.095289};
static const double car_axes[3] = {2.3, 0.9, 0.7}, car_centre[3] = {0, 0, 0.9};

static double norm3(const double p[3])
{
    return sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
}

static void ico_points(double *p)
{
    const double golden = (1 + sqrt(5.0)) / 2, length = sqrt(1 + golden * golden);
    for (int i = 0; i < ICO_POINTS; i++)
        for (int d = 0; d < 3; d++) {
            int s = ico_sign[i][d];
            double one = abs(s) == 2 ? golden : abs(s);
            p[3 * i + d] = (s < 0 ? -one : one) / length;
        }
}

static ff_status mesh_alloc(int64_t n_points, int64_t n_cells, ff_mesh **out)
{
    ff_status st = FF_OK;
    FF_TRY(ff_mesh_create(out));
    ff_mesh *m = *out;
    FF_GO(FF_NEW(m->points, 3 * n_points));
    FF_GO(FF_NEW(m->cell_pts, 3 * n_cells));
    m->n_points = n_points;
    m->n_cells = m->n_cells_global = n_cells;
    m->points_float32 = true;
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    return st;
}

static double to_f32(double x)
{
    return (double)(float)x;
}

/* ---- Loop subdivision ---- */

/* A closed triangulation, as arrays that mesh_alloc's mesh takes over. */
typedef struct surface {
    int64_t n_points, n_cells;
    double *p;  /* [n_points][3] */
    int64_t *c; /* [n_cells][3] */
} surface;

static void surface_free(surface *s)
{
    FF_FREE(s->p);
    FF_FREE(s->c);
}

/* Edge id of every half-edge (3 f + k joins corners k and k + 1 of face f); edges ascend by (smaller, larger)
 * end. */
static ff_status edge_ids(const surface *s, int64_t *edge)
{
    ff_status st = FF_OK;
    int64_t n = 3 * s->n_cells, id = -1;
    uint64_t *key = NULL;
    int64_t *half = NULL;
    FF_GO(FF_NEW(key, n));
    FF_GO(FF_NEW(half, n));
    for (int64_t h = 0; h < n; h++) {
        uint64_t a = (uint64_t)s->c[h], b = (uint64_t)s->c[h % 3 == 2 ? h - 2 : h + 1];
        key[h] = a < b ? a << 32 | b : b << 32 | a;
        half[h] = h;
    }
    FF_GO(ff_sort_u64(key, half, n));
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || key[i] != key[i - 1]) id++;
        edge[half[i]] = id;
    }
done:
    ff_free(key);
    ff_free(half);
    return st;
}

/* Points of the next level: old ones pulled towards their neighbours, then one an edge. */
static void loop_points(const surface *s, const int64_t *edge, const int64_t *valence, double *sum, double *q)
{
    for (int64_t h = 0; h < 3 * s->n_cells; h++) {
        int64_t a = s->c[h], b = s->c[h % 3 == 2 ? h - 2 : h + 1], o = s->c[h % 3 == 0 ? h + 2 : h - 1];
        double *e = q + 3 * (s->n_points + edge[h]);
        for (int d = 0; d < 3; d++) {
            sum[3 * a + d] += s->p[3 * b + d]; /* closed and oriented: each neighbour comes once */
            /* both half-edges add: 3/8 of each end, 1/8 of each opposite corner */
            e[d] += 0.1875 * (s->p[3 * a + d] + s->p[3 * b + d]) + 0.125 * s->p[3 * o + d];
        }
    }
    for (int64_t i = 0; i < s->n_points; i++) {
        double n = (double)valence[i], w = 0.375 + 0.25 * cos(2 * 3.14159265358979323846 / n);
        double beta = (0.625 - w * w) / n;
        for (int d = 0; d < 3; d++) q[3 * i + d] = (1 - n * beta) * s->p[3 * i + d] + beta * sum[3 * i + d];
    }
}

static void loop_cells(const surface *s, const int64_t *edge, int64_t *c)
{
    for (int64_t f = 0; f < s->n_cells; f++) {
        const int64_t *v = s->c + 3 * f;
        int64_t n = s->n_points, ab = n + edge[3 * f], bc = n + edge[3 * f + 1], ca = n + edge[3 * f + 2];
        const int64_t child[12] = {v[0], ab, ca, v[1], bc, ab, v[2], ca, bc, ab, bc, ca};
        memcpy(c + 12 * f, child, sizeof child);
    }
}

static ff_status loop_split(surface *s)
{
    ff_status st = FF_OK;
    surface next = {.n_points = s->n_points + 3 * s->n_cells / 2, .n_cells = 4 * s->n_cells};
    int64_t *edge = NULL, *valence = NULL;
    double *sum = NULL;
    FF_GO(FF_NEW(edge, 3 * s->n_cells));
    FF_GO(FF_NEW0(valence, s->n_points));
    FF_GO(FF_NEW0(sum, 3 * s->n_points));
    FF_GO(FF_NEW0(next.p, 3 * next.n_points));
    FF_GO(FF_NEW(next.c, 3 * next.n_cells));
    FF_GO(edge_ids(s, edge));
    for (int64_t h = 0; h < 3 * s->n_cells; h++) valence[s->c[h]]++;
    loop_points(s, edge, valence, sum, next.p);
    loop_cells(s, edge, next.c);
    surface_free(s);
    *s = next;
    next = (surface){0};
done:
    surface_free(&next);
    ff_free(edge);
    ff_free(valence);
    ff_free(sum);
    return st;
}

ff_status ff_body_lumpy(const double radius[FF_BODY_LUMPS], int splits, ff_mesh **out)
{
    ff_status st = FF_OK;
    surface s = {.n_points = ICO_POINTS, .n_cells = ICO_FACES};
    *out = NULL;
    if (splits < 0 || splits > FF_BODY_SPLIT_MAX)
        return ff_fail(FF_E_ARG, "body: %d subdivisions, expected 0 .. %d", splits, FF_BODY_SPLIT_MAX);
    FF_GO(FF_NEW(s.p, 3 * ICO_POINTS));
    FF_GO(FF_NEW(s.c, 3 * ICO_FACES));
    ico_points(s.p);
    for (int i = 0; i < 3 * ICO_POINTS; i++) s.p[i] *= radius[i / 3];
    for (int i = 0; i < 3 * ICO_FACES; i++) s.c[i] = ico_face[i / 3][i % 3];
    for (int i = 0; i < splits; i++) FF_GO(loop_split(&s));
    double mean = 0;
    for (int64_t i = 0; i < s.n_points; i++) mean += norm3(s.p + 3 * i);
    mean /= (double)s.n_points;
    FF_GO(mesh_alloc(s.n_points, s.n_cells, out));
    for (int64_t i = 0; i < 3 * s.n_points; i++) (*out)->points[i] = s.p[i] / mean;
    memcpy((*out)->cell_pts, s.c, (size_t)(3 * s.n_cells) * sizeof *s.c);
done:
    surface_free(&s);
    return st;
}

static ff_status lumpy_body(int splits, ff_mesh **out)
{
    FF_TRY(ff_body_lumpy(car_radius, splits, out));
    for (int64_t i = 0; i < 3 * (*out)->n_points; i++)
        (*out)->points[i] = to_f32((*out)->points[i] * car_axes[i % 3] + car_centre[i % 3]);
    return FF_OK;
}

/* ---- icosahedron with every edge cut in n parts ---- */

/* Point (i, j) of face f, i + j <= n, counted from corner 0 towards corners 1 and 2. Points are numbered
 * corners, then edges (n - 1 each, from the smaller end), then the insides of faces. */
typedef struct ico_grid {
    int64_t n;
    int edge[ICO_POINTS][ICO_POINTS]; /* id of the edge a, b with a < b */
} ico_grid;

static void ico_grid_init(ico_grid *g, int n)
{
    bool there[ICO_POINTS][ICO_POINTS] = {{false}};
    int id = 0;
    g->n = n;
    for (int f = 0; f < ICO_FACES; f++)
        for (int k = 0; k < 3; k++) there[ico_face[f][k]][ico_face[f][(k + 1) % 3]] = true;
    for (int a = 0; a < ICO_POINTS; a++)
        for (int b = a + 1; b < ICO_POINTS; b++) g->edge[a][b] = there[a][b] ? id++ : -1;
}

/* Point k of n from corner a to corner b. */
static int64_t on_edge(const ico_grid *g, int a, int b, int64_t k)
{
    if (k == 0) return a;
    if (k == g->n) return b;
    int64_t id = a < b ? g->edge[a][b] : g->edge[b][a];
    return ICO_POINTS + id * (g->n - 1) + (a < b ? k : g->n - k) - 1;
}

static int64_t grid_id(const ico_grid *g, int f, int64_t i, int64_t j)
{
    const int *v = ico_face[f];
    int64_t n = g->n;
    if (j == 0) return on_edge(g, v[0], v[1], i);
    if (i == 0) return on_edge(g, v[0], v[2], j);
    if (i + j == n) return on_edge(g, v[1], v[2], j);
    int64_t inside = (n - 1) * (n - 2) / 2, before = (j - 1) * (2 * n - 2 - j) / 2;
    return ICO_POINTS + ICO_EDGES * (n - 1) + f * inside + before + i - 1;
}

static void set_point(ff_mesh *m, int64_t id, double q[3], const double axes[3], const double centre[3])
{
    double r = norm3(q);
    for (int d = 0; d < 3; d++) m->points[3 * id + d] = to_f32(q[d] / r * axes[d] + centre[d]);
}

static void grid_face_cells(const ico_grid *g, int f, int64_t *c)
{
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = 0; i + j < g->n; i++) {
            *c++ = grid_id(g, f, i, j), *c++ = grid_id(g, f, i + 1, j), *c++ = grid_id(g, f, i, j + 1);
            if (i + j + 1 == g->n) continue;
            *c++ = grid_id(g, f, i + 1, j), *c++ = grid_id(g, f, i + 1, j + 1),
            *c++ = grid_id(g, f, i, j + 1);
        }
}

ff_status ff_body_ellipsoid(const double axes[3], const double centre[3], int parts, ff_mesh **out)
{
    *out = NULL;
    if (parts < 1 || parts > FF_BODY_PARTS_MAX)
        return ff_fail(FF_E_ARG, "ellipsoid: parts = %d, expected 1 .. %d", parts, FF_BODY_PARTS_MAX);
    for (int d = 0; d < 3; d++)
        if (!(axes[d] > 0))
            return ff_fail(FF_E_ARG, "ellipsoid: semi-axis %d = %g, expected > 0", d, axes[d]);
    double corner[3 * ICO_POINTS];
    int64_t n = parts;
    ico_grid g;
    ico_points(corner);
    ico_grid_init(&g, parts);
    FF_TRY(mesh_alloc(10 * n * n + 2, 20 * n * n, out));
#pragma omp parallel for schedule(static)
    for (int f = 0; f < ICO_FACES; f++) {
        const double *a = corner + 3 * ico_face[f][0], *b = corner + 3 * ico_face[f][1],
                     *c = corner + 3 * ico_face[f][2];
        grid_face_cells(&g, f, (*out)->cell_pts + 3 * n * n * f);
        for (int64_t j = 1; j < n; j++)
            for (int64_t i = 1; i + j < n; i++) {
                double q[3];
                for (int d = 0; d < 3; d++)
                    q[d] = ((double)(n - i - j) * a[d] + (double)i * b[d] + (double)j * c[d]) / (double)n;
                set_point(*out, grid_id(&g, f, i, j), q, axes, centre);
            }
    }
    /* Corners and edges belong to several faces: once each, so that no thread writes what another does. */
    for (int v = 0; v < ICO_POINTS; v++) set_point(*out, v, corner + 3 * v, axes, centre);
    for (int v = 0; v < ICO_POINTS; v++)
        for (int w = v + 1; w < ICO_POINTS; w++)
            for (int64_t k = 1; k < n && g.edge[v][w] >= 0; k++) {
                double q[3];
                for (int d = 0; d < 3; d++)
                    q[d] = ((double)(n - k) * corner[3 * v + d] + (double)k * corner[3 * w + d]) / (double)n;
                set_point(*out, on_edge(&g, v, w, k), q, axes, centre);
            }
    return FF_OK;
}

/* ---- floors and cases ---- */

/* Plane z = 0 of (n - 1)^2 squares, two triangles each: all lower ones, then all upper ones. */
static ff_status floor_mesh(double x0, double x1, double y0, double y1, ff_mesh **out)
{
    enum { N = 20, CELLS = (N - 1) * (N - 1) };
    FF_TRY(mesh_alloc(N * N, 2 * CELLS, out));
    ff_mesh *m = *out;
    for (int i = 0; i < N * N; i++) {
        m->points[3 * i] = to_f32(x0 + (x1 - x0) * (i / N) / (N - 1));
        m->points[3 * i + 1] = to_f32(y0 + (y1 - y0) * (i % N) / (N - 1));
        m->points[3 * i + 2] = 0;
    }
    for (int k = 0; k < CELLS; k++) {
        int64_t a = k / (N - 1) * N + k % (N - 1);
        const int64_t lower[3] = {a, a + N, a + N + 1}, upper[3] = {a, a + N + 1, a + 1};
        memcpy(m->cell_pts + 3 * k, lower, sizeof lower);
        memcpy(m->cell_pts + 3 * (CELLS + k), upper, sizeof upper);
    }
    return FF_OK;
}

static ff_status body_of(const char *name, ff_mesh **out)
{
    bool cut = strncmp(name, "car:n", 5) == 0;
    const char *digits = name + (cut ? 5 : 4);
    char *end = NULL;
    long v = -1;
    if (strncmp(name, "car:", 4) == 0 && digits[0] >= '0' && digits[0] <= '9') v = strtol(digits, &end, 10);
    if (v < (cut ? 1 : 0) || v > (cut ? FF_BODY_PARTS_MAX : FF_BODY_SPLIT_MAX) || *end != 0)
        return ff_fail(FF_E_ARG, "case = %s, expected car:S with S in 0 .. %d or car:nF with F in 1 .. %d",
                       name, FF_BODY_SPLIT_MAX, FF_BODY_PARTS_MAX);
    return cut ? ff_body_ellipsoid(car_axes, car_centre, (int)v, out) : lumpy_body((int)v, out);
}

ff_status ff_body_car(const char *case_name, ff_mesh **body, ff_mesh **no_slip, ff_mesh **slip)
{
    ff_status st = FF_OK;
    *body = *no_slip = *slip = NULL;
    FF_GO(body_of(case_name, body));
    FF_GO(floor_mesh(-2.339, 10, -11, 11, no_slip));
    FF_GO(floor_mesh(-10, -2.339, -11, 11, slip));
done:
    if (st != FF_OK) {
        ff_mesh_destroy(body);
        ff_mesh_destroy(no_slip);
        ff_mesh_destroy(slip);
    }
    return st;
}
