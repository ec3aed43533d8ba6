#include "ff_log.h"
#include "ff_mem.h"
#include "ff_vtkhdf_impl.h"

#include <stdio.h>
#include <string.h>

const char *const vtkhdf_kind[FF_PD_KINDS] = {"Vertices", "Lines", "Polygons", "Strips"};

enum { MAX_COUNT_LOG2 = 36 }; /* of points or cells of a part: keeps sums over 2^22 parts far below 2^63 */

void vtkhdf_layout_free(vtkhdf_layout *l)
{
    ff_free(l->part);
    ff_free(l->field);
    ff_free(l->patch_names);
    *l = (vtkhdf_layout){0};
}

/* ---- what kind of file is it ---- */

static ff_status is_plain(const ff_h5 *f, bool *plain)
{
    char *format = NULL;
    *plain = false;
    if (ff_h5_exists(f, "/VTKHDF") || !ff_h5_attr_exists(f, "/", "format")) return FF_OK;
    FF_TRY(ff_h5_attr_read_text(f, "/", "format", &format));
    *plain = strcmp(format, VTKHDF_PLAIN) == 0;
    ff_free(format);
    return FF_OK;
}

/* Major versions 1 and 2; a file without Version is taken for one of them. */
static ff_status check_version(const ff_h5 *f)
{
    int64_t v[2] = {0, 0};
    if (!ff_h5_attr_exists(f, "/VTKHDF", "Version")) return FF_OK;
    FF_TRY(ff_h5_attr_read(f, "/VTKHDF", "Version", FF_H5_I64, 2, v));
    if (v[0] <= 2) return FF_OK;
    return ff_fail(FF_E_UNSUPPORTED, "%s: /VTKHDF: Version %lld.%lld, expected 1 or 2; write it in version 2",
                   ff_h5_path(f), (long long)v[0], (long long)v[1]);
}

static ff_status check_type(const ff_h5 *f)
{
    char *type = NULL;
    if (!ff_h5_exists(f, "/VTKHDF"))
        return ff_fail(FF_E_INPUT, "%s: an HDF5 file without group /VTKHDF, expected VTKHDF PolyData or CGNS",
                       ff_h5_path(f));
    FF_TRY(ff_h5_attr_read_text(f, "/VTKHDF", "Type", &type));
    ff_status st = FF_OK;
    if (strcmp(type, "PolyData") != 0)
        st = ff_fail(FF_E_INPUT, "%s: /VTKHDF: Type \"%.40s\", expected PolyData; extract the surface first",
                     ff_h5_path(f), type);
    ff_free(type);
    return st == FF_OK ? check_version(f) : st;
}

/* ---- rows of small integer arrays ---- */

static ff_status check_count(const ff_h5 *f, const char *name, int64_t row, int64_t v)
{
    if (v >= 0 && v <= (int64_t)1 << MAX_COUNT_LOG2) return FF_OK;
    return ff_fail(FF_E_INPUT, "%s: %s[%lld] = %lld, expected 0 to 2^%d", ff_h5_path(f), name, (long long)row,
                   (long long)v, MAX_COUNT_LOG2);
}

/* One entry of a dataset of shape [n] or [n][columns]; otherwise if the dataset is missing. */
static ff_status read_entry(const ff_h5 *f, const char *name, int64_t row, int column, int64_t otherwise,
                            int64_t *out)
{
    ff_h5_shape s;
    int64_t v[8];
    *out = otherwise;
    if (!ff_h5_exists(f, name)) return FF_OK;
    FF_TRY(ff_h5_shape_of(f, name, &s));
    if (s.row_len <= column || s.row_len > 8)
        return ff_fail(FF_E_INPUT, "%s: %s has %lld columns, expected at least %d", ff_h5_path(f), name,
                       (long long)s.row_len, column + 1);
    FF_TRY(ff_h5_read(f, name, FF_H5_I64, row, 1, v));
    *out = v[column];
    return check_count(f, name, row, *out);
}

