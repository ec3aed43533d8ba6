#include "ff_ugrid.h"

#include "ff_builder.h"
#include "ff_faces.h"
#include "ff_log.h"
#include "ff_mem.h"

#include <stdio.h>
#include <string.h>

/* What a cell type becomes. Corners stand first in all types of higher order; 0: all points are corners. */
typedef enum { NOT_KNOWN, NOTHING, LINE, FACE, STRIP, PIXEL, HALF, SOLID, VOXEL, WEDGE, POLYHEDRON } role;
typedef struct {
    int8_t role, corners, shape;
} cell_kind;

static const cell_kind kinds[] = {
    [0] = {NOTHING, 0, 0},
    [1] = {NOTHING, 0, 0},
    [2] = {NOTHING, 0, 0},
    [3] = {LINE, 2, 0},
    [4] = {LINE, 0, 0},
    [5] = {FACE, 3, 0},
    [6] = {STRIP, 0, 0},
    [7] = {FACE, 0, 0},
    [8] = {PIXEL, 4, 0},
    [9] = {FACE, 4, 0},
    [10] = {SOLID, 4, FF_SHAPE_TETRA},
    [11] = {VOXEL, 8, FF_SHAPE_HEXA},
    [12] = {SOLID, 8, FF_SHAPE_HEXA},
    [13] = {WEDGE, 6, FF_SHAPE_WEDGE},
    [14] = {SOLID, 5, FF_SHAPE_PYRAMID},
    [15] = {SOLID, 10, FF_SHAPE_PRISM5},
    [16] = {SOLID, 12, FF_SHAPE_PRISM6},
    [21] = {LINE, 2, 0},
    [22] = {FACE, 3, 0},
    [23] = {FACE, 4, 0},
    [24] = {SOLID, 4, FF_SHAPE_TETRA},
    [25] = {SOLID, 8, FF_SHAPE_HEXA},
    [26] = {WEDGE, 6, FF_SHAPE_WEDGE},
    [27] = {SOLID, 5, FF_SHAPE_PYRAMID},
    [28] = {FACE, 4, 0},
    [29] = {SOLID, 8, FF_SHAPE_HEXA},
    [30] = {FACE, 4, 0},
    [31] = {WEDGE, 6, FF_SHAPE_WEDGE},
    [32] = {WEDGE, 6, FF_SHAPE_WEDGE},
    [33] = {SOLID, 8, FF_SHAPE_HEXA},
    [34] = {FACE, 3, 0},
    [35] = {LINE, 2, 0},
    [36] = {HALF, 0, 0},
    [37] = {SOLID, 5, FF_SHAPE_PYRAMID},
    [FF_UG_POLYHEDRON] = {POLYHEDRON, 0, 0},
    [68] = {LINE, 2, 0},
    [69] = {FACE, 3, 0},
    [70] = {FACE, 4, 0},
    [71] = {SOLID, 4, FF_SHAPE_TETRA},
    [72] = {SOLID, 8, FF_SHAPE_HEXA},
    [73] = {WEDGE, 6, FF_SHAPE_WEDGE},
    [74] = {SOLID, 5, FF_SHAPE_PYRAMID},
    [75] = {LINE, 2, 0},
    [76] = {FACE, 3, 0},
    [77] = {FACE, 4, 0},
    [78] = {SOLID, 4, FF_SHAPE_TETRA},
    [79] = {SOLID, 8, FF_SHAPE_HEXA},
    [80] = {WEDGE, 6, FF_SHAPE_WEDGE},
    [81] = {SOLID, 5, FF_SHAPE_PYRAMID},
};

typedef struct {
    const ff_ug *ug;
    ff_builder b;
    int dim; /* of the cells that are taken: 3 volumes, 2 faces, 1 lines */
    int64_t *row, cap_row;
    int64_t *ids, cap_ids; /* corners of one cell, as points of the mesh */
    int64_t place, cell, first_row,
        first_point; /* piece and cell at work; rows and points before its piece */
} grid;

static int dim_of(role r)
{
    return r >= SOLID ? 3 : r >= FACE ? 2 : r == LINE ? 1 : 0;
}

static const cell_kind *kind_of(int64_t type)
{
    static const cell_kind none = {NOT_KNOWN, 0, 0};
    return type >= 0 && type < (int64_t)(sizeof kinds / sizeof *kinds) ? &kinds[type] : &none;
}

