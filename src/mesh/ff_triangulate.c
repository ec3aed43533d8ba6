/* Polygons to triangles (ff_mesh.h). */
#include "ff_mem.h"
#include "ff_mesh.h"
#include "ff_polygon.h"

#include <math.h>
#include <string.h>

/* The corners of one polygon not clipped yet, in its plane, counter-clockwise, as a ring. */
typedef struct ring {
    int64_t n, cap;
    double (*q)[2]; /* [cap] coordinates: equal points of the mesh are exactly equal here */
    int64_t *next, *prev;
    double tol; /* twice the area below which a triangle counts as flat */
} ring;

static double turn(const ring *r, int64_t a, int64_t b, int64_t c)
{
    return (r->q[b][0] - r->q[a][0]) * (r->q[c][1] - r->q[a][1]) -
           (r->q[b][1] - r->q[a][1]) * (r->q[c][0] - r->q[a][0]);
}

static bool same_place(const ring *r, int64_t a, int64_t b)
{
    return r->q[a][0] == r->q[b][0] && r->q[a][1] == r->q[b][1];
}

/* Whether a corner other than a, b, c, or copies of them, lies in the triangle: farther inside than margin
 * (twice an area; negative: also on its border). Copies occur where a slit joins a hole to the outline. */
static bool is_blocked(const ring *r, int64_t a, int64_t b, int64_t c, double margin)
{
    for (int64_t i = r->next[c]; i != a; i = r->next[i]) {
        if (!(turn(r, a, b, i) > margin && turn(r, b, c, i) > margin && turn(r, c, a, i) > margin)) continue;
        if (!same_place(r, i, a) && !same_place(r, i, b) && !same_place(r, i, c)) return true;
    }
    return false;
}

/* A doubled corner, or one where the outline turns back on itself: clipping it changes no area, keeping it
 * would let its neighbours look like ears. */
static bool is_spike(const ring *r, int64_t a, int64_t b, int64_t c)
{
    double forth = 0;
    for (int k = 0; k < 2; k++) forth += (r->q[b][k] - r->q[a][k]) * (r->q[c][k] - r->q[b][k]);
    return forth <= 0;
}

/* What may be clipped, strictest first. The later levels serve outlines that touch or cross themselves. */
enum { EMPTY, EMPTY_INSIDE, FLAT, CONVEX, ANY };

static bool may_clip(const ring *r, int64_t b, int level)
{
    int64_t a = r->prev[b], c = r->next[b];
    double t = turn(r, a, b, c);
    switch (level) {
    case EMPTY:
        return fabs(t) <= r->tol ? is_spike(r, a, b, c) : t > 0 && !is_blocked(r, a, b, c, -r->tol);
    case EMPTY_INSIDE:
        return t > r->tol && !is_blocked(r, a, b, c, r->tol);
    case FLAT:
        return fabs(t) <= r->tol;
    case CONVEX:
        return t > r->tol;
    default:
        return true;
    }
}

/* Clips ears until three corners are left: each round of the outer loop clips one, so it ends. */
static void clip_ears(ring *r, const int64_t *ids, int64_t *tri)
{
    int64_t at = 0;
    for (int64_t left = r->n; left > 3; left--) {
        int level = EMPTY;
        for (int64_t tried = 0; !may_clip(r, at, level); at = r->next[at])
            if (++tried >= left) tried = 0, level++;
        int64_t a = r->prev[at], c = r->next[at];
        *tri++ = ids[a], *tri++ = ids[at], *tri++ = ids[c];
        r->next[a] = c;
        r->prev[c] = a;
        at = r->next[c]; /* not the neighbour: spreads the ears over the outline */
    }
    *tri++ = ids[r->prev[at]], *tri++ = ids[at], *tri++ = ids[r->next[at]];
}

static ff_status ring_reserve(ring *r, int64_t n)
{
    int64_t cap_q = r->cap, cap_next = r->cap, cap_prev = r->cap;
    FF_TRY(ff_mem_reserve(&r->q, &cap_q, n, sizeof *r->q));
    FF_TRY(ff_mem_reserve(&r->next, &cap_next, n, sizeof *r->next));
    FF_TRY(ff_mem_reserve(&r->prev, &cap_prev, n, sizeof *r->prev));
    r->cap = cap_q;
    return FF_OK;
}

/* Fills the ring with the polygon, seen against its normal. */
static ff_status ring_project(ring *r, const ff_polygon *p, const double normal[3])
{
    int least = fabs(normal[0]) < fabs(normal[1]) ? 0 : 1;
    if (fabs(normal[2]) < fabs(normal[least])) least = 2;
    double n_norm = sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]), u[3], v[3],
           size2 = 0;
    int i1 = (least + 1) % 3, i2 = (least + 2) % 3;
    double u_norm = hypot(normal[i1], normal[i2]);
    u[least] = 0, u[i1] = -normal[i2] / u_norm, u[i2] = normal[i1] / u_norm;
    for (int k = 0; k < 3; k++) { /* v = normal x u */
        int k1 = (k + 1) % 3, k2 = (k + 2) % 3;
        v[k] = (normal[k1] * u[k2] - normal[k2] * u[k1]) / n_norm;
    }
    FF_TRY(ring_reserve(r, p->n));
    r->n = p->n;
    for (int64_t i = 0; i < p->n; i++) {
        double x[3];
        ff_polygon_corner(p, i, x);
        r->q[i][0] = x[0] * u[0] + x[1] * u[1] + x[2] * u[2];
        r->q[i][1] = x[0] * v[0] + x[1] * v[1] + x[2] * v[2];
        size2 = fmax(size2, r->q[i][0] * r->q[i][0] + r->q[i][1] * r->q[i][1]);
        r->next[i] = i + 1 < p->n ? i + 1 : 0;
        r->prev[i] = i > 0 ? i - 1 : p->n - 1;
    }
    r->tol = 1e-12 * size2;
    return FF_OK;
}

