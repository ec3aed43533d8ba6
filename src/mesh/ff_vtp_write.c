/* Writes VTP with raw appended data, UInt64 headers, little-endian. Rank 0 holds the file and receives the
 * rows of the others in pieces of bounded size. */
#include "ff_io.h"
#include "ff_mem.h"
#include "ff_result_impl.h"
#include "ff_text.h"

#include <string.h>

enum { PIECE = 1 << 24 }; /* bytes of a message and of rank 0's buffer */

typedef struct {
    const rs_data *d;
    FILE *f;        /* on rank 0 */
    char *buffer;   /* on rank 0 [PIECE] */
    int64_t *bytes; /* [size] */
    ff_text xml;
    uint64_t offset; /* of the next array in the appended data */
} vtp_out;

/* ---- the XML part ---- */

static void put_escaped(ff_text *t, const char *s)
{
    for (; *s != 0; s++) {
        if (*s == '&')
            ff_text_put(t, "&amp;", 5);
        else if (*s == '<')
            ff_text_put(t, "&lt;", 4);
        else if (*s == '>')
            ff_text_put(t, "&gt;", 4);
        else if (*s == '"')
            ff_text_put(t, "&quot;", 6);
        else
            ff_text_put(t, s, 1);
    }
}

static const char *type_name(ff_h5_type t)
{
    static const char *const name[] = {"Float32", "Float64", "Int32", "Int64", "UInt8"};
    return name[t];
}

static void put_array(vtp_out *o, const char *name, const char *original, ff_h5_type t, int n_comp,
                      int64_t n_rows)
{
    ff_text_add(&o->xml, "<DataArray type=\"%s\" Name=\"", type_name(t));
    put_escaped(&o->xml, name);
    if (original != NULL && strcmp(name, original) != 0) {
        ff_text_add(&o->xml, "\" original_name=\"");
        put_escaped(&o->xml, original);
    }
    ff_text_add(&o->xml, "\" NumberOfComponents=\"%d\" format=\"appended\" offset=\"%llu\"/>\n", n_comp,
                (unsigned long long)o->offset);
    o->offset += 8 + (uint64_t)n_rows * (uint64_t)n_comp * ff_h5_type_size(t);
}

/* A text as VTK writes string arrays: its bytes as numbers, a 0 behind each string. */
static void put_string(vtp_out *o, const char *name, const char *text, bool lines)
{
    int64_t n = 1;
    for (const char *p = text; lines && *p != 0; p++) n += *p == '\n' && p[1] != 0;
    ff_text_add(&o->xml, "<Array type=\"String\" Name=\"");
    put_escaped(&o->xml, name);
    ff_text_add(&o->xml, "\" NumberOfTuples=\"%lld\" format=\"ascii\">\n", (long long)n);
    bool open = true; /* the last string still lacks its 0 */
    for (const char *p = text; *p != 0; p++) {
        open = !(lines && *p == '\n');
        ff_text_add(&o->xml, "%d%c", open ? (unsigned char)*p : 0, (p - text) % 20 == 19 ? '\n' : ' ');
    }
    ff_text_add(&o->xml, "%s\n</Array>\n", open ? "0" : "");
}

static void put_fields(vtp_out *o, bool of_points)
{
    const rs_data *d = o->d;
    ff_text_add(&o->xml, of_points ? "<PointData>\n" : "<CellData>\n");
    for (int k = 0; k < d->n_fields; k++) {
        const rs_field *f = &d->field[k];
        if (f->of_points == of_points) put_array(o, f->name, f->original, f->type, f->n_comp, f->n_global);
    }
    ff_text_add(&o->xml, of_points ? "</PointData>\n" : "</CellData>\n");
}

static ff_status compose(vtp_out *o)
{
    const rs_data *d = o->d;
    ff_text *t = &o->xml;
    ff_text_add(
        t, "<?xml version=\"1.0\"?>\n<VTKFile type=\"PolyData\" version=\"1.0\" byte_order=\"LittleEndian\" "
           "header_type=\"UInt64\">\n<PolyData>\n<FieldData>\n");
    put_string(o, "farfield_version", ff_version(), false);
    for (int i = 0; i < d->r->n_texts; i++) put_string(o, d->r->text[i].name, d->text[i], false);
    if (d->patch_names != NULL) put_string(o, FF_PD_PATCH_NAMES, d->patch_names, true);
    ff_text_add(t, "</FieldData>\n<Piece NumberOfPoints=\"%lld\"", (long long)d->n_points);
    for (int k = 0; k < FF_PD_KINDS; k++)
        ff_text_add(t, " NumberOf%s=\"%lld\"", ff_pd_name[k], (long long)(k == d->kind ? d->n_cells : 0));
    ff_text_add(t, ">\n");
    put_fields(o, true);
    put_fields(o, false);
    ff_text_add(t, "<Points>\n");
    put_array(o, "Points", NULL, d->points_float32 ? FF_H5_F32 : FF_H5_F64, 3, d->n_points);
    ff_text_add(t, "</Points>\n<%s>\n", ff_pd_name[d->kind]);
    put_array(o, "connectivity", NULL, FF_H5_I64, 1, d->n_conn);
    put_array(o, "offsets", NULL, FF_H5_I64, 1, d->n_cells);
    ff_text_add(t, "</%s>\n</Piece>\n</PolyData>\n<AppendedData encoding=\"raw\">\n_", ff_pd_name[d->kind]);
    return ff_text_status(t);
}

