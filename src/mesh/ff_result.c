#include "ff_result.h"

#include "ff_io.h"
#include "ff_mem.h"
#include "ff_mesh_dist.h"
#include "ff_result_impl.h"
#include "ff_text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- names ---- */

typedef ff_status writer(const rs_data *d);

static writer *writer_of(const char *path)
{
    static const struct {
        const char *ext;
        writer *write;
    } known[] = {{".vtkhdf", rs_write_vtkhdf}, {".vtp", rs_write_vtp}, {".h5", rs_write_h5}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(dot, known[i].ext) == 0) return known[i].write;
    return NULL;
}

ff_status ff_result_check_path(ff_comm *comm, const char *path, bool force)
{
    if (writer_of(path) == NULL)
        return ff_fail(FF_E_INPUT,
                       "%s: unknown kind of output, expected a name that ends in .vtkhdf, .vtp or .h5", path);
    return ff_io_check_path(comm, path, force);
}

/* `/` separates groups and `.` misleads readers; equal names get a number. */
static void clean_name(rs_data *d, rs_field *f, const char *given)
{
    char base[200];
    (void)snprintf(f->original, sizeof f->original, "%s", given);
    (void)snprintf(base, sizeof base, "%s", given[0] != 0 ? given : "field");
    for (char *p = base; *p != 0; p++)
        if (*p == '/' || *p == '.' || (unsigned char)*p < 32) *p = '_';
    (void)snprintf(f->name, sizeof f->name, "%s", base);
    for (int n = 2;; n++) {
        bool taken = false;
        for (const rs_field *o = d->field; o < f; o++)
            taken |= o->of_points == f->of_points && strcmp(o->name, f->name) == 0;
        if (!taken) break;
        (void)snprintf(f->name, sizeof f->name, "%s_%d", base, n);
    }
}

/* ---- who writes what ---- */

/* Sum of n over the lower ranks, and over all. */
static ff_status place(ff_comm *comm, int64_t n, int64_t *before, int64_t *all)
{
    int64_t *each = NULL;
    FF_TRY(FF_NEW_ALL(comm, each, comm->size));
    ff_status st = ff_comm_allgather(comm, &n, sizeof n, each);
    *before = *all = 0;
    for (int i = 0; i < comm->size; i++) {
        if (i < comm->rank) *before += each[i];
        *all += each[i];
    }
    ff_free(each);
    return st;
}

static void add_field(rs_data *d, const ff_result_field *g, bool of_points)
{
    rs_field *f = &d->field[d->n_fields];
    *f = (rs_field){.of_points = of_points, .n_comp = g->n_comp, .type = g->type, .value = g->value};
    clean_name(d, f, g->name);
    f->row0 = of_points ? d->point0 : d->cell0;
    f->n_rows = of_points ? d->n_own : d->n_own_cells;
    f->n_global = of_points ? d->n_points : d->n_cells;
    d->n_fields++;
}

static ff_status list_fields(rs_data *d)
{
    const ff_result *r = d->r;
    FF_TRY(FF_NEW0(d->field, r->n_cell_fields + r->n_point_fields + 1));
    if (r->n_patches > 1) {
        ff_text names = {0};
        for (int i = 0; i < r->n_patches; i++) {
            for (const char *p = r->patch_name[i]; *p != 0; p++) ff_text_put(&names, *p == '\n' ? " " : p, 1);
            ff_text_put(&names, "\n", 1);
        }
        FF_TRY(ff_text_status(&names));
        d->patch_names = names.s;
        add_field(d, &(ff_result_field){FF_PD_PATCH_ID, 1, FF_H5_I32, r->cell_patch}, false);
    }
    for (int i = 0; i < r->n_cell_fields; i++) add_field(d, &r->cell_field[i], false);
    for (int i = 0; i < r->n_point_fields; i++) add_field(d, &r->point_field[i], true);
    return FF_OK;
}

/* Point numbers of the cells, and where each cell ends. */
static ff_status number_cells(rs_data *d)
{
    const ff_result *r = d->r;
    FF_TRY(FF_NEW(d->conn, d->n_own_conn));
    FF_TRY(FF_NEW(d->ends, d->n_own_cells));
    int64_t size = r->dim == 0 ? 1 : r->dim;
    for (int64_t i = 0; i < d->n_own_conn; i++) {
        int64_t id = r->dim == 0 ? i : r->cell_pts[i];
        d->conn[i] = r->point_gid != NULL ? r->point_gid[id] : d->point0 + id;
    }
    for (int64_t c = 0; c < d->n_own_cells; c++)
        d->ends[c] = d->conn0 + (r->cell_off != NULL ? r->cell_off[c + 1] : size * (c + 1));
    return FF_OK;
}

/* ---- points that several ranks hold, to the ranks that write them ---- */

typedef struct {
    rs_data *d;
    size_t row;                   /* bytes of a row: number, coordinates, values of all point fields */
    size_t *out_bytes, *in_bytes; /* [size] */
    unsigned char *out, *in;
    size_t n_in;         /* bytes received */
    unsigned char *seen; /* [n_own] */
} point_move;