/* Rows [row0, row0 + n) of a one-dimensional dataset of counts, to every stride-th int64 of out. */
static ff_status read_counts(const ff_h5 *f, const char *name, int64_t row0, int64_t n, int64_t *out,
                             int64_t stride)
{
    int64_t *v = NULL;
    ff_h5_shape s;
    FF_TRY(ff_h5_shape_of(f, name, &s));
    if (s.row_len != 1 || row0 > s.dim[0] - n)
        return ff_fail(FF_E_INPUT, "%s: %s has %lld x %lld entries, expected at least %lld", ff_h5_path(f),
                       name, (long long)s.dim[0], (long long)s.row_len, (long long)(row0 + n));
    ff_status st = FF_NEW(v, n);
    if (st == FF_OK) st = ff_h5_read(f, name, FF_H5_I64, row0, n, v);
    for (int64_t i = 0; st == FF_OK && i < n; i++) {
        st = check_count(f, name, row0 + i, v[i]);
        out[i * stride] = v[i];
    }
    ff_free(v);
    return st;
}

static const char *join(char *buf, size_t n, const char *a, const char *b)
{
    (void)snprintf(buf, n, "/VTKHDF/%s%s", a, b);
    return buf;
}

/* ---- time step ---- */

typedef struct {
    bool temporal;
    int64_t part0, cell0[FF_PD_KINDS], cell_row0; /* cell_row0: rows of cell data before this step */
} step_place;

static ff_status find_step(const ff_h5 *f, int64_t step, vtkhdf_layout *l, step_place *p)
{
    int64_t n_steps = 1;
    *p = (step_place){.temporal = ff_h5_attr_exists(f, "/VTKHDF/Steps", "NSteps")};
    if (p->temporal) FF_TRY(ff_h5_attr_read(f, "/VTKHDF/Steps", "NSteps", FF_H5_I64, 1, &n_steps));
    if (step < 0 || step >= n_steps)
        return ff_fail(FF_E_INPUT, "%s: step = %lld, expected 0 <= step < %lld", ff_h5_path(f),
                       (long long)step, (long long)n_steps);
    ff_h5_shape s;
    FF_TRY(ff_h5_shape_of(f, "/VTKHDF/NumberOfPoints", &s));
    l->head.n_parts = s.dim[0];
    if (!p->temporal) return FF_OK;
    FF_TRY(read_entry(f, "/VTKHDF/Steps/PartOffsets", step, 0, 0, &p->part0));
    FF_TRY(read_entry(f, "/VTKHDF/Steps/NumberOfParts", step, 0, s.dim[0], &l->head.n_parts));
    FF_TRY(read_entry(f, "/VTKHDF/Steps/PointOffsets", step, 0, 0, &l->head.point_row0));
    for (int k = 0; k < FF_PD_KINDS; k++) {
        FF_TRY(read_entry(f, "/VTKHDF/Steps/CellOffsets", step, k, 0, &p->cell0[k]));
        FF_TRY(read_entry(f, "/VTKHDF/Steps/ConnectivityIdOffsets", step, k, 0, &l->head.conn_row0[k]));
        p->cell_row0 += p->cell0[k];
    }
    return FF_OK;
}

/* Whether row of Offsets can be where the first part of this step begins. */
static ff_status begins_here(const ff_h5 *f, const char *offsets, int64_t row, const vtkhdf_layout *l, int k,
                             bool *yes)
{
    int64_t first = -1, last = -1, cells = l->part[0].n_cells[k];
    ff_h5_shape s;
    FF_TRY(ff_h5_shape_of(f, offsets, &s));
    *yes = false;
    if (row > s.dim[0] - cells - 1) return FF_OK;
    FF_TRY(ff_h5_read(f, offsets, FF_H5_I64, row, 1, &first));
    FF_TRY(ff_h5_read(f, offsets, FF_H5_I64, row + cells, 1, &last));
    *yes = first == 0 && last == l->part[0].n_conn[k];
    return FF_OK;
}

/* Offsets hold one entry more than cells for each part, so the row of a step is its CellOffsets plus the
 * number of parts stored before. Steps may share cells (then all their CellOffsets are equal while
 * PartOffsets grow): that number is the one whose parts hold CellOffsets cells. Parts without cells leave a
 * choice; the content decides. */
