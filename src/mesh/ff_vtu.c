/* Cells of an unstructured grid in VTK's XML form (.vtu); the document, points and fields are those of ff_vtp. */
#include "ff_mem.h"
#include "ff_ugrid.h"
#include "ff_vtp_impl.h"

#include <string.h>

/* What is decoded of one piece, owned. */
typedef struct {
    int64_t *type, *off, *conn, *poly, *poly_off;
} arrays;

static ff_status need(const vtp_doc *d, int64_t p, const char *name, const vtp_array **out)
{
    *out = vtp_find(d, p, VTP_CELLS, name);
    if (*out != NULL) return FF_OK;
    return ff_fail(FF_E_INPUT, "%s: piece %lld: Cells: no array named %s", d->path, (long long)p, name);
}

/* n ends of an array into offsets [n + 1] that begin with 0. */
static ff_status read_ends(const vtp_doc *d, const vtp_array *a, int64_t n, int64_t **off)
{
    int64_t *ends;
    FF_TRY(vtp_decode_i64(d, a, n, &ends));
    ff_status st = FF_NEW(*off, n + 1);
    if (st == FF_OK) {
        (*off)[0] = 0;
        if (n > 0) memcpy(*off + 1, ends, (size_t)n * sizeof *ends);
    }
    ff_free(ends);
    return st;
}

/* All values of an array. */
static ff_status read_whole(const vtp_doc *d, const vtp_array *a, int64_t **out, int64_t *n)
{
    FF_TRY(vtp_count(d, a, n));
    return vtp_decode_i64(d, a, *n, out);
}

/* Before VTK 9.4: faces of all polyhedra in one list; faceoffsets say where each ends, -1 for other cells. */
static ff_status read_faces(const vtp_doc *d, int64_t p, ff_ug_piece *u, arrays *own)
{
    const vtp_array *faces = vtp_find(d, p, VTP_CELLS, "faces"),
                    *ends = vtp_find(d, p, VTP_CELLS, "faceoffsets");
    if (faces == NULL || ends == NULL) return FF_OK;
    int64_t have;
    FF_TRY(vtp_count(d, ends, &have));
    if (have == 0) return FF_OK;
    FF_TRY(read_whole(d, faces, &own->poly, &u->n_poly));
    FF_TRY(read_ends(d, ends, u->n_cells, &own->poly_off));
    for (int64_t c = 1; c <= u->n_cells; c++) {
        int64_t *at = &own->poly_off[c];
        if (*at < 0) *at = at[-1];
        if (*at < at[-1] || *at > u->n_poly)
            return vtp_fail(d, ends, "cell %lld ends at %lld, expected %lld to %lld", (long long)(c - 1),
                            (long long)*at, (long long)at[-1], (long long)u->n_poly);
    }
    return FF_OK;
}

/* The four arrays of VTK 9.4 and later, put into the older form. */
typedef struct {
    int64_t *conn, *end, *face,
        *face_end; /* corners, ends of faces; faces of polyhedra, ends of these lists */
    int64_t n_conn, n_end, n_face, n_face_end;
} new_faces;

static ff_status put_faces(const vtp_doc *d, const new_faces *f, int64_t c, int64_t from, int64_t to,
                           arrays *own, int64_t *n, int64_t *cap)
{
    const char *path = d->path;
    if (from > to || from < 0 || to > f->n_face)
        return ff_fail(FF_E_INPUT, "%s: polyhedron_offsets: cell %lld has faces %lld to %lld of %lld", path,
                       (long long)c, (long long)from, (long long)to, (long long)f->n_face);
    FF_TRY(ff_mem_reserve(&own->poly, cap, *n + 1, sizeof *own->poly));
    own->poly[(*n)++] = to - from;
    for (int64_t i = from; i < to; i++) {
        int64_t id = f->face[i];
        int64_t a = id > 0 && id < f->n_end ? f->end[id - 1] : 0,
                b = id >= 0 && id < f->n_end ? f->end[id] : -1;
        if (b < a || a < 0 || b > f->n_conn)
            return ff_fail(
                FF_E_INPUT,
                "%s: polyhedron_to_faces: cell %lld: face %lld, expected 0 <= it < %lld and rising "
                "face_offsets",
                path, (long long)c, (long long)id, (long long)f->n_end);
        FF_TRY(ff_mem_reserve(&own->poly, cap, *n + 1 + b - a, sizeof *own->poly));
        own->poly[(*n)++] = b - a;
        if (b > a) memcpy(own->poly + *n, f->conn + a, (size_t)(b - a) * sizeof *f->conn);
        *n += b - a;
    }
    return FF_OK;
}