/* ---- the appended data ---- */

/* Bytes of rank from, piece by piece, through rank 0 into the file. st: what rank 0 has met so far; it goes
 * on receiving after a failure, so that nobody waits. Collective. */
static ff_status pass_rows(vtp_out *o, int from, const char *mine, ff_status *st)
{
    ff_comm *c = o->d->comm;
    for (int64_t at = 0; at < o->bytes[from]; at += PIECE) {
        size_t n = (size_t)(o->bytes[from] - at < PIECE ? o->bytes[from] - at : PIECE);
        ff_msg give = {0, c->rank == from ? (void *)(uintptr_t)(mine + at) : NULL, n},
               take = {from, o->buffer, n};
        ff_request *req;
        FF_TRY(ff_comm_exchange_begin(c, &give, c->rank == from, &take, c->rank == 0, &req));
        FF_TRY(ff_comm_exchange_end(c, &req));
        if (c->rank == 0 && *st == FF_OK) *st = ff_io_put(o->f, o->d->path, o->buffer, n);
    }
    return FF_OK;
}

/* One array: length, then the rows of all ranks in order. Collective. */
static ff_status put_rows(vtp_out *o, const void *rows, int64_t bytes)
{
    ff_comm *c = o->d->comm;
    FF_TRY(ff_comm_allgather(c, &bytes, sizeof bytes, o->bytes));
    uint64_t total = 0;
    for (int r = 0; r < c->size; r++) total += (uint64_t)o->bytes[r];
    ff_status st = c->rank == 0 ? ff_io_put(o->f, o->d->path, &total, sizeof total) : FF_OK;
    if (c->rank == 0 && st == FF_OK) st = ff_io_put(o->f, o->d->path, rows, (size_t)bytes);
    for (int r = 1; r < c->size; r++) FF_TRY(pass_rows(o, r, rows, &st));
    return ff_agree(c, st);
}

static ff_status put_points(vtp_out *o)
{
    const rs_data *d = o->d;
    float *narrow = NULL;
    if (!d->points_float32) return put_rows(o, d->xyz, d->n_own * 3 * (int64_t)sizeof(double));
    FF_TRY(rs_xyz_f32(d, &narrow));
    ff_status st = put_rows(o, narrow, d->n_own * 3 * (int64_t)sizeof(float));
    ff_free(narrow);
    return st;
}

static ff_status put_all(vtp_out *o)
{
    static const char end[] = "\n</AppendedData>\n</VTKFile>\n";
    const rs_data *d = o->d;
    for (int pass = 0; pass < 2; pass++) /* in the order of the XML: point fields, then cell fields */
        for (int k = 0; k < d->n_fields; k++) {
            const rs_field *f = &d->field[k];
            if (f->of_points != (pass == 0)) continue;
            FF_TRY(put_rows(o, f->value, f->n_rows * f->n_comp * (int64_t)ff_h5_type_size(f->type)));
        }
    FF_TRY(put_points(o));
    FF_TRY(put_rows(o, d->conn, d->n_own_conn * (int64_t)sizeof *d->conn));
    FF_TRY(put_rows(o, d->ends, d->n_own_cells * (int64_t)sizeof *d->ends));
    return ff_agree(d->comm, d->comm->rank == 0 ? ff_io_put(o->f, d->path, end, sizeof end - 1) : FF_OK);
}

static ff_status begin(vtp_out *o)
{
    const union {
        uint16_t word;
        unsigned char byte[2];
    } probe = {.word = 1};
    if (probe.byte[0] != 1)
        return ff_fail(FF_E_UNSUPPORTED, "%s: VTP is written on little-endian machines only", o->d->path);
    FF_TRY(FF_NEW(o->bytes, o->d->comm->size));
    if (o->d->comm->rank != 0) return FF_OK;
    FF_TRY(FF_NEW(o->buffer, PIECE));
    FF_TRY(compose(o));
    FF_TRY(ff_io_open(o->d->path, &o->f));
    return ff_io_put(o->f, o->d->path, o->xml.s, (size_t)o->xml.n);
}

ff_status rs_write_vtp(const rs_data *d)
{
    vtp_out o = {.d = d};
    ff_status st;
    FF_GO(ff_agree(d->comm, begin(&o)));
    FF_GO(put_all(&o));
done:
    if (o.f != NULL) {
        ff_status closed = ff_io_close(&o.f, d->path);
        if (st == FF_OK) st = closed;
    }
    st = ff_agree(d->comm, st);
    ff_text_free(&o.xml);
    ff_free(o.buffer);
    ff_free(o.bytes);
    return st;
}