static ff_status find_offsets_row(const ff_h5 *f, const step_place *p, int k, vtkhdf_layout *l)
{
    char name[64];
    int64_t *before = NULL, sum = 0, parts = 0;
    bool found = false;
    l->head.off_row0[k] = p->cell0[k];
    if (p->cell0[k] == 0 || l->head.n_parts == 0) return FF_OK;
    ff_status st = FF_NEW(before, p->part0);
    if (st == FF_OK)
        st =
            read_counts(f, join(name, sizeof name, vtkhdf_kind[k], "/NumberOfCells"), 0, p->part0, before, 1);
    join(name, sizeof name, vtkhdf_kind[k], "/Offsets");
    while (st == FF_OK && parts < p->part0 && sum < p->cell0[k]) sum += before[parts++];
    for (; st == FF_OK && sum == p->cell0[k] && !found; parts++) {
        st = begins_here(f, name, p->cell0[k] + parts, l, k, &found);
        if (found) l->head.off_row0[k] = p->cell0[k] + parts;
        if (parts == p->part0 || before[parts] != 0) break;
    }
    ff_free(before);
    if (st == FF_OK && !found)
        return ff_fail(FF_E_INPUT, "%s: %s: no part begins at cell %lld, where Steps/CellOffsets says",
                       ff_h5_path(f), name, (long long)p->cell0[k]);
    return st;
}

/* ---- parts ---- */

/* Whether a dataset holds n rows from row0 on; asked before anything of that size is allocated. */
static ff_status check_rows(const ff_h5 *f, int k, const char *what, int64_t row0, int64_t n)
{
    char name[64];
    ff_h5_shape s;
    (void)snprintf(name, sizeof name, "/VTKHDF/%s/%s", vtkhdf_kind[k], what);
    FF_TRY(ff_h5_shape_of(f, name, &s));
    if (s.kind == FF_H5_INTEGER && s.row_len == 1 && s.dim[0] >= row0 + n) return FF_OK;
    return ff_fail(FF_E_INPUT, "%s: %s has %lld rows of %lld values, expected at least %lld whole numbers",
                   ff_h5_path(f), name, (long long)s.dim[0], (long long)s.row_len, (long long)(row0 + n));
}

static ff_status read_kind(const ff_h5 *f, const step_place *p, int k, vtkhdf_layout *l)
{
    const int64_t stride = sizeof *l->part / sizeof(int64_t);
    char name[64];
    if (!ff_h5_exists(f, join(name, sizeof name, vtkhdf_kind[k], "")))
        return FF_OK; /* strict readers want the group; we do not */
    join(name, sizeof name, vtkhdf_kind[k], "/NumberOfCells");
    FF_TRY(read_counts(f, name, p->part0, l->head.n_parts, &l->part[0].n_cells[k], stride));
    join(name, sizeof name, vtkhdf_kind[k], "/NumberOfConnectivityIds");
    FF_TRY(read_counts(f, name, p->part0, l->head.n_parts, &l->part[0].n_conn[k], stride));
    for (int64_t i = 0; i < l->head.n_parts; i++) {
        l->head.n_cells[k] += l->part[i].n_cells[k];
        l->head.n_conn[k] += l->part[i].n_conn[k];
    }
    if (l->head.n_cells[k] == 0) return FF_OK;
    FF_TRY(find_offsets_row(f, p, k, l));
    FF_TRY(check_rows(f, k, "Offsets", l->head.off_row0[k], l->head.n_cells[k] + 1));
    return check_rows(f, k, "Connectivity", l->head.conn_row0[k], l->head.n_conn[k]);
}

static ff_status check_points(const ff_h5 *f, const char *name, vtkhdf_layout *l)
{
    ff_h5_shape s;
    FF_TRY(ff_h5_shape_of(f, name, &s));
    if (s.row_len != 3 || s.dim[0] < l->head.point_row0 + l->head.n_points)
        return ff_fail(FF_E_INPUT, "%s: %s has %lld rows of %lld, expected %lld rows of 3", ff_h5_path(f),
                       name, (long long)s.dim[0], (long long)s.row_len,
                       (long long)(l->head.point_row0 + l->head.n_points));
    l->head.points_float32 = s.kind == FF_H5_FLOAT && s.elem_bytes == 4 && l->head.n_points > 0;
    return FF_OK;
}

