#include "ff_vtp.h"

#include "ff_bytes.h"
#include "ff_log.h"
#include "ff_mem.h"
#include "ff_text.h"
#include "ff_vtp_impl.h"

#include <string.h>

const vtp_array *vtp_find(const vtp_doc *d, int64_t piece, vtp_section s, const char *name)
{
    for (int64_t i = 0; i < d->n_arrays; i++) {
        const vtp_array *a = &d->array[i];
        if (a->piece == piece && a->section == s && (name == NULL || strcmp(a->name, name) == 0)) return a;
    }
    return NULL;
}

/* ---- points ---- */

static ff_status piece_points(const vtp_doc *d, int64_t p, ff_mesh *m, int64_t base)
{
    const vtp_array *a = vtp_find(d, p, VTP_POINTS, NULL);
    int64_t n = d->piece[p].n_points;
    double *x;
    if (n == 0) return FF_OK;
    if (a == NULL)
        return ff_fail(FF_E_INPUT, "%s: piece %lld has %lld points but no Points array", d->path,
                       (long long)p, (long long)n);
    if (a->n_comp != 3 && a->n_comp != 0)
        return vtp_fail(d, a, "NumberOfComponents = %lld, expected 3", (long long)a->n_comp);
    m->points_float32 &= a->type == VTP_F32;
    FF_TRY(vtp_decode_f64(d, a, 3 * n, &x));
    memcpy(m->points + 3 * base, x, (size_t)n * 3 * sizeof *x);
    ff_free(x);
    return FF_OK;
}

static ff_status read_points(const vtp_doc *d, ff_mesh *m)
{
    double total = 0;
    for (int64_t p = 0; p < d->n_pieces; p++) total += (double)d->piece[p].n_points;
    if (total > 1100.0 * (double)d->bytes)
        return ff_fail(FF_E_INPUT, "%s: claims %.0f points, more than the file can hold", d->path, total);
    m->n_points = (int64_t)total;
    m->points_float32 = m->n_points > 0;
    FF_TRY(FF_NEW0(m->points, 3 * m->n_points));
    int64_t base = 0;
    for (int64_t p = 0; p < d->n_pieces; p++) {
        FF_TRY(piece_points(d, p, m, base));
        base += d->piece[p].n_points;
    }
    return FF_OK;
}

/* ---- cells ---- */

static ff_status piece_cells(const vtp_doc *d, int64_t p, int k, ff_pd_piece *out)
{
    int64_t n = out->n_cells[k], *ends = NULL, *off = NULL, *conn = NULL;
    const vtp_array *offsets = vtp_find(d, p, (vtp_section)k, "offsets");
    const vtp_array *connectivity = vtp_find(d, p, (vtp_section)k, "connectivity");
    ff_status st;
    if (n > 0 && (offsets == NULL || connectivity == NULL))
        return ff_fail(FF_E_INPUT, "%s: piece %lld: %s: no array named %s", d->path, (long long)p,
                       ff_pd_name[k], offsets == NULL ? "offsets" : "connectivity");
    if (n > 0) FF_GO(vtp_decode_i64(d, offsets, n, &ends));
    FF_GO(FF_NEW0(off, n + 1));
    if (n > 0) memcpy(off + 1, ends, (size_t)n * sizeof *off);
    if (off[n] < 0) FF_GO(vtp_fail(d, offsets, "ends at %lld, expected >= 0", (long long)off[n]));
    if (n > 0) FF_GO(vtp_decode_i64(d, connectivity, off[n], &conn));
    out->n_conn[k] = off[n];
    out->off[k] = off;
    out->conn[k] = conn;
    off = conn = NULL;
done:
    ff_free(ends);
    ff_free(off);
    ff_free(conn);
    return st;
}

static void free_pieces(ff_pd *pd)
{
    for (int64_t p = 0; pd->piece != NULL && p < pd->n_pieces; p++)
        for (int k = 0; k < FF_PD_KINDS; k++) {
            ff_free((void *)(uintptr_t)pd->piece[p].off[k]);
            ff_free((void *)(uintptr_t)pd->piece[p].conn[k]);
        }
    FF_FREE(pd->piece);
}