static ff_status convert_faces(const vtp_doc *d, const new_faces *f, ff_ug_piece *u, arrays *own)
{
    int64_t cap = 0, from = 0, limit = 1000 * (int64_t)d->bytes + 1000000;
    FF_TRY(FF_NEW(own->poly_off, u->n_cells + 1));
    own->poly_off[0] = 0;
    for (int64_t c = 0; c < u->n_cells; c++) {
        if (own->type[c] == FF_UG_POLYHEDRON && c < f->n_face_end) {
            FF_TRY(put_faces(d, f, c, from, f->face_end[c], own, &u->n_poly, &cap));
            from = f->face_end[c];
        }
        if (u->n_poly > limit)
            return ff_fail(FF_E_INPUT, "%s: polyhedra repeat more faces than the file can mean", d->path);
        own->poly_off[c + 1] = u->n_poly;
    }
    if (own->poly == NULL) FF_TRY(FF_NEW(own->poly, 1));
    return FF_OK;
}

static ff_status read_new_faces(const vtp_doc *d, int64_t p, ff_ug_piece *u, arrays *own)
{
    static const char *const names[] = {"face_connectivity", "face_offsets", "polyhedron_to_faces",
                                        "polyhedron_offsets"};
    new_faces f = {0};
    int64_t **value[] = {&f.conn, &f.end, &f.face, &f.face_end},
            *n[] = {&f.n_conn, &f.n_end, &f.n_face, &f.n_face_end};
    ff_status st = FF_OK;
    if (own->poly_off != NULL || vtp_find(d, p, VTP_CELLS, names[0]) == NULL) return FF_OK;
    for (int i = 0; i < 4; i++) {
        const vtp_array *a;
        FF_GO(need(d, p, names[i], &a));
        FF_GO(read_whole(d, a, value[i], n[i]));
    }
    FF_GO(convert_faces(d, &f, u, own));
done:
    for (int i = 0; i < 4; i++) ff_free(*value[i]);
    return st;
}

static ff_status check_polyhedra(const vtp_doc *d, int64_t p, const ff_ug_piece *u)
{
    for (int64_t c = 0; c < u->n_cells && u->poly_off == NULL; c++)
        if (u->type[c] == FF_UG_POLYHEDRON)
            return ff_fail(FF_E_INPUT,
                           "%s: piece %lld: cell %lld is a polyhedron, expected arrays faces and faceoffsets",
                           d->path, (long long)p, (long long)c);
    return FF_OK;
}

static ff_status read_piece(const vtp_doc *d, int64_t p, ff_ug_piece *u, arrays *own)
{
    const vtp_array *types, *offsets, *connectivity;
    u->n_points = d->piece[p].n_points;
    u->n_cells = d->piece[p].n_cells[FF_PD_POLYS];
    if (u->n_cells == 0) return FF_OK;
    FF_TRY(need(d, p, "types", &types));
    FF_TRY(need(d, p, "offsets", &offsets));
    FF_TRY(need(d, p, "connectivity", &connectivity));
    FF_TRY(vtp_decode_i64(d, types, u->n_cells, &own->type));
    FF_TRY(read_ends(d, offsets, u->n_cells, &own->off));
    u->n_conn = own->off[u->n_cells];
    if (u->n_conn < 0) return vtp_fail(d, offsets, "ends at %lld, expected >= 0", (long long)u->n_conn);
    FF_TRY(vtp_decode_i64(d, connectivity, u->n_conn, &own->conn));
    FF_TRY(read_faces(d, p, u, own));
    FF_TRY(read_new_faces(d, p, u, own));
    u->type = own->type;
    u->off = own->off;
    u->conn = own->conn;
    u->poly = own->poly;
    u->poly_off = own->poly_off;
    return check_polyhedra(d, p, u);
}

ff_status vtu_cells(const vtp_doc *d, ff_mesh *m, int64_t **row)
{
    ff_ug ug = {.path = d->path, .n_pieces = d->n_pieces};
    arrays *own = NULL;
    ff_status st;
    FF_GO(FF_NEW0(ug.piece, ug.n_pieces));
    FF_GO(FF_NEW0(own, ug.n_pieces));
    for (int64_t p = 0; p < ug.n_pieces; p++) FF_GO(read_piece(d, p, &ug.piece[p], &own[p]));
    FF_GO(ff_ug_cells(&ug, m, row));
done:
    for (int64_t p = 0; own != NULL && p < ug.n_pieces; p++) {
        ff_free(own[p].type);
        ff_free(own[p].off);
        ff_free(own[p].conn);
        ff_free(own[p].poly);
        ff_free(own[p].poly_off);
    }
    ff_free(own);
    ff_free(ug.piece);
    return st;
}
