/* A mesh read whole on rank 0, dealt out in shares of cells. */
#include "ff_mem.h"
#include "ff_mesh_dist.h"

#include <string.h>

typedef struct {
    int64_t dim, n_points, n_cells, n_patches, n_cell_fields, n_point_fields, n_names;
    int64_t has_off, has_patch, points_float32;
} head;

typedef struct {
    ff_comm *comm;
    const ff_mesh *whole; /* on rank 0, else NULL */
    ff_mesh *m;           /* this rank's share */
    head h;
    char *names;         /* patches, cell fields, point fields: each with its NUL */
    int64_t *n_comp;     /* of cell fields, then point fields */
    size_t *send, *recv; /* [size] bytes */
} scatter;

static void fill_head(scatter *s)
{
    const ff_mesh *w = s->whole;
    s->h =
        (head){w->dim,          w->n_points, w->n_cells,          w->n_patches,          w->cell_data.n,
               w->point_data.n, 0,           w->cell_off != NULL, w->cell_patch != NULL, w->points_float32};
    for (int i = 0; i < w->n_patches; i++) s->h.n_names += (int64_t)strlen(w->patch_name[i]) + 1;
    for (int i = 0; i < w->cell_data.n; i++) s->h.n_names += (int64_t)strlen(w->cell_data.field[i].name) + 1;
    for (int i = 0; i < w->point_data.n; i++)
        s->h.n_names += (int64_t)strlen(w->point_data.field[i].name) + 1;
}

static char *put_name(char *at, const char *name)
{
    size_t n = strlen(name) + 1;
    memcpy(at, name, n);
    return at + n;
}

static void fill_names(scatter *s)
{
    const ff_mesh *w = s->whole;
    char *at = s->names;
    int64_t *n_comp = s->n_comp;
    for (int i = 0; i < w->n_patches; i++) at = put_name(at, w->patch_name[i]);
    for (int i = 0; i < w->cell_data.n; i++) at = put_name(at, w->cell_data.field[i].name);
    for (int i = 0; i < w->point_data.n; i++) at = put_name(at, w->point_data.field[i].name);
    for (int i = 0; i < w->cell_data.n; i++) *n_comp++ = w->cell_data.field[i].n_comp;
    for (int i = 0; i < w->point_data.n; i++) *n_comp++ = w->point_data.field[i].n_comp;
}

static ff_status make_room(scatter *s)
{
    FF_TRY(ff_mesh_create(&s->m));
    FF_TRY(FF_NEW0(s->send, s->comm->size));
    FF_TRY(FF_NEW0(s->recv, s->comm->size));
    FF_TRY(FF_NEW(s->names, s->h.n_names));
    return FF_NEW(s->n_comp, s->h.n_cell_fields + s->h.n_point_fields);
}

/* src on rank 0 in pieces of s->send bytes; bytes: of this rank's piece. */
static ff_status deal(scatter *s, const void *src, void *dst, size_t bytes)
{
    s->recv[0] = bytes;
    return ff_comm_alltoallv(s->comm, src != NULL ? src : "", s->send, dst, s->recv);
}

/* Rows of a table of n rows, in shares. *out is new, owned by the caller. Collective. */
static ff_status deal_rows(scatter *s, const void *src, int64_t n, size_t row_bytes, void *out_ptr)
{
    int rank = s->comm->rank, size = s->comm->size;
    int64_t mine = ff_share_begin(n, rank + 1, size) - ff_share_begin(n, rank, size);
    void *out = NULL;
    FF_TRY(ff_new_all(s->comm, &out, (size_t)mine, row_bytes, false));
    memcpy(out_ptr, &out, sizeof out);
    for (int r = 0; r < size; r++)
        s->send[r] = src != NULL
                         ? (size_t)(ff_share_begin(n, r + 1, size) - ff_share_begin(n, r, size)) * row_bytes
                         : 0;
    return deal(s, src, out, (size_t)mine * row_bytes);
}

/* cell_off as sizes of cells, since offsets of a share do not begin at 0. */
static ff_status deal_off(scatter *s)
{
    int64_t *size_of = NULL, *mine = NULL;
    ff_status st = FF_OK;
    if (!s->h.has_off) return FF_OK;
    if (s->whole != NULL) st = FF_NEW(size_of, s->h.n_cells);
    for (int64_t c = 0; st == FF_OK && s->whole != NULL && c < s->h.n_cells; c++)
        size_of[c] = s->whole->cell_off[c + 1] - s->whole->cell_off[c];
    FF_GO(ff_agree(s->comm, st));
    FF_GO(deal_rows(s, size_of, s->h.n_cells, sizeof *size_of, &mine));
    FF_GO(FF_NEW0_ALL(s->comm, s->m->cell_off, s->m->n_cells + 1));
    for (int64_t c = 0; c < s->m->n_cells; c++) s->m->cell_off[c + 1] = s->m->cell_off[c] + mine[c];
done:
    ff_free(size_of);
    ff_free(mine);
    return st;
}