static ff_status read_parts(const ff_h5 *f, const step_place *p, vtkhdf_layout *l)
{
    const int64_t stride = sizeof *l->part / sizeof(int64_t);
    if (l->head.n_parts > 1 << 22)
        return ff_fail(FF_E_INPUT, "%s: %lld parts, expected at most 2^22", ff_h5_path(f),
                       (long long)l->head.n_parts);
    FF_TRY(FF_NEW0(l->part, l->head.n_parts + 1));
    FF_TRY(read_counts(f, "/VTKHDF/NumberOfPoints", p->part0, l->head.n_parts, &l->part[0].n_points, stride));
    for (int64_t i = 0; i < l->head.n_parts; i++) l->head.n_points += l->part[i].n_points;
    for (int k = 0; k < FF_PD_KINDS; k++) FF_TRY(read_kind(f, p, k, l));
    return check_points(f, "/VTKHDF/Points", l);
}

/* Our own .h5: one part, all cells of one kind. */
static ff_status read_plain(const ff_h5 *f, vtkhdf_layout *l)
{
    ff_h5_shape points, off, conn;
    int64_t dim;
    FF_TRY(ff_h5_attr_read(f, "/", "dim", FF_H5_I64, 1, &dim));
    FF_TRY(ff_h5_shape_of(f, "/points", &points));
    FF_TRY(ff_h5_shape_of(f, "/cells/offsets", &off));
    FF_TRY(ff_h5_shape_of(f, "/cells/connectivity", &conn));
    if (off.row_len != 1 || conn.row_len != 1 || off.dim[0] < 1)
        return ff_fail(FF_E_INPUT, "%s: cells: expected rows of one number", ff_h5_path(f));
    int k = dim == 3 ? FF_PD_POLYS : dim == 2 ? FF_PD_LINES : FF_PD_VERTS;
    FF_TRY(FF_NEW0(l->part, 2));
    l->head.plain = true;
    l->head.n_parts = 1;
    l->head.n_points = l->part->n_points = points.dim[0];
    l->head.n_cells[k] = l->part->n_cells[k] = off.dim[0] - 1;
    l->head.n_conn[k] = l->part->n_conn[k] = conn.dim[0];
    return check_points(f, "/points", l);
}

/* ---- fields ---- */

static ff_status note_field(const ff_h5 *f, const char *group, bool of_points, const char *name, int64_t step,
                            const step_place *p, vtkhdf_layout *l)
{
    ff_h5_shape s;
    char offsets[600], *original = NULL;
    vtkhdf_field *field = &l->field[l->head.n_fields];
    *field = (vtkhdf_field){.of_points = of_points};
    if (strlen(name) >= sizeof field->name)
        return ff_fail(FF_E_INPUT, "%s: %s: a name of %zu characters", ff_h5_path(f), group, strlen(name));
    (void)snprintf(field->dataset, sizeof field->dataset, "%s/%s", group, name);
    FF_TRY(ff_h5_shape_of(f, field->dataset, &s));
    if (s.kind != FF_H5_INTEGER && s.kind != FF_H5_FLOAT) return FF_OK; /* text and the like */
    int64_t rows = l->head.n_points;
    field->row0 = of_points ? l->head.point_row0 : p->cell_row0;
    for (int k = 0; !of_points && k < FF_PD_KINDS; k++) rows = (k == 0 ? 0 : rows) + l->head.n_cells[k];
    (void)snprintf(offsets, sizeof offsets, "/VTKHDF/Steps/%sOffsets/%s",
                   of_points ? "PointData" : "CellData", name);
    if (p->temporal) FF_TRY(read_entry(f, offsets, step, 0, field->row0, &field->row0));
    if (s.row_len < 1 || s.row_len > 1000000 || s.dim[0] < field->row0 + rows)
        return ff_fail(FF_E_INPUT, "%s: %s has %lld rows of %lld values, expected %lld rows", ff_h5_path(f),
                       field->dataset, (long long)s.dim[0], (long long)s.row_len,
                       (long long)(field->row0 + rows));
    field->n_comp = (int)s.row_len;
    memcpy(field->name, name, strlen(name) + 1);
    if (ff_h5_attr_exists(f, field->dataset, "original_name")) {
        FF_TRY(ff_h5_attr_read_text(f, field->dataset, "original_name", &original));
        if (strlen(original) < sizeof field->name) memcpy(field->name, original, strlen(original) + 1);
        ff_free(original);
    }
    l->head.n_fields++;
    return FF_OK;
}