static ff_status bad(const grid *g, const char *what, int64_t got, const char *expected, int64_t limit)
{
    return ff_fail(FF_E_INPUT, "%s: piece %lld: cell %lld: %s %lld, expected %s %lld", g->ug->path,
                   (long long)g->place, (long long)g->cell, what, (long long)got, expected, (long long)limit);
}

/* ---- checks ---- */

static ff_status check_cell(const grid *g, const ff_ug_piece *p, int64_t c)
{
    const cell_kind *k = kind_of(p->type[c]);
    int64_t n = p->off[c + 1] - p->off[c], least = k->corners;
    if (k->role == NOT_KNOWN)
        return ff_fail(FF_E_UNSUPPORTED, "%s: piece %lld: cell %lld: type %lld is no cell type that is read",
                       g->ug->path, (long long)g->place, (long long)c, (long long)p->type[c]);
    if (least == 0)
        least = k->role == LINE ? 2 : k->role == HALF ? 6 : k->role == FACE || k->role == STRIP ? 3 : 0;
    if (n < least) return bad(g, "points", n, "at least", least);
    if (k->role == POLYHEDRON && p->poly_off == NULL)
        return FF_OK; /* conn holds faces, checked as they are read */
    for (int64_t i = p->off[c]; i < p->off[c + 1]; i++)
        if (p->conn[i] < 0 || p->conn[i] >= p->n_points)
            return bad(g, "point id", p->conn[i], "0 <= id <", p->n_points);
    return FF_OK;
}

/* Checks all cells and finds the dimension of those to take. */
static ff_status check_all(grid *g)
{
    int64_t n[4] = {0};
    for (g->place = 0; g->place < g->ug->n_pieces; g->place++) {
        const ff_ug_piece *p = &g->ug->piece[g->place];
        for (g->cell = 0; g->cell < p->n_cells; g->cell++) {
            int64_t c = g->cell;
            if (p->off[c + 1] < p->off[c] || p->off[c + 1] > p->n_conn)
                return bad(g, "its points end at", p->off[c + 1], "rising ends of at most", p->n_conn);
            FF_TRY(check_cell(g, p, c));
            n[dim_of((role)kind_of(p->type[c])->role)]++;
        }
    }
    g->dim = n[2] > 0 ? 2 : n[3] > 0 ? 3 : 1;
    if (n[3] > 0 && n[2] == 0)
        ff_warn("%s: no surface cells; the surface of the %lld volume cells is taken", g->ug->path,
                (long long)n[3]);
    if (n[2] > 0 && n[1] > 0)
        ff_warn("%s: %lld lines beside surface cells are left out", g->ug->path, (long long)n[1]);
    return FF_OK;
}

/* ---- cells ---- */

static ff_status put(grid *g, int64_t row, const int64_t *ids, int64_t n)
{
    FF_TRY(ff_mem_reserve(&g->row, &g->cap_row, g->b.m->n_cells + 1, sizeof *g->row));
    g->row[g->b.m->n_cells] = g->first_row + row;
    return ff_builder_cell(&g->b, ids, n);
}

static ff_status put_surface(grid *g, role r, int64_t c, int64_t *ids, int64_t n)
{
    if (r == FACE) return put(g, c, ids, n);
    if (r == HALF) return put(g, c, ids, n / 2);
    if (r == PIXEL) return put(g, c, (int64_t[]){ids[0], ids[1], ids[3], ids[2]}, 4);
    for (int64_t i = 0; i + 2 < n; i++) /* a strip: every second triangle is wound the other way round */
        FF_TRY(put(g, c, (int64_t[]){ids[i + i % 2], ids[i + 1 - i % 2], ids[i + 2]}, 3));
    return FF_OK;
}

/* Faces of a polyhedron: their number, then each one's corners. */
static ff_status polyhedron(grid *g, const ff_ug_piece *p, int64_t c, ff_faces *f)
{
    const int64_t *off = p->poly_off != NULL ? p->poly_off : p->off,
                  *v = p->poly_off != NULL ? p->poly : p->conn;
    int64_t at = off[c], end = off[c + 1];
    int64_t n = at < end ? v[at++] : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t size = at < end ? v[at++] : -1;
        if (size < 0 || size > end - at) return bad(g, "corners of a face", size, "0 to", end - at);
        FF_TRY(ff_mem_reserve(&g->ids, &g->cap_ids, size, sizeof *g->ids));
        for (int64_t k = 0; k < size; k++) {
            int64_t id = v[at + k];
            if (id < 0 || id >= p->n_points) return bad(g, "point id", id, "0 <= id <", p->n_points);
            g->ids[k] = g->first_point + id;
        }
        FF_TRY(ff_faces_add(f, c, g->ids, size, 3));
        at += size;
    }
    return FF_OK;
}