static ff_status deal_cells(scatter *s)
{
    int rank = s->comm->rank, size = s->comm->size;
    ff_mesh *m = s->m;
    const ff_mesh *w = s->whole;
    m->cell_begin = ff_share_begin(s->h.n_cells, rank, size);
    m->n_cells_global = s->h.n_cells;
    m->n_cells = ff_share_begin(s->h.n_cells, rank + 1, size) - m->cell_begin;
    FF_TRY(deal_off(s));
    int64_t n = m->cell_off != NULL ? m->cell_off[m->n_cells] : m->dim * m->n_cells;
    FF_TRY(FF_NEW_ALL(s->comm, m->cell_pts, n));
    for (int r = 0; r < size; r++) {
        int64_t a = ff_share_begin(s->h.n_cells, r, size), b = ff_share_begin(s->h.n_cells, r + 1, size);
        int64_t entries = w == NULL             ? 0
                          : w->cell_off != NULL ? w->cell_off[b] - w->cell_off[a]
                                                : m->dim * (b - a);
        s->send[r] = (size_t)entries * sizeof *m->cell_pts;
    }
    FF_TRY(deal(s, w != NULL ? w->cell_pts : NULL, m->cell_pts, (size_t)n * sizeof *m->cell_pts));
    if (!s->h.has_patch) return FF_OK;
    return deal_rows(s, w != NULL ? w->cell_patch : NULL, s->h.n_cells, sizeof *m->cell_patch,
                     &m->cell_patch);
}

static ff_status deal_fields(scatter *s, bool of_points, const char **name, const int64_t *n_comp)
{
    int64_t count = of_points ? s->h.n_point_fields : s->h.n_cell_fields,
            n = of_points ? s->h.n_points : s->h.n_cells;
    ff_field_set *to = of_points ? &s->m->point_data : &s->m->cell_data;
    const ff_field_set *from = s->whole == NULL ? NULL
                               : of_points      ? &s->whole->point_data
                                                : &s->whole->cell_data;
    for (int64_t i = 0; i < count; i++) {
        double *value = NULL;
        ff_status st = deal_rows(s, from != NULL ? from->field[i].value : NULL, n,
                                 (size_t)n_comp[i] * sizeof *value, &value);
        if (st != FF_OK) ff_free(value);
        if (st == FF_OK)
            st = ff_field_set_add(to, *name, (int)n_comp[i], of_points ? s->m->n_points : s->m->n_cells,
                                  &value);
        FF_TRY(ff_agree(s->comm, st));
        *name += strlen(*name) + 1;
    }
    return FF_OK;
}

static ff_status take_patches(scatter *s, const char **name)
{
    FF_TRY(FF_NEW0(s->m->patch_name, s->h.n_patches));
    for (int64_t i = 0; i < s->h.n_patches; i++) {
        if ((s->m->patch_name[i] = ff_strdup(*name)) == NULL) return FF_E_MEM;
        s->m->n_patches++;
        *name += strlen(*name) + 1;
    }
    return FF_OK;
}

static ff_status deal_all(scatter *s)
{
    const char *name = s->names;
    s->m->dim = (int)s->h.dim;
    s->m->points_float32 = s->h.points_float32 != 0;
    FF_TRY(ff_agree(s->comm, take_patches(s, &name)));
    FF_TRY(deal_cells(s));
    FF_TRY(deal_fields(s, false, &name, s->n_comp));
    FF_TRY(deal_rows(s, s->whole != NULL ? s->whole->points : NULL, s->h.n_points, 3 * sizeof(double),
                     &s->m->points));
    s->m->n_points = ff_share_begin(s->h.n_points, s->comm->rank + 1, s->comm->size) -
                     ff_share_begin(s->h.n_points, s->comm->rank, s->comm->size);
    return deal_fields(s, true, &name, s->n_comp + s->h.n_cell_fields);
}

ff_status ff_mesh_scatter(ff_comm *comm, ff_mesh **whole, ff_mesh **out)
{
    scatter s = {.comm = comm, .whole = *whole};
    ff_status st;
    *out = NULL;
    if (s.whole != NULL) fill_head(&s);
    FF_GO(ff_comm_bcast(comm, &s.h, sizeof s.h, 0));
    FF_GO(ff_agree(comm, make_room(&s)));
    if (s.whole != NULL) fill_names(&s);
    FF_GO(ff_comm_bcast(comm, s.names, (size_t)s.h.n_names, 0));
    FF_GO(ff_comm_bcast(comm, s.n_comp, (size_t)(s.h.n_cell_fields + s.h.n_point_fields) * sizeof *s.n_comp,
                        0));
    FF_GO(deal_all(&s));
    ff_mesh_destroy(whole);
    FF_GO(ff_mesh_localise(comm, s.m, s.h.n_points));
    *out = s.m;
    s.m = NULL;
done:
    ff_mesh_destroy(whole);
    ff_mesh_destroy(&s.m);
    ff_free(s.names);
    ff_free(s.n_comp);
    ff_free(s.send);
    ff_free(s.recv);
    return st;
}
