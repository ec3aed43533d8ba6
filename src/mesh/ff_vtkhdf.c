#include "ff_vtkhdf.h"

#include "ff_mem.h"
#include "ff_mesh_dist.h"
#include "ff_vtkhdf_impl.h"

#include <stdio.h>

static const int64_t zero_off[1];

static const char *dataset_of(char *buf, size_t n, const vtkhdf_layout *l, int k, const char *what)
{
    if (l->head.plain) return what[0] == 'O' ? "/cells/offsets" : "/cells/connectivity";
    (void)snprintf(buf, n, "/VTKHDF/%s/%s", vtkhdf_kind[k], what);
    return buf;
}

/* The cells [begin, end) of one kind of this step, as stored. Offsets have one entry more than cells for each
 * part. */
typedef struct {
    int64_t begin, end;            /* cells */
    int64_t first_part, last_part; /* those of cells begin and end - 1 */
    int64_t *off, n_off;           /* entries of parts first_part to last_part, from cell begin on */
    int64_t *conn, n_conn;         /* ids, from connectivity row conn0 on (counted from the step's first) */
    int64_t conn0;
} kind_rows;

static void kind_rows_free(kind_rows *r)
{
    FF_FREE(r->off);
    FF_FREE(r->conn);
}

/* The part that holds cell c. */
static int64_t part_of(const vtkhdf_layout *l, int k, int64_t c)
{
    int64_t p = 0;
    while (p + 1 < l->head.n_parts && c >= l->part[p].n_cells[k]) c -= l->part[p++].n_cells[k];
    return p;
}

/* Collective over the ranks that share f; on one rank Local. */
static ff_status read_offsets(const ff_h5 *f, ff_comm *comm, const vtkhdf_layout *l, int k, kind_rows *r)
{
    char name[64];
    bool some = r->end > r->begin;
    r->first_part = some ? part_of(l, k, r->begin) : 0;
    r->last_part = some ? part_of(l, k, r->end - 1) : -1;
    r->n_off = r->end - r->begin + r->last_part - r->first_part + 1;
    FF_TRY(FF_NEW_ALL(comm, r->off, r->n_off));
    int64_t row0 = some ? l->head.off_row0[k] + r->begin + r->first_part : 0;
    return ff_h5_read(f, dataset_of(name, sizeof name, l, k, "Offsets"), FF_H5_I64, row0, r->n_off, r->off);
}

/* Cuts the entries into parts and checks what makes the ids of all cells one run: offsets start at 0 and end
 * at the part's number of ids. Local. */
static ff_status cut_parts(const char *path, const vtkhdf_layout *l, int k, kind_rows *r, ff_pd_piece *piece)
{
    int64_t cell = 0, conn = 0, *off = r->off;
    for (int64_t p = 0; p <= r->last_part; p++) {
        int64_t n = l->part[p].n_cells[k], n_conn = l->part[p].n_conn[k];
        int64_t a = r->begin > cell ? r->begin - cell : 0, b = r->end - cell < n ? r->end - cell : n;
        if (p >= r->first_part) {
            int64_t lo = off[0], hi = off[b - a];
            if (lo < 0 || lo > hi || hi > n_conn || (a == 0 && lo != 0) || (b == n && hi != n_conn))
                return ff_fail(
                    FF_E_INPUT,
                    "%s: %s/Offsets: part %lld: cells %lld to %lld use ids %lld to %lld, the part has %lld",
                    path, vtkhdf_kind[k], (long long)p, (long long)a, (long long)b, (long long)lo,
                    (long long)hi, (long long)n_conn);
            if (p == r->first_part) r->conn0 = conn + lo;
            r->n_conn += hi - lo;
            piece[p].n_cells[k] = b - a;
            piece[p].n_conn[k] = hi - lo;
            piece[p].off[k] = off;
            piece[p].cell0[k] = a;
            piece[p].conn0[k] = lo;
            /* Unsigned: nothing is known yet of the entries in between. */
            for (int64_t i = 0; i <= b - a; i++) off[i] = (int64_t)((uint64_t)off[i] - (uint64_t)lo);
            off += b - a + 1;
        }
        cell += n;
        conn += n_conn;
    }
    return FF_OK;
}

static ff_status read_conn(const ff_h5 *f, ff_comm *comm, const vtkhdf_layout *l, int k, kind_rows *r,
                           ff_pd_piece *piece)
{
    char name[64];
    FF_TRY(FF_NEW_ALL(comm, r->conn, r->n_conn));
    FF_TRY(ff_h5_read(f, dataset_of(name, sizeof name, l, k, "Connectivity"), FF_H5_I64,
                      r->n_conn > 0 ? l->head.conn_row0[k] + r->conn0 : 0, r->n_conn, r->conn));
    int64_t at = 0;
    for (int64_t p = 0; p < l->head.n_parts; p++) {
        if (piece[p].n_cells[k] == 0) continue;
        piece[p].conn[k] = r->conn + at;
        at += piece[p].n_conn[k];
    }
    return FF_OK;
}