static ff_status read_cells(const vtp_doc *d, ff_mesh *m, int64_t **row)
{
    ff_pd pd = {.path = d->path, .prefix = "piece", .n_pieces = d->n_pieces};
    ff_status st;
    FF_GO(FF_NEW0(pd.piece, pd.n_pieces));
    for (int64_t p = 0; p < pd.n_pieces; p++) {
        pd.piece[p].n_points = d->piece[p].n_points;
        memcpy(pd.piece[p].n_cells, d->piece[p].n_cells, sizeof pd.piece[p].n_cells);
    }
    int dim = ff_pd_dim(&pd);
    for (int64_t p = 0; p < pd.n_pieces; p++)
        for (int k = 0; k < FF_PD_KINDS; k++)
            if (ff_pd_uses(dim, k)) FF_GO(piece_cells(d, p, k, &pd.piece[p]));
    FF_GO(ff_pd_cells(&pd, m, row));
done:
    free_pieces(&pd);
    return st;
}

/* ---- fields ---- */

static int64_t piece_rows(const vtp_doc *d, int64_t p, vtp_section s)
{
    const vtp_piece *piece = &d->piece[p];
    if (s == VTP_POINT_DATA) return piece->n_points;
    int64_t n = 0;
    for (int k = 0; k < FF_PD_KINDS; k++) n += piece->n_cells[k];
    return n;
}

/* Whether all pieces with rows have this array, with as many components. */
static bool everywhere(const vtp_doc *d, const vtp_array *a)
{
    for (int64_t p = 0; p < d->n_pieces; p++) {
        const vtp_array *b = vtp_find(d, p, a->section, a->name);
        if (piece_rows(d, p, a->section) == 0) continue;
        if (b == NULL || b->type == VTP_NO_NUMBER || b->n_comp != a->n_comp) return false;
    }
    return true;
}

/* The rows of all pieces one behind the other; *out is owned by the caller. */
static ff_status read_rows(const vtp_doc *d, const vtp_array *a, int n_comp, double **out)
{
    double *all = NULL, *part = NULL;
    int64_t total = 0, base = 0;
    ff_status st = FF_OK;
    for (int64_t p = 0; p < d->n_pieces; p++) total += piece_rows(d, p, a->section);
    if (d->n_pieces == 1) return vtp_decode_f64(d, a, total * n_comp, out);
    if ((double)total > 1100.0 * (double)d->bytes)
        return vtp_fail(d, a, "claims %lld rows, more than the file can hold", (long long)total);
    FF_GO(FF_NEW(all, total * n_comp));
    for (int64_t p = 0; p < d->n_pieces; p++) {
        int64_t n = piece_rows(d, p, a->section);
        if (n == 0) continue;
        FF_GO(vtp_decode_f64(d, vtp_find(d, p, a->section, a->name), n * n_comp, &part));
        memcpy(all + base * n_comp, part, (size_t)(n * n_comp) * sizeof *all);
        FF_FREE(part);
        base += n;
    }
    *out = all;
    all = NULL;
done:
    ff_free(part);
    ff_free(all);
    return st;
}

static ff_status read_field(const vtp_doc *d, const vtp_array *a, ff_mesh *m, const int64_t *row)
{
    double *value = NULL;
    ff_field_set *set = a->section == VTP_POINT_DATA ? &m->point_data : &m->cell_data;
    if (a->type == VTP_NO_NUMBER || a->name[0] == 0 || ff_field_set_find(set, a->name) != NULL) return FF_OK;
    if (!everywhere(d, a)) {
        ff_warn("%s:%lld: array \"%s\" is not in all pieces and is left out", d->path, (long long)a->line,
                a->name);
        return FF_OK;
    }
    if (a->n_comp > 1000000)
        return vtp_fail(d, a, "NumberOfComponents = %lld, expected at most 1e6", (long long)a->n_comp);
    int n_comp = a->n_comp > 0 ? (int)a->n_comp : 1;
    FF_TRY(read_rows(d, a, n_comp, &value));
    if (a->section == VTP_POINT_DATA) return ff_field_set_add(set, a->name, n_comp, m->n_points, &value);
    return ff_pd_cell_field(m, a->name, n_comp, &value, row);
}

