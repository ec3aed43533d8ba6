#include "ff_polydata.h"

#include "ff_log.h"
#include "ff_mem.h"

#include <stdio.h>
#include <string.h>

const char *const ff_pd_name[FF_PD_KINDS] = {"Verts", "Lines", "Polys", "Strips"};

int ff_pd_dim(const ff_pd *pd)
{
    bool lines = false;
    for (int64_t p = 0; p < pd->n_pieces; p++) {
        const int64_t *n = pd->piece[p].n_cells;
        if (n[FF_PD_POLYS] > 0 || n[FF_PD_STRIPS] > 0) return 3;
        lines |= n[FF_PD_LINES] > 0;
    }
    return lines ? 2 : 3;
}

bool ff_pd_uses(int dim, int kind)
{
    return dim == 2 ? kind == FF_PD_LINES : kind == FF_PD_POLYS || kind == FF_PD_STRIPS;
}

static int64_t piece_rows(const ff_pd_piece *p)
{
    int64_t n = 0;
    for (int k = 0; k < FF_PD_KINDS; k++) n += p->n_cells[k];
    return n;
}

int64_t ff_pd_rows(const ff_pd *pd)
{
    int64_t n = 0;
    for (int64_t p = 0; p < pd->n_pieces; p++) n += piece_rows(&pd->piece[p]);
    return n;
}

/* ---- checks and counts ---- */

typedef struct {
    int64_t cells, conn; /* of the mesh */
    bool plain;          /* every cell has dim points */
    bool identity;       /* cell i has row i */
} pd_count;

static ff_status check_kind(const ff_pd *pd, int64_t at, int k)
{
    const ff_pd_piece *p = &pd->piece[at];
    const int64_t *off = p->off[k], n = p->n_cells[k];
    for (int64_t c = 0; c < n; c++)
        if (off[c + 1] < off[c] || off[c + 1] > p->n_conn[k])
            return ff_fail(FF_E_INPUT, "%s: %s %lld: %s: cell %lld ends at %lld, expected %lld to %lld",
                           pd->path, pd->prefix, (long long)at, ff_pd_name[k], (long long)(p->cell0[k] + c),
                           (long long)((uint64_t)off[c + 1] + (uint64_t)p->conn0[k]),
                           (long long)(off[c] + p->conn0[k]), (long long)(p->n_conn[k] + p->conn0[k]));
    for (int64_t i = off[0]; i < off[n]; i++)
        if (p->conn[k][i] < 0 || p->conn[k][i] >= p->n_points)
            return ff_fail(FF_E_INPUT,
                           "%s: %s %lld: %s: connectivity %lld: point id %lld, expected 0 <= id < %lld",
                           pd->path, pd->prefix, (long long)at, ff_pd_name[k], (long long)(p->conn0[k] + i),
                           (long long)p->conn[k][i], (long long)p->n_points);
    return FF_OK;
}

static ff_status count_kind(const ff_pd *pd, int64_t at, int k, int dim, pd_count *sum)
{
    const ff_pd_piece *p = &pd->piece[at];
    FF_TRY(check_kind(pd, at, k));
    for (int64_t c = 0; c < p->n_cells[k]; c++) {
        int64_t n = p->off[k][c + 1] - p->off[k][c];
        int64_t least = k == FF_PD_LINES ? 2 : 3;
        if (n < least)
            return ff_fail(FF_E_INPUT, "%s: %s %lld: %s: cell %lld has %lld points, expected at least %lld",
                           pd->path, pd->prefix, (long long)at, ff_pd_name[k], (long long)(p->cell0[k] + c),
                           (long long)n, (long long)least);
        int64_t made = k == FF_PD_POLYS ? 1 : n - least + 1;
        sum->cells += made;
        sum->conn += k == FF_PD_POLYS ? n : made * dim;
        sum->plain &= k != FF_PD_POLYS || n == dim;
        sum->identity &= made == 1;
    }
    return FF_OK;
}

static ff_status count_all(const ff_pd *pd, int dim, pd_count *sum)
{
    *sum = (pd_count){.plain = true, .identity = true};
    int64_t lines = 0;
    for (int64_t p = 0; p < pd->n_pieces; p++)
        for (int k = 0; k < FF_PD_KINDS; k++) {
            if (ff_pd_uses(dim, k))
                FF_TRY(count_kind(pd, p, k, dim, sum));
            else
                sum->identity &= pd->piece[p].n_cells[k] == 0;
            lines += k == FF_PD_LINES ? pd->piece[p].n_cells[k] : 0;
        }
    if (dim == 3 && lines > 0)
        ff_warn("%s: %lld lines beside polygons are left out", pd->path, (long long)lines);
    return FF_OK;
}