/* n - 2 triangles of polygon p to tri. */
static ff_status triangulate_polygon(ring *r, const ff_polygon *p, int64_t *tri)
{
    double normal[3];
    if (p->n > 3) {
        ff_polygon_vector_area(p, normal);
        bool flat = normal[0] == 0 && normal[1] == 0 && normal[2] == 0;
        if (!flat && !ff_polygon_fan_is_valid(p, normal, 1e-12)) {
            FF_TRY(ring_project(r, p, normal));
            clip_ears(r, p->ids, tri);
            return FF_OK;
        }
    }
    for (int64_t i = 1; i + 1 < p->n; i++) *tri++ = p->ids[0], *tri++ = p->ids[i], *tri++ = p->ids[i + 1];
    return FF_OK;
}

/* Triangles of all cells into t->cell_pts, and their parents. */
static ff_status triangulate_cells(const ff_mesh *m, ff_mesh *t, int64_t *parent)
{
    ring r = {0};
    ff_status st = FF_OK;
    int64_t n, done_tri = 0;
    for (int64_t c = 0; c < m->n_cells; c++) {
        int64_t at = ff_mesh_cell(m, c, &n);
        ff_polygon p = {m->points, m->cell_pts + at, n};
        if (m->dim == 2)
            memcpy(t->cell_pts + 2 * c, p.ids, 2 * sizeof *p.ids);
        else
            FF_GO(triangulate_polygon(&r, &p, t->cell_pts + 3 * done_tri));
        for (int64_t i = 0; i < (m->dim == 2 ? 1 : n - 2); i++) parent[done_tri++] = c;
    }
done:
    ff_free(r.q);
    ff_free(r.next);
    ff_free(r.prev);
    return st;
}

static ff_status count_triangles(const ff_mesh *m, int64_t *out)
{
    *out = m->dim == 2 ? m->n_cells : 0;
    for (int64_t c = 0; m->dim == 3 && c < m->n_cells; c++) {
        int64_t n;
        (void)ff_mesh_cell(m, c, &n);
        long long cell = m->cell_begin + c;
        if (n < 3)
            return ff_fail(FF_E_INPUT, "cell %lld has %lld points, expected at least 3", cell, (long long)n);
        *out += n - 2;
    }
    return FF_OK;
}

/* Tuples from[row[i]] of each field, or all n in order if row is NULL. */
static ff_status copy_fields(const ff_field_set *from, const int64_t *row, int64_t n, ff_field_set *to)
{
    for (int f = 0; f < from->n; f++) {
        int64_t nc = from->field[f].n_comp;
        const double *src = from->field[f].value;
        double *value;
        FF_TRY(FF_NEW(value, n * nc));
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < nc; k++) value[i * nc + k] = src[(row != NULL ? row[i] : i) * nc + k];
        FF_TRY(ff_field_set_add(to, from->field[f].name, (int)nc, n, &value));
    }
    return FF_OK;
}

static ff_status copy_patches(const ff_mesh *m, const int64_t *parent, ff_mesh *t)
{
    FF_TRY(FF_NEW0(t->patch_name, m->n_patches));
    for (; t->n_patches < m->n_patches; t->n_patches++)
        if ((t->patch_name[t->n_patches] = ff_strdup(m->patch_name[t->n_patches])) == NULL) return FF_E_MEM;
    if (m->cell_patch == NULL) return FF_OK;
    FF_TRY(FF_NEW(t->cell_patch, t->n_cells));
    for (int64_t i = 0; i < t->n_cells; i++) t->cell_patch[i] = m->cell_patch[parent[i]];
    return FF_OK;
}

/* Everything but the cells' points. */
static ff_status copy_rest(const ff_mesh *m, const int64_t *parent, ff_mesh *t)
{
    t->points_float32 = m->points_float32;
    t->n_points = m->n_points;
    FF_TRY(FF_NEW(t->points, 3 * m->n_points));
    if (m->n_points > 0) memcpy(t->points, m->points, (size_t)(3 * m->n_points) * sizeof *t->points);
    FF_TRY(copy_patches(m, parent, t));
    FF_TRY(copy_fields(&m->point_data, NULL, m->n_points, &t->point_data));
    FF_TRY(copy_fields(&m->cell_data, parent, t->n_cells, &t->cell_data));
    bool whole = m->cell_begin == 0 && m->n_cells == m->n_cells_global;
    t->cell_begin = whole ? 0 : -1;
    t->n_cells_global = whole ? t->n_cells : -1;
    return FF_OK;
}

ff_status ff_mesh_triangulate(const ff_mesh *m, ff_mesh **out, int64_t **parent)
{
    ff_status st;
    int64_t n;
    *out = NULL;
    *parent = NULL;
    FF_GO(count_triangles(m, &n));
    FF_GO(ff_mesh_create(out));
    FF_GO(FF_NEW(*parent, n));
    (*out)->dim = m->dim;
    (*out)->n_cells = n;
    FF_GO(FF_NEW((*out)->cell_pts, m->dim * n));
    FF_GO(triangulate_cells(m, *out, *parent));
    FF_GO(copy_rest(m, *parent, *out));
done:
    if (st != FF_OK) {
        ff_mesh_destroy(out);
        FF_FREE(*parent);
    }
    return st;
}