static ff_status solid(grid *g, const cell_kind *k, int64_t c, ff_faces *f)
{
    const int64_t *v = g->ids;
    int64_t voxel[8] = {v[0], v[1], v[3], v[2]}, wedge[6] = {v[0], v[2], v[1], v[3]};
    if (k->role == VOXEL) {
        voxel[4] = v[4], voxel[5] = v[5], voxel[6] = v[7], voxel[7] = v[6];
        v = voxel;
    } else if (k->role == WEDGE) { /* VTK's base looks out of the cell */
        wedge[4] = v[5], wedge[5] = v[4];
        v = wedge;
    }
    return ff_faces_add_cell(f, c, (ff_shape)k->shape, v);
}

/* Takes cell c if it is of the dimension that counts. */
static ff_status take(grid *g, const ff_ug_piece *p, int64_t c, ff_faces *f)
{
    const cell_kind *k = kind_of(p->type[c]);
    role r = (role)k->role;
    int64_t n = p->off[c + 1] - p->off[c];
    if (dim_of(r) != g->dim) return FF_OK;
    if (r == POLYHEDRON) return polyhedron(g, p, c, f);
    if (k->corners > 0) n = k->corners;
    FF_TRY(ff_mem_reserve(&g->ids, &g->cap_ids, n, sizeof *g->ids));
    for (int64_t i = 0; i < n; i++) g->ids[i] = g->first_point + p->conn[p->off[c] + i];
    if (g->dim == 2) return put_surface(g, r, c, g->ids, n);
    if (g->dim == 3) return solid(g, k, c, f);
    for (int64_t i = 0; i + 1 < n; i++) FF_TRY(put(g, c, g->ids + i, 2));
    return FF_OK;
}

static ff_status take_piece(grid *g)
{
    const ff_ug_piece *p = &g->ug->piece[g->place];
    ff_faces f = {0};
    char name[64];
    int len = snprintf(name, sizeof name, "piece %lld", (long long)g->place);
    ff_status st;
    FF_GO(ff_builder_patch(&g->b, name, (size_t)len));
    for (g->cell = 0; g->cell < p->n_cells; g->cell++) FF_GO(take(g, p, g->cell, &f));
    FF_GO(ff_faces_keep_free(&f));
    for (int64_t i = 0; i < f.n; i++) FF_GO(put(g, f.cell[i], f.ids + f.off[i], f.off[i + 1] - f.off[i]));
    g->first_row += p->n_cells;
    g->first_point += p->n_points;
done:
    ff_faces_free(&f);
    return st;
}

/* Hands what was built over to the caller's mesh. */
static ff_status deliver(grid *g, ff_mesh *m)
{
    ff_mesh *from = g->b.m;
    m->dim = from->dim;
    m->n_cells = from->n_cells;
    m->cell_off = from->cell_off;
    m->cell_pts = from->cell_pts;
    m->cell_patch = from->cell_patch;
    m->patch_name = from->patch_name;
    m->n_patches = from->n_patches;
    from->cell_off = from->cell_pts = NULL;
    from->cell_patch = NULL;
    from->patch_name = NULL;
    from->n_patches = 0;
    if (m->cell_pts == NULL) FF_TRY(FF_NEW(m->cell_pts, 1)); /* no cell */
    return m->n_patches == 1 ? ff_mesh_set_patch(m, FF_PATCH_SINGLE) : FF_OK;
}

ff_status ff_ug_cells(const ff_ug *ug, ff_mesh *m, int64_t **row)
{
    grid g = {.ug = ug};
    ff_status st;
    *row = NULL;
    FF_GO(check_all(&g));
    FF_GO(ff_builder_begin(&g.b, g.dim == 1 ? 2 : 3));
    FF_GO(FF_NEW(g.row, 1));
    g.cap_row = 1;
    for (g.place = 0; g.place < ug->n_pieces; g.place++) FF_GO(take_piece(&g));
    if (g.dim == 1 && g.b.m->n_cells == 0) g.b.m->dim = 3; /* points alone */
    FF_GO(deliver(&g, m));
    *row = g.row;
    g.row = NULL;
done:
    ff_builder_free(&g.b);
    ff_free(g.row);
    ff_free(g.ids);
    return st;
}