static size_t value_bytes(const rs_field *f)
{
    return (size_t)f->n_comp * ff_h5_type_size(f->type);
}

static ff_status pack_points(point_move *m)
{
    rs_data *d = m->d;
    const ff_result *r = d->r;
    int size = d->comm->size, to = 0;
    FF_TRY(FF_NEW0(m->out_bytes, size));
    FF_TRY(FF_NEW0(m->in_bytes, size));
    FF_TRY(FF_NEW(m->out, (size_t)r->n_points * m->row));
    unsigned char *at = m->out;
    for (int64_t i = 0; i < r->n_points; i++) {
        if (r->point_gid[i] < 0 || r->point_gid[i] >= d->n_points ||
            (i > 0 && r->point_gid[i] <= r->point_gid[i - 1]))
            return ff_fail(FF_E_INTERNAL, "point number %lld out of order", (long long)r->point_gid[i]);
        while (r->point_gid[i] >= ff_share_begin(d->n_points, to + 1, size)) to++;
        m->out_bytes[to] += m->row;
        memcpy(at, &r->point_gid[i], 8);
        memcpy(at + 8, r->points + 3 * i, 24);
        at += 32;
        for (int k = 0; k < d->n_fields; k++) {
            if (!d->field[k].of_points) continue;
            size_t n = value_bytes(&d->field[k]);
            memcpy(at, (const unsigned char *)d->field[k].value + (size_t)i * n, n);
            at += n;
        }
    }
    return FF_OK;
}

static ff_status room_for_points(point_move *m)
{
    rs_data *d = m->d;
    for (int r = 0; r < d->comm->size; r++) m->n_in += m->in_bytes[r];
    FF_TRY(FF_NEW(m->in, m->n_in));
    FF_TRY(FF_NEW0(m->seen, d->n_own));
    FF_TRY(FF_NEW(d->own_xyz, 3 * d->n_own));
    for (int k = 0; k < d->n_fields; k++) {
        if (!d->field[k].of_points) continue;
        d->field[k].own = ff_mem_alloc((size_t)d->n_own, value_bytes(&d->field[k]));
        if (d->field[k].own == NULL) return FF_E_MEM;
    }
    return FF_OK;
}

/* Copies of a point are equal; those of the highest rank stay. */
static ff_status unpack_points(point_move *m)
{
    rs_data *d = m->d;
    for (const unsigned char *at = m->in; at < m->in + m->n_in;) {
        int64_t gid;
        memcpy(&gid, at, 8);
        gid -= d->point0;
        memcpy(d->own_xyz + 3 * gid, at + 8, 24);
        m->seen[gid] = 1;
        at += 32;
        for (int k = 0; k < d->n_fields; k++) {
            if (!d->field[k].of_points) continue;
            size_t n = value_bytes(&d->field[k]);
            memcpy((unsigned char *)d->field[k].own + (size_t)gid * n, at, n);
            at += n;
        }
    }
    for (int64_t i = 0; i < d->n_own; i++)
        if (!m->seen[i])
            return ff_fail(FF_E_INTERNAL, "point %lld is on no rank", (long long)(d->point0 + i));
    d->xyz = d->own_xyz;
    for (int k = 0; k < d->n_fields; k++)
        if (d->field[k].of_points) d->field[k].value = d->field[k].own;
    return FF_OK;
}

static ff_status gather_points(rs_data *d)
{
    point_move m = {.d = d, .row = 32};
    ff_status st;
    for (int k = 0; k < d->n_fields; k++) m.row += d->field[k].of_points ? value_bytes(&d->field[k]) : 0;
    FF_GO(ff_agree(d->comm, pack_points(&m)));
    FF_GO(ff_comm_alltoall_counts(d->comm, m.out_bytes, m.in_bytes));
    FF_GO(ff_agree(d->comm, room_for_points(&m)));
    FF_GO(ff_comm_alltoallv(d->comm, m.out, m.out_bytes, m.in, m.in_bytes));
    FF_GO(ff_agree(d->comm, unpack_points(&m)));
done:
    ff_free(m.out_bytes);
    ff_free(m.in_bytes);
    ff_free(m.out);
    ff_free(m.in);
    ff_free(m.seen);
    return st;
}

/* ---- preparation ---- */

static ff_status places(rs_data *d)
{
    const ff_result *r = d->r;
    ff_comm *c = d->comm;
    d->kind = r->dim == 3 ? FF_PD_POLYS : r->dim == 2 ? FF_PD_LINES : FF_PD_VERTS;
    d->xyz = r->points;
    d->n_own = r->n_points;
    FF_TRY(place(c, r->n_points, &d->point0, &d->n_points));
    if (r->point_gid != NULL) {
        d->n_points = r->n_points_global;
        d->point0 = ff_share_begin(d->n_points, c->rank, c->size);
        d->n_own = ff_share_begin(d->n_points, c->rank + 1, c->size) - d->point0;
    }
    d->n_own_cells = r->dim == 0 ? r->n_points : r->n_cells;
    d->n_own_conn = r->dim == 0           ? r->n_points
                    : r->cell_off != NULL ? r->cell_off[r->n_cells]
                                          : r->dim * r->n_cells;
    FF_TRY(place(c, d->n_own_cells, &d->cell0, &d->n_cells));
    return place(c, d->n_own_conn, &d->conn0, &d->n_conn);
}

