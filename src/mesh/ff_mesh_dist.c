#include "ff_mesh_dist.h"

#include "ff_bytes.h"
#include "ff_cgns.h"
#include "ff_foam.h"
#include "ff_mem.h"
#include "ff_sort.h"
#include "ff_stl.h"
#include "ff_vtkhdf.h"

#include <string.h>

int64_t ff_share_begin(int64_t n, int r, int size)
{
    return n / size * r + n % size * r / size;
}

int ff_share_owner(int64_t n, int64_t i, int size)
{
    int lo = 0, hi = size - 1; /* the last rank whose share begins at or before i */
    while (lo < hi) {
        int mid = lo + (hi - lo + 1) / 2;
        if (ff_share_begin(n, mid, size) <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

void ff_mesh_keep_share(ff_mesh *m, int r, int size)
{
    int64_t begin = ff_share_begin(m->n_cells, r, size), end = ff_share_begin(m->n_cells, r + 1, size);
    m->cell_begin = begin;
    m->n_cells = end - begin;
    memmove(m->cell_pts, m->cell_pts + m->dim * begin, (size_t)(m->dim * m->n_cells) * sizeof *m->cell_pts);
}

/* ---- points to the cells that use them ---- */

typedef struct {
    ff_comm *comm;
    ff_mesh *m;
    int64_t n_global, begin; /* points of the file; first of this rank's share */
    int64_t *need, n_need;   /* distinct point numbers of the cells, ascending */
    int64_t *asked, n_asked; /* point numbers that ranks want from this share, in rank order */
    size_t *out_bytes, *in_bytes, *row_out,
        *row_in;                /* [size]: of numbers sent and received, of rows likewise */
    unsigned char *used;        /* [share] whether anybody wants the point */
    double *rows_out, *rows_in; /* [n_asked][width], [n_need][width] */
    int64_t width;              /* 3 coordinates and all point fields */
} localise;

static int64_t n_entries(const ff_mesh *m)
{
    return m->cell_off != NULL ? m->cell_off[m->n_cells] : m->dim * m->n_cells;
}

/* Distinct numbers, and cell_pts as indices into them. */
static ff_status collect_needs(localise *w)
{
    int64_t n = n_entries(w->m), *place = NULL;
    uint64_t *key = NULL;
    ff_status st;
    FF_GO(FF_NEW(key, n));
    FF_GO(FF_NEW(place, n));
    for (int64_t i = 0; i < n; i++) {
        key[i] = (uint64_t)w->m->cell_pts[i];
        place[i] = i;
    }
    FF_GO(ff_sort_u64(key, place, n));
    for (int64_t i = 0; i < n; i++) w->n_need += i == 0 || key[i] != key[i - 1];
    FF_GO(FF_NEW(w->need, w->n_need));
    int64_t at = -1;
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || key[i] != key[i - 1]) w->need[++at] = (int64_t)key[i];
        w->m->cell_pts[place[i]] = at;
    }
done:
    ff_free(key);
    ff_free(place);
    return st;
}

static ff_status count_needs(localise *w)
{
    int size = w->comm->size;
    FF_TRY(FF_NEW0(w->out_bytes, size));
    FF_TRY(FF_NEW0(w->in_bytes, size));
    FF_TRY(FF_NEW0(w->row_out, size));
    FF_TRY(FF_NEW0(w->row_in, size));
    FF_TRY(FF_NEW0(w->used, w->m->n_points));
    FF_TRY(collect_needs(w));
    int r = 0;
    for (int64_t i = 0; i < w->n_need; i++) {
        while (w->need[i] >= ff_share_begin(w->n_global, r + 1, size)) r++;
        w->out_bytes[r] += sizeof *w->need;
    }
    return FF_OK;
}

static ff_status make_room(localise *w)
{
    const ff_field_set *s = &w->m->point_data;
    w->width = 3;
    for (int i = 0; i < s->n; i++) w->width += s->field[i].n_comp;
    for (int r = 0; r < w->comm->size; r++) w->n_asked += (int64_t)(w->in_bytes[r] / sizeof *w->asked);
    for (int r = 0; r < w->comm->size; r++) {
        w->row_out[r] = w->in_bytes[r] * (size_t)w->width; /* numbers and values have 8 bytes both */
        w->row_in[r] = w->out_bytes[r] * (size_t)w->width;
    }
    FF_TRY(FF_NEW(w->asked, w->n_asked));
    FF_TRY(FF_NEW(w->rows_out, w->n_asked * w->width));
    return FF_NEW(w->rows_in, w->n_need * w->width);
}

static void pack_row(const ff_mesh *m, int64_t i, double *row)
{
    memcpy(row, m->points + 3 * i, 3 * sizeof *row);
    row += 3;
    for (int k = 0; k < m->point_data.n; k++) {
        const ff_field *f = &m->point_data.field[k];
        memcpy(row, f->value + i * f->n_comp, (size_t)f->n_comp * sizeof *row);
        row += f->n_comp;
    }
}

static void unpack_row(const double *row, ff_mesh *m, int64_t i)
{
    memcpy(m->points + 3 * i, row, 3 * sizeof *row);
    row += 3;
    for (int k = 0; k < m->point_data.n; k++) {
        ff_field *f = &m->point_data.field[k];
        memcpy(f->value + i * f->n_comp, row, (size_t)f->n_comp * sizeof *row);
        row += f->n_comp;
    }
}

static void answer(localise *w)
{
    for (int64_t i = 0; i < w->n_asked; i++) {
        w->used[w->asked[i] - w->begin] = 1;
        pack_row(w->m, w->asked[i] - w->begin, w->rows_out + i * w->width);
    }
}

/* Replaces the share by the needed points and the share's unused ones, ascending by number. */
static ff_status rebuild(localise *w)
{
    ff_mesh *m = w->m, old = *m;
    int64_t n_old = old.n_points, n_new = w->n_need, *gid = NULL, *now = NULL;
    double *spare = NULL; /* rows of the unused points */
    ff_status st;
    for (int64_t i = 0; i < n_old; i++) n_new += !w->used[i];
    FF_GO(FF_NEW(gid, n_new));
    FF_GO(FF_NEW(now, w->n_need));
    FF_GO(FF_NEW(spare, (n_new - w->n_need) * w->width));
    for (int64_t i = 0, at = 0; i < n_old; i++)
        if (!w->used[i]) pack_row(m, i, spare + at++ * w->width);
    double *points = ff_mem_resize(m->points, (size_t)n_new * 3, sizeof *points);
    if (points == NULL) FF_GO(FF_E_MEM);
    m->points = points;
    for (int k = 0; k < m->point_data.n; k++) {
        ff_field *f = &m->point_data.field[k];
        double *value = ff_mem_resize(f->value, (size_t)n_new * (size_t)f->n_comp, sizeof *value);
        if (value == NULL) FF_GO(FF_E_MEM);
        f->value = value;
    }
    for (int64_t at = 0, i = 0, j = 0, n_spare = 0; at < n_new; at++) {
        while (j < n_old && w->used[j]) j++;
        bool mine = j < n_old && (i == w->n_need || w->begin + j < w->need[i]);
        gid[at] = mine ? w->begin + j++ : w->need[i];
        unpack_row(mine ? spare + n_spare++ * w->width : w->rows_in + i * w->width, m, at);
        if (!mine) now[i++] = at;
    }
    for (int64_t i = 0; i < n_entries(m); i++) m->cell_pts[i] = now[m->cell_pts[i]];
    m->n_points = n_new;
    m->n_points_global = w->n_global;
    m->point_gid = gid;
    gid = NULL;
done:
    ff_free(gid);
    ff_free(now);
    ff_free(spare);
    return st;
}

ff_status ff_mesh_localise(ff_comm *comm, ff_mesh *m, int64_t n_points_global)
{
    localise w = {.comm = comm, .m = m, .n_global = n_points_global};
    ff_status st;
    w.begin = ff_share_begin(n_points_global, comm->rank, comm->size);
    FF_GO(ff_agree(comm, count_needs(&w)));
    FF_GO(ff_comm_alltoall_counts(comm, w.out_bytes, w.in_bytes));
    FF_GO(ff_agree(comm, make_room(&w)));
    FF_GO(ff_comm_alltoallv(comm, w.need, w.out_bytes, w.asked, w.in_bytes));
    answer(&w);
    FF_GO(ff_comm_alltoallv(comm, w.rows_out, w.row_out, w.rows_in, w.row_in));
    FF_GO(ff_agree(comm, rebuild(&w)));
done:
    ff_free(w.need);
    ff_free(w.asked);
    ff_free(w.out_bytes);
    ff_free(w.in_bytes);
    ff_free(w.row_out);
    ff_free(w.row_in);
    ff_free(w.used);
    ff_free(w.rows_out);
    ff_free(w.rows_in);
    return st;
}

/* ---- reading ---- */

typedef enum { ROUTE_STL, ROUTE_HDF5, ROUTE_WHOLE } route;

/* How rank 0 finds the file should be read; n: facets of a binary STL. */
static ff_status choose_route(const char *path, int64_t step, int64_t *way, int64_t *n)
{
    bool stl;
    ff_bytes *b = NULL;
    const unsigned char *head;
    size_t got;
    bool cgns = false;
    ff_status st;
    *way = ROUTE_WHOLE;
    FF_GO(ff_mesh_check_name(path));
    if (ff_foam_is(path)) goto done;
    FF_GO(ff_stl_probe(path, &stl, n));
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(ff_bytes_peek(b, 8, &head, &got));
    bool hdf5 = got == 8 && memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0;
    if (hdf5) FF_GO(ff_cgns_probe(path, &cgns));
    if (stl && *n > 0 && step == 0) /* else ff_mesh_read() says what is wrong */
        *way = ROUTE_STL;
    else if (hdf5 && !cgns)
        *way = ROUTE_HDF5;
done:
    ff_bytes_close(&b);
    return st;
}

/* Facets own their three points, so a range of facets is a range of points. */
static ff_status read_stl_share(ff_comm *comm, const char *path, const ff_read_opts *opts, int64_t n,
                                ff_mesh **out)
{
    int64_t begin = ff_share_begin(n, comm->rank, comm->size),
            end = ff_share_begin(n, comm->rank + 1, comm->size);
    ff_status st = ff_stl_read_range(path, opts, begin, end, out);
    if (st == FF_OK) st = FF_NEW((*out)->point_gid, (*out)->n_points);
    for (int64_t i = 0; st == FF_OK && i < (*out)->n_points; i++) (*out)->point_gid[i] = 3 * begin + i;
    if (st == FF_OK) (*out)->n_points_global = 3 * n;
    return ff_agree(comm, st);
}

static ff_status read_on_root(ff_comm *comm, const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_mesh *whole = NULL;
    FF_TRY(ff_agree(comm, comm->rank == 0 ? ff_mesh_read(path, opts, &whole) : FF_OK));
    return ff_mesh_scatter(comm, &whole, out);
}

ff_status ff_mesh_read_dist(ff_comm *comm, const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    int64_t word[2] = {ROUTE_WHOLE, 0};
    bool read = false;
    *out = NULL;
    if (comm->size == 1) return ff_mesh_read(path, opts, out);
    FF_TRY(ff_agree(comm, comm->rank == 0 ? choose_route(path, opts->step, &word[0], &word[1]) : FF_OK));
    FF_TRY(ff_comm_bcast(comm, word, sizeof word, 0));
    ff_status st = FF_OK;
    if (word[0] == ROUTE_STL) {
        st = read_stl_share(comm, path, opts, word[1], out);
        read = true;
    } else if (word[0] == ROUTE_HDF5) {
        st = ff_vtkhdf_read_shared(comm, path, opts, &read, out);
    }
    if (st == FF_OK && !read) st = read_on_root(comm, path, opts, out);
    if (st != FF_OK) ff_mesh_destroy(out);
    return st;
}