/* ---- filling ---- */

typedef struct {
    ff_mesh *m;
    int64_t *row;
    int64_t conn; /* entries of cell_pts so far */
} pd_fill;

static void put_cell(pd_fill *f, int64_t row, int64_t base, const int64_t *ids, int64_t n)
{
    ff_mesh *m = f->m;
    for (int64_t i = 0; i < n; i++) m->cell_pts[f->conn + i] = base + ids[i];
    f->conn += n;
    if (f->row != NULL) f->row[m->n_cells] = row;
    m->n_cells++;
    if (m->cell_off != NULL) m->cell_off[m->n_cells] = f->conn;
}

/* Every second triangle of a strip is wound the other way round: two ids change places. */
static void put_strip(pd_fill *f, int64_t row, int64_t base, const int64_t *ids, int64_t n)
{
    for (int64_t i = 0; i + 2 < n; i++)
        put_cell(f, row, base, (int64_t[]){ids[i + i % 2], ids[i + 1 - i % 2], ids[i + 2]}, 3);
}

static void put_kind(pd_fill *f, const ff_pd_piece *p, int k, int64_t row, int64_t base)
{
    for (int64_t c = 0; c < p->n_cells[k]; c++) {
        const int64_t *ids = p->conn[k] + p->off[k][c];
        int64_t n = p->off[k][c + 1] - p->off[k][c];
        if (k == FF_PD_POLYS)
            put_cell(f, row + c, base, ids, n);
        else if (k == FF_PD_STRIPS)
            put_strip(f, row + c, base, ids, n);
        else
            for (int64_t i = 0; i + 1 < n; i++) put_cell(f, row + c, base, ids + i, 2);
    }
}

static ff_status add_patch(ff_mesh *m, const char *name)
{
    if ((m->patch_name[m->n_patches] = ff_strdup(name)) == NULL) return FF_E_MEM;
    m->n_patches++;
    return FF_OK;
}

/* A patch for each piece that holds cells, on any rank; one without number if there is only one such piece.
 * first [n_pieces + 1]: first mesh cell of each piece here. */
static ff_status name_patches(const ff_pd *pd, ff_mesh *m, const int64_t *first)
{
    int64_t filled = 0;
    int32_t n;
    for (int64_t p = 0; p < pd->n_pieces; p++)
        filled += pd->n_made != NULL ? pd->n_made[p] > 0 : first[p + 1] > first[p];
    if (filled == 0) return FF_OK;
    FF_TRY(ff_to_i32(filled, "number of pieces", &n));
    FF_TRY(FF_NEW0(m->patch_name, n));
    if (n == 1) return add_patch(m, FF_PATCH_SINGLE);
    FF_TRY(FF_NEW(m->cell_patch, m->n_cells));
    for (int64_t p = 0; p < pd->n_pieces; p++) {
        if ((pd->n_made != NULL ? pd->n_made[p] : first[p + 1] - first[p]) == 0) continue;
        char name[64];
        (void)snprintf(name, sizeof name, "%s %lld", pd->prefix, (long long)p);
        for (int64_t c = first[p]; c < first[p + 1]; c++) m->cell_patch[c] = m->n_patches;
        FF_TRY(add_patch(m, name));
    }
    return FF_OK;
}

ff_status ff_pd_cells(const ff_pd *pd, ff_mesh *m, int64_t **row)
{
    pd_count sum;
    pd_fill f = {.m = m};
    int64_t *first = NULL;
    ff_status st;
    *row = NULL;
    m->dim = ff_pd_dim(pd);
    FF_GO(count_all(pd, m->dim, &sum));
    FF_GO(FF_NEW(first, pd->n_pieces + 1));
    FF_GO(FF_NEW(m->cell_pts, sum.conn));
    if (!sum.plain) FF_GO(FF_NEW0(m->cell_off, sum.cells + 1));
    if (!sum.identity) FF_GO(FF_NEW(f.row, sum.cells));
    int64_t base = 0, at = 0;
    for (int64_t p = 0; p < pd->n_pieces; p++) {
        const ff_pd_piece *piece = &pd->piece[p];
        first[p] = m->n_cells;
        for (int k = 0; k < FF_PD_KINDS; k++) {
            if (ff_pd_uses(m->dim, k)) put_kind(&f, piece, k, at, base);
            at += piece->n_cells[k];
        }
        base += piece->n_points;
    }
    first[pd->n_pieces] = m->n_cells;
    FF_GO(name_patches(pd, m, first));
    *row = f.row;
    f.row = NULL;
done:
    ff_free(f.row);
    ff_free(first);
    return st;
}