static ff_status take_texts(rs_data *d)
{
    const ff_result *r = d->r;
    FF_TRY(FF_NEW0_ALL(d->comm, d->text, r->n_texts));
    for (int i = 0; i < r->n_texts; i++) {
        int64_t n = d->comm->rank == 0 ? (int64_t)strlen(r->text[i].text) + 1 : 0;
        FF_TRY(ff_comm_bcast(d->comm, &n, sizeof n, 0));
        FF_TRY(FF_NEW_ALL(d->comm, d->text[i], n));
        if (d->comm->rank == 0) memcpy(d->text[i], r->text[i].text, (size_t)n);
        FF_TRY(ff_comm_bcast(d->comm, d->text[i], (size_t)n, 0));
    }
    return FF_OK;
}

/* Coordinates that float32 holds exactly are stored so: nothing is lost, half the bytes. */
static ff_status choose_float(rs_data *d)
{
    int64_t exact = 1;
    for (int64_t i = 0; exact && i < 3 * d->n_own; i++) exact = (double)(float)d->xyz[i] == d->xyz[i];
    FF_TRY(ff_comm_allreduce(d->comm, &exact, 1, FF_MIN_I64));
    d->points_float32 = exact != 0;
    return FF_OK;
}

ff_status rs_xyz_f32(const rs_data *d, float **out)
{
    FF_TRY(FF_NEW_ALL(d->comm, *out, 3 * d->n_own));
    for (int64_t i = 0; i < 3 * d->n_own; i++) (*out)[i] = (float)d->xyz[i];
    return FF_OK;
}

static ff_status prepare(rs_data *d)
{
    FF_TRY(places(d));
    FF_TRY(ff_agree(d->comm, list_fields(d)));
    FF_TRY(ff_agree(d->comm, number_cells(d)));
    if (d->r->point_gid != NULL) FF_TRY(gather_points(d));
    FF_TRY(take_texts(d));
    return choose_float(d);
}

static void release(rs_data *d)
{
    for (int k = 0; k < d->n_fields; k++) ff_free(d->field[k].own);
    for (int i = 0; d->text != NULL && i < d->r->n_texts; i++) ff_free(d->text[i]);
    ff_free(d->field);
    ff_free(d->text);
    ff_free(d->patch_names);
    ff_free(d->own_xyz);
    ff_free(d->conn);
    ff_free(d->ends);
}

/* ---- entry points ---- */

ff_result ff_result_of_mesh(const ff_mesh *m)
{
    return (ff_result){.dim = m->dim,
                       .n_points = m->n_points,
                       .points = m->points,
                       .point_gid = m->point_gid,
                       .n_points_global = m->n_points_global,
                       .n_cells = m->n_cells,
                       .cell_off = m->cell_off,
                       .cell_pts = m->cell_pts,
                       .n_patches = m->n_patches,
                       .patch_name = m->patch_name,
                       .cell_patch = m->cell_patch};
}

ff_status ff_result_write(ff_comm *comm, const ff_result *r, const char *path, bool force)
{
    char *tmp = NULL;
    rs_data d = {.comm = comm, .r = r};
    FF_TRY(ff_result_check_path(comm, path, force));
    ff_status st;
    FF_GO(ff_agree(comm, ff_io_tmp_name(path, &tmp)));
    d.path = tmp;
    FF_GO(prepare(&d));
    st = writer_of(path)(&d);
    if (st == FF_OK)
        st = ff_agree(comm, comm->rank == 0 ? ff_io_publish(tmp, path) : FF_OK);
    else if (comm->rank == 0)
        ff_io_discard(tmp);
done:
    release(&d);
    ff_free(tmp);
    return st;
}

static ff_status fields_of(const ff_field_set *s, ff_result_field **out)
{
    FF_TRY(FF_NEW(*out, s->n));
    for (int i = 0; i < s->n; i++)
        (*out)[i] = (ff_result_field){s->field[i].name, s->field[i].n_comp, FF_H5_F64, s->field[i].value};
    return FF_OK;
}

ff_status ff_result_write_mesh(ff_comm *comm, const ff_mesh *m, const ff_result_text *text, int n_texts,
                               const char *path, bool force)
{
    ff_result r = ff_result_of_mesh(m);
    ff_result_field *cells = NULL, *points = NULL;
    ff_status st = fields_of(&m->cell_data, &cells);
    if (st == FF_OK) st = fields_of(&m->point_data, &points);
    FF_GO(ff_agree(comm, st));
    r.cell_field = cells;
    r.point_field = points;
    r.n_cell_fields = m->cell_data.n;
    r.n_point_fields = m->point_data.n;
    r.text = text;
    r.n_texts = n_texts;
    FF_GO(ff_result_write(comm, &r, path, force));
done:
    ff_free(cells);
    ff_free(points);
    return st;
}