static ff_status read_kind(const ff_h5 *f, ff_comm *comm, const vtkhdf_layout *l, int k, kind_rows *r,
                           ff_pd_piece *piece)
{
    if (l->head.n_cells[k] == 0) return FF_OK; /* the same on all ranks */
    FF_TRY(read_offsets(f, comm, l, k, r));
    FF_TRY(ff_agree(comm, cut_parts(ff_h5_path(f), l, k, r, piece)));
    return read_conn(f, comm, l, k, r, piece);
}

/* Points [begin, begin + n) of this step and their fields. */
static ff_status read_points(const ff_h5 *f, ff_comm *comm, const vtkhdf_layout *l, int64_t begin, int64_t n,
                             ff_mesh *m)
{
    m->n_points = n;
    m->points_float32 = l->head.points_float32;
    FF_TRY(FF_NEW_ALL(comm, m->points, 3 * n));
    return ff_h5_read(f, l->head.plain ? "/points" : "/VTKHDF/Points", FF_H5_F64, l->head.point_row0 + begin,
                      n, m->points);
}

/* Rows [begin, begin + n) of every point or cell field. */
static ff_status read_fields(const ff_h5 *f, ff_comm *comm, const vtkhdf_layout *l, bool of_points,
                             int64_t begin, int64_t n, ff_mesh *m, const int64_t *row)
{
    for (int64_t i = 0; i < l->head.n_fields; i++) {
        const vtkhdf_field *field = &l->field[i];
        double *value = NULL;
        if (field->of_points != of_points) continue;
        ff_status st = ff_agree(comm, FF_NEW(value, n * field->n_comp));
        if (st == FF_OK) st = ff_h5_read(f, field->dataset, FF_H5_F64, field->row0 + begin, n, value);
        if (st != FF_OK) {
            ff_free(value);
            return st;
        }
        if (of_points)
            st = ff_field_set_add(&m->point_data, field->name, field->n_comp, n, &value);
        else
            st = ff_pd_cell_field(m, field->name, field->n_comp, &value, row);
        FF_TRY(ff_agree(comm, st));
    }
    return FF_OK;
}

static ff_status new_pieces(const vtkhdf_layout *l, ff_pd *pd)
{
    pd->n_pieces = l->head.n_parts;
    FF_TRY(FF_NEW0(pd->piece, pd->n_pieces));
    for (int64_t p = 0; p < pd->n_pieces; p++) {
        pd->piece[p].n_points = l->part[p].n_points;
        for (int k = 0; k < FF_PD_KINDS; k++) pd->piece[p].off[k] = zero_off;
    }
    return FF_OK;
}

/* ---- one rank, whole ---- */

static ff_status read_cells(const ff_h5 *f, const vtkhdf_layout *l, ff_mesh *m, int64_t **row)
{
    ff_pd pd = {.path = ff_h5_path(f), .prefix = "part"};
    kind_rows rows[FF_PD_KINDS] = {0};
    ff_status st;
    FF_GO(new_pieces(l, &pd));
    for (int64_t p = 0; p < pd.n_pieces; p++)
        for (int k = 0; k < FF_PD_KINDS; k++) pd.piece[p].n_cells[k] = l->part[p].n_cells[k];
    int dim = ff_pd_dim(&pd);
    for (int k = 0; k < FF_PD_KINDS; k++) {
        rows[k].end = l->head.n_cells[k];
        if (ff_pd_uses(dim, k)) FF_GO(read_kind(f, ff_comm_self(), l, k, &rows[k], pd.piece));
    }
    FF_GO(ff_pd_cells(&pd, m, row));
done:
    for (int k = 0; k < FF_PD_KINDS; k++) kind_rows_free(&rows[k]);
    ff_free(pd.piece);
    return st;
}

static ff_status read_whole(const ff_h5 *f, const ff_read_opts *opts, ff_mesh *m)
{
    vtkhdf_layout l;
    int64_t *row = NULL, n_rows = 0;
    FF_TRY(vtkhdf_layout_read(f, opts->step, &l));
    ff_status st;
    FF_GO(read_cells(f, &l, m, &row));
    FF_GO(read_points(f, ff_comm_self(), &l, 0, l.head.n_points, m));
    for (int k = 0; k < FF_PD_KINDS; k++) n_rows += l.head.n_cells[k];
    FF_GO(read_fields(f, ff_comm_self(), &l, true, 0, l.head.n_points, m, NULL));
    FF_GO(read_fields(f, ff_comm_self(), &l, false, 0, n_rows, m, row));
    FF_GO(ff_pd_restore_patches(ff_comm_self(), m, l.patch_names));
    FF_GO(ff_mesh_finish(m, ff_h5_path(f), opts));
done:
    vtkhdf_layout_free(&l);
    ff_free(row);
    return st;
}