ff_status ff_pd_cell_field(ff_mesh *m, const char *name, int n_comp, double **value, const int64_t *row)
{
    if (row == NULL) return ff_field_set_add(&m->cell_data, name, n_comp, m->n_cells, value);
    double *picked = ff_mem_alloc((size_t)m->n_cells, (size_t)n_comp * sizeof *picked);
    if (picked != NULL)
        for (int64_t c = 0; c < m->n_cells; c++)
            memcpy(picked + c * n_comp, *value + row[c] * n_comp, (size_t)n_comp * sizeof *picked);
    FF_FREE(*value);
    if (picked == NULL) return FF_E_MEM;
    return ff_field_set_add(&m->cell_data, name, n_comp, m->n_cells, &picked);
}

/* ---- patches of our own files ---- */

/* Whether every value is a whole number in [0, n), on all ranks. */
static ff_status ids_fit(ff_comm *comm, const ff_field *f, int64_t n_cells, int64_t n, int64_t *fit)
{
    *fit = f != NULL && f->n_comp == 1 && n <= INT32_MAX;
    for (int64_t c = 0; *fit && c < n_cells; c++) {
        double v = f->value[c];
        *fit = v >= 0 && v < (double)n && v == (double)(int64_t)v;
    }
    return ff_comm_allreduce(comm, fit, 1, FF_MIN_I64);
}

static void drop_field(ff_field_set *s, const ff_field *f)
{
    int64_t at = f - s->field;
    ff_free(s->field[at].name);
    ff_free(s->field[at].value);
    for (int64_t i = at; i + 1 < s->n; i++) s->field[i] = s->field[i + 1];
    s->n--;
}

/* The names of patches with held[i] = 1, and their new numbers in held, -1 for the others. */
static ff_status keep_names(ff_mesh *m, const char *names, int64_t *held, int64_t n)
{
    for (int i = 0; i < m->n_patches; i++) ff_free(m->patch_name[i]);
    FF_FREE(m->patch_name);
    m->n_patches = 0;
    FF_TRY(FF_NEW0(m->patch_name, n));
    for (int64_t i = 0; i < n; i++) {
        size_t len = strcspn(names, "\n");
        if (held[i] != 0) {
            char *name = ff_mem_alloc0(len + 1, 1);
            if (name == NULL) return FF_E_MEM;
            memcpy(name, names, len);
            m->patch_name[m->n_patches] = name;
        }
        held[i] = held[i] != 0 ? m->n_patches++ : -1;
        names += len + (names[len] != 0);
    }
    return FF_OK;
}

static ff_status apply_numbers(ff_mesh *m, const ff_field *f, const int64_t *number)
{
    FF_FREE(m->cell_patch);
    if (m->n_patches > 1) {
        FF_TRY(FF_NEW(m->cell_patch, m->n_cells));
        for (int64_t c = 0; c < m->n_cells; c++) m->cell_patch[c] = (int32_t)number[(int64_t)f->value[c]];
    }
    drop_field(&m->cell_data, f);
    return FF_OK;
}

ff_status ff_pd_restore_patches(ff_comm *comm, ff_mesh *m, const char *names)
{
    const ff_field *f = ff_field_set_find(&m->cell_data, FF_PD_PATCH_ID);
    int64_t n = names[0] != 0, *held = NULL, fit;
    if (n == 0 || f == NULL) return FF_OK; /* the same on all ranks */
    for (const char *p = names; *p != 0; p++) n += p[0] == '\n' && p[1] != 0;
    FF_TRY(ids_fit(comm, f, m->n_cells, n, &fit));
    if (!fit) return FF_OK;
    ff_status st = FF_NEW0(held, n);
    for (int64_t c = 0; st == FF_OK && c < m->n_cells; c++) held[(int64_t)f->value[c]] = 1;
    st = ff_agree(comm, st);
    if (st == FF_OK) st = ff_comm_allreduce(comm, held, n, FF_MAX_I64);
    if (st == FF_OK) {
        st = keep_names(m, names, held, n);
        if (st == FF_OK) st = apply_numbers(m, f, held);
        st = ff_agree(comm, st);
    }
    ff_free(held);
    return st;
}