/* Our own files name their patches in a text of character codes, lines ending with a 0 code. */
static ff_status read_patches(const vtp_doc *d, ff_mesh *m)
{
    const vtp_array *a = vtp_find(d, -1, VTP_FIELD_DATA, FF_PD_PATCH_NAMES);
    if (a == NULL || a->type != VTP_NO_NUMBER || a->format != VTP_ASCII || a->text == NULL) return FF_OK;
    ff_text names = {0};
    size_t len;
    int64_t code;
    for (char *p = a->text, *w; (w = ff_word(&p, &len)) != NULL;) {
        if (!ff_word_i64(w, len, &code) || code < 0 || code > 255) break;
        ff_text_put(&names, code == 0 ? "\n" : (char[]){(char)code}, 1);
    }
    ff_status st = ff_text_status(&names);
    if (st == FF_OK) st = ff_pd_restore_patches(ff_comm_self(), m, ff_text_get(&names));
    ff_text_free(&names);
    return st;
}

/* ---- entry points ---- */

static ff_status doc_to_mesh(const vtp_doc *d, const ff_read_opts *opts, ff_mesh *m)
{
    int64_t *row = NULL;
    ff_status st;
    FF_GO(read_points(d, m));
    FF_GO(d->unstructured ? vtu_cells(d, m, &row) : read_cells(d, m, &row));
    for (int64_t i = 0; i < d->n_arrays; i++)
        if (d->array[i].section == VTP_POINT_DATA || d->array[i].section == VTP_CELL_DATA)
            FF_GO(read_field(d, &d->array[i], m, row));
    FF_GO(read_patches(d, m));
    FF_GO(ff_mesh_finish(m, d->path, opts));
done:
    ff_free(row);
    return st;
}

ff_status ff_vtp_parse(const char *name, const char *text, size_t bytes, const ff_read_opts *opts,
                       ff_mesh **out)
{
    vtp_doc d = {0};
    ff_mesh *m = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(vtp_doc_parse(&d, name, text, bytes));
    if (opts->step != 0)
        FF_GO(ff_fail(FF_E_INPUT, "%s: step = %lld, but VTP and VTU have one step; expected 0", name,
                      (long long)opts->step));
    FF_GO(ff_mesh_create(&m));
    FF_GO(doc_to_mesh(&d, opts, m));
    *out = m;
    m = NULL;
done:
    ff_mesh_destroy(&m);
    vtp_doc_free(&d);
    return st;
}

static ff_status load(ff_bytes *b, char **data, int64_t *n)
{
    const unsigned char *p;
    size_t got;
    int64_t cap = 0, size = ff_bytes_size(b);
    *n = 0;
    if (size > 0) FF_TRY(ff_mem_reserve(data, &cap, size, 1));
    for (;;) {
        FF_TRY(ff_bytes_peek(b, 1 << 16, &p, &got));
        if (got == 0) return FF_OK;
        FF_TRY(ff_mem_reserve(data, &cap, *n + (int64_t)got, 1));
        memcpy(*data + *n, p, got);
        *n += (int64_t)got;
        FF_TRY(ff_bytes_take(b, got, &p));
    }
}

ff_status ff_vtp_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_bytes *b = NULL;
    char *data = NULL;
    int64_t n;
    ff_status st;
    *out = NULL;
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(load(b, &data, &n));
    ff_bytes_close(&b);
    FF_GO(ff_vtp_parse(path, data, (size_t)n, opts, out));
done:
    ff_bytes_close(&b);
    ff_free(data);
    return st;
}