ff_status ff_vtkhdf_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_h5 *f = NULL;
    ff_mesh *m = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(ff_h5_open(ff_comm_self(), path, &f));
    FF_GO(ff_mesh_create(&m));
    FF_GO(read_whole(f, opts, m));
    *out = m;
    m = NULL;
done:
    ff_mesh_destroy(&m);
    (void)ff_h5_close(&f);
    return st;
}

/* ---- over ranks ---- */

static ff_status layout_on_root(ff_comm *comm, const char *path, int64_t step, vtkhdf_layout *l)
{
    ff_status st = FF_OK;
    *l = (vtkhdf_layout){0};
    if (comm->rank == 0) {
        ff_h5 *f;
        st = ff_h5_open(ff_comm_self(), path, &f);
        if (st == FF_OK) st = vtkhdf_layout_read(f, step, l);
        (void)ff_h5_close(&f);
    }
    FF_TRY(ff_agree(comm, st));
    st = vtkhdf_layout_bcast(comm, l);
    if (st != FF_OK) vtkhdf_layout_free(l);
    return st;
}

/* This rank's polygons, with the file's point numbers. */
static ff_status share_cells(const ff_h5 *f, ff_comm *comm, const vtkhdf_layout *l, ff_mesh *m)
{
    ff_pd pd = {.path = ff_h5_path(f), .prefix = "part"};
    int64_t n = l->head.n_cells[FF_PD_POLYS], *made = NULL, *row = NULL;
    kind_rows rows = {.begin = ff_share_begin(n, comm->rank, comm->size),
                      .end = ff_share_begin(n, comm->rank + 1, comm->size)};
    ff_status st = new_pieces(l, &pd);
    if (st == FF_OK) st = FF_NEW(made, l->head.n_parts);
    for (int64_t p = 0; st == FF_OK && p < l->head.n_parts; p++) made[p] = l->part[p].n_cells[FF_PD_POLYS];
    pd.n_made = made;
    FF_GO(ff_agree(comm, st));
    FF_GO(read_kind(f, comm, l, FF_PD_POLYS, &rows, pd.piece));
    FF_GO(ff_agree(comm, ff_pd_cells(&pd, m, &row)));
    m->cell_begin = rows.begin;
    m->n_cells_global = n;
done:
    ff_free(row); /* polygons alone: always NULL */
    ff_free(made);
    kind_rows_free(&rows);
    ff_free(pd.piece);
    return st;
}

static ff_status read_share(const ff_h5 *f, ff_comm *comm, const vtkhdf_layout *l, const ff_read_opts *opts,
                            ff_mesh *m)
{
    int64_t n = l->head.n_points, begin = ff_share_begin(n, comm->rank, comm->size);
    int64_t count = ff_share_begin(n, comm->rank + 1, comm->size) - begin;
    FF_TRY(share_cells(f, comm, l, m));
    int64_t cell_begin = m->cell_begin, n_cells_global = m->n_cells_global;
    FF_TRY(read_points(f, comm, l, begin, count, m));
    FF_TRY(read_fields(f, comm, l, true, begin, count, m, NULL));
    FF_TRY(read_fields(f, comm, l, false, cell_begin, m->n_cells, m, NULL));
    FF_TRY(ff_pd_restore_patches(comm, m, l->patch_names));
    FF_TRY(ff_mesh_localise(comm, m, n));
    FF_TRY(ff_agree(comm, ff_mesh_finish(m, ff_h5_path(f), opts)));
    m->cell_begin = cell_begin;
    m->n_cells_global = n_cells_global;
    return FF_OK;
}

ff_status ff_vtkhdf_read_shared(ff_comm *comm, const char *path, const ff_read_opts *opts, bool *done_here,
                                ff_mesh **out)
{
    vtkhdf_layout l;
    ff_h5 *f = NULL;
    ff_mesh *m = NULL;
    ff_status st;
    *out = NULL;
    *done_here = false;
    if (!ff_h5_can_share(comm)) return FF_OK;
    FF_TRY(layout_on_root(comm, path, opts->step, &l));
    const int64_t *n = l.head.n_cells;
    if (n[FF_PD_POLYS] == 0 || n[FF_PD_VERTS] + n[FF_PD_LINES] + n[FF_PD_STRIPS] > 0) goto done_ok;
    FF_GO(ff_h5_open(comm, path, &f));
    FF_GO(ff_agree(comm, ff_mesh_create(&m)));
    FF_GO(read_share(f, comm, &l, opts, m));
    *out = m;
    m = NULL;
    *done_here = true;
done_ok:
    st = FF_OK;
done:
    ff_mesh_destroy(&m);
    if (f != NULL) (void)ff_h5_close(&f);
    vtkhdf_layout_free(&l);
    return st;
}
