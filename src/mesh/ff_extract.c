#include "ff_extract.h"

#include "ff_mem.h"

#include <string.h>

typedef struct extract {
    const ff_mesh *m;
    const uint8_t *keep, *flip;
    const int64_t *weld;
    ff_mesh *out;
    int64_t *cell;  /* [out->n_cells] cell of m */
    int64_t *point; /* [out->n_points] point of m */
    int64_t *place; /* [m->n_points] by welded number: point of out, -1: not used */
    int64_t n_corners;
} extract;

static int64_t welded(const extract *x, int64_t p)
{
    return x->weld != NULL ? x->weld[p] : p;
}

static ff_status choose_cells(extract *x)
{
    const ff_mesh *m = x->m;
    int64_t k = 0, n_pts;
    FF_TRY(FF_NEW(x->cell, m->n_cells));
    for (int64_t c = 0; c < m->n_cells; c++) {
        if (x->keep != NULL && x->keep[c] == 0) continue;
        (void)ff_mesh_cell(m, c, &n_pts);
        x->n_corners += n_pts;
        x->cell[k++] = c;
    }
    x->out->n_cells = x->out->n_cells_global = k;
    return FF_OK;
}

/* Points keep their order. */
static ff_status choose_points(extract *x)
{
    const ff_mesh *m = x->m;
    int64_t n = 0, n_pts;
    FF_TRY(FF_NEW(x->point, m->n_points));
    FF_TRY(FF_NEW(x->place, m->n_points));
    for (int64_t p = 0; p < m->n_points; p++) x->place[p] = -1;
    for (int64_t k = 0; k < x->out->n_cells; k++) {
        int64_t at = ff_mesh_cell(m, x->cell[k], &n_pts);
        for (int64_t i = at; i < at + n_pts; i++) x->place[welded(x, m->cell_pts[i])] = -2; /* used */
    }
    for (int64_t p = 0; p < m->n_points; p++) {
        if (x->place[welded(x, p)] != -2) continue;
        x->point[n] = p;
        x->place[welded(x, p)] = n++;
    }
    x->out->n_points = n;
    FF_TRY(FF_NEW(x->out->points, 3 * n));
    for (int64_t p = 0; p < n; p++)
        memcpy(x->out->points + 3 * p, m->points + 3 * x->point[p], 3 * sizeof *m->points);
    return FF_OK;
}

static ff_status copy_cells(extract *x)
{
    const ff_mesh *m = x->m;
    ff_mesh *o = x->out;
    int64_t at = 0, n_pts;
    FF_TRY(FF_NEW(o->cell_pts, x->n_corners));
    if (m->cell_off != NULL) FF_TRY(FF_NEW(o->cell_off, o->n_cells + 1));
    for (int64_t k = 0; k < o->n_cells; k++) {
        int64_t from = ff_mesh_cell(m, x->cell[k], &n_pts);
        bool flip = x->flip != NULL && x->flip[x->cell[k]] != 0;
        if (o->cell_off != NULL) o->cell_off[k] = at;
        for (int64_t i = 0; i < n_pts; i++) {
            int64_t j = !flip ? i : m->dim == 2 ? 1 - i : (n_pts - i) % n_pts;
            o->cell_pts[at++] = x->place[welded(x, m->cell_pts[from + j])];
        }
    }
    if (o->cell_off != NULL) o->cell_off[o->n_cells] = at;
    return FF_OK;
}

static ff_status copy_patches(extract *x)
{
    const ff_mesh *m = x->m;
    ff_mesh *o = x->out;
    ff_status st = FF_OK;
    int32_t *number = NULL; /* [m->n_patches] */
    FF_GO(FF_NEW0(number, m->n_patches + 1));
    FF_GO(FF_NEW0(o->patch_name, m->n_patches + 1));
    for (int64_t k = 0; k < o->n_cells; k++)
        number[m->cell_patch != NULL ? m->cell_patch[x->cell[k]] : 0] = 1;
    for (int p = 0; p < m->n_patches; p++) {
        if (number[p] == 0) continue;
        number[p] = o->n_patches;
        if ((o->patch_name[o->n_patches] = ff_strdup(m->patch_name[p])) == NULL) {
            st = FF_E_MEM;
            goto done;
        }
        o->n_patches++;
    }
    if (o->n_patches < 2) goto done;
    FF_GO(FF_NEW(o->cell_patch, o->n_cells));
    for (int64_t k = 0; k < o->n_cells; k++) o->cell_patch[k] = number[m->cell_patch[x->cell[k]]];
done:
    ff_free(number);
    return st;
}

static ff_status copy_fields(const ff_field_set *from, const int64_t *row, int64_t n, ff_field_set *to)
{
    for (int f = 0; f < from->n; f++) {
        int64_t nc = from->field[f].n_comp;
        double *value = NULL;
        FF_TRY(FF_NEW(value, n * nc));
        for (int64_t i = 0; i < n; i++)
            memcpy(value + i * nc, from->field[f].value + row[i] * nc, (size_t)nc * sizeof *value);
        FF_TRY(ff_field_set_add(to, from->field[f].name, (int)nc, n, &value));
    }
    return FF_OK;
}

ff_status ff_mesh_extract(const ff_mesh *m, const uint8_t *keep, const uint8_t *flip, const int64_t *weld,
                          ff_mesh **out)
{
    ff_status st = FF_OK;
    extract x = {.m = m, .keep = keep, .flip = flip, .weld = weld};
    *out = NULL;
    FF_GO(ff_mesh_create(&x.out));
    x.out->dim = m->dim;
    x.out->points_float32 = m->points_float32;
    FF_GO(choose_cells(&x));
    FF_GO(choose_points(&x));
    FF_GO(copy_cells(&x));
    FF_GO(copy_patches(&x));
    FF_GO(copy_fields(&m->cell_data, x.cell, x.out->n_cells, &x.out->cell_data));
    FF_GO(copy_fields(&m->point_data, x.point, x.out->n_points, &x.out->point_data));
done:
    ff_free(x.cell);
    ff_free(x.point);
    ff_free(x.place);
    if (st != FF_OK) ff_mesh_destroy(&x.out);
    *out = x.out;
    return st;
}

void ff_mesh_patch_cells(const ff_mesh *m, int64_t *n_cells)
{
    for (int p = 0; p < m->n_patches; p++) n_cells[p] = m->cell_patch == NULL ? m->n_cells : 0;
    for (int64_t c = 0; m->cell_patch != NULL && c < m->n_cells; c++) n_cells[m->cell_patch[c]]++;
}