static ff_status note_fields(const ff_h5 *f, const char *group, bool of_points, int64_t step,
                             const step_place *p, vtkhdf_layout *l)
{
    char **names = NULL;
    int n = 0;
    ff_status st;
    if (!ff_h5_exists(f, group)) return FF_OK;
    FF_GO(ff_h5_list(f, group, &names, &n));
    vtkhdf_field *grown = ff_mem_resize(l->field, (size_t)(l->head.n_fields + n), sizeof *grown);
    if (grown == NULL) FF_GO(FF_E_MEM);
    l->field = grown;
    for (int i = 0; i < n; i++) FF_GO(note_field(f, group, of_points, names[i], step, p, l));
done:
    ff_h5_names_free(&names, n);
    return st;
}

static ff_status note_texts(const ff_h5 *f, vtkhdf_layout *l)
{
    static const char name[] = "/farfield/" FF_PD_PATCH_NAMES;
    if (ff_h5_exists(f, name))
        FF_TRY(ff_h5_read_text(f, name, &l->patch_names));
    else if ((l->patch_names = ff_strdup("")) == NULL)
        return FF_E_MEM;
    l->head.n_names = (int64_t)strlen(l->patch_names) + 1;
    return FF_OK;
}

static ff_status read_all(const ff_h5 *f, int64_t step, vtkhdf_layout *l)
{
    step_place p = {0};
    bool plain;
    FF_TRY(is_plain(f, &plain));
    if (plain && step != 0)
        return ff_fail(FF_E_INPUT, "%s: step = %lld, but the file has one step; expected 0", ff_h5_path(f),
                       (long long)step);
    if (plain) {
        FF_TRY(read_plain(f, l));
    } else {
        FF_TRY(check_type(f));
        FF_TRY(find_step(f, step, l, &p));
        FF_TRY(read_parts(f, &p, l));
    }
    FF_TRY(note_fields(f, plain ? "/point_data" : "/VTKHDF/PointData", true, step, &p, l));
    FF_TRY(note_fields(f, plain ? "/cell_data" : "/VTKHDF/CellData", false, step, &p, l));
    return note_texts(f, l);
}

ff_status vtkhdf_layout_read(const ff_h5 *f, int64_t step, vtkhdf_layout *out)
{
    *out = (vtkhdf_layout){0};
    ff_status st = read_all(f, step, out);
    if (st != FF_OK) vtkhdf_layout_free(out);
    return st;
}

ff_status vtkhdf_layout_bcast(ff_comm *comm, vtkhdf_layout *l)
{
    ff_status st = FF_OK;
    FF_TRY(ff_comm_bcast(comm, &l->head, sizeof l->head, 0));
    if (comm->rank != 0) {
        l->part = NULL;
        l->field = NULL;
        l->patch_names = NULL;
        st = FF_NEW(l->part, l->head.n_parts + 1);
        if (st == FF_OK) st = FF_NEW(l->field, l->head.n_fields);
        if (st == FF_OK) st = FF_NEW(l->patch_names, l->head.n_names);
    }
    st = ff_agree(comm, st);
    if (st == FF_OK) st = ff_comm_bcast(comm, l->part, (size_t)(l->head.n_parts + 1) * sizeof *l->part, 0);
    if (st == FF_OK) st = ff_comm_bcast(comm, l->field, (size_t)l->head.n_fields * sizeof *l->field, 0);
    if (st == FF_OK) st = ff_comm_bcast(comm, l->patch_names, (size_t)l->head.n_names, 0);
    if (st != FF_OK && comm->rank != 0) vtkhdf_layout_free(l);
    return st;
}
