/* What the embed verb writes: an HDF5 file of its own layout (docs/formats.md), or points with fields. */
#include "embed.h"

#include "ff_io.h"
#include "ff_mesh_dist.h"
#include "ff_result.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_h5(const char *path)
{
    const size_t n = strlen(path);
    return n > 3 && strcasecmp(path + n - 3, ".h5") == 0;
}

ff_status embed_check_output(const ff_app *app)
{
    const ff_config *c = app->config;
    FF_TRY(ff_config_need(c, "output"));
    const char *path = ff_config_string(c, "output");
    if (ff_config_bool(c, "embed.edges") && !is_h5(path))
        return ff_config_bad(c, "output", "a name that ends in .h5, which can hold edges");
    return ff_result_check_path(app->comm, path, ff_config_bool(c, "write.force"));
}

/* ---- edges in the order of their destinations at home ---- */

typedef struct edge_row {
    int64_t dst, src;
    double vec[3];
    int32_t image[3], pad;
} edge_row;

typedef struct edges {
    int64_t n, first; /* edges that end at home points here, and those of the ranks before */
    edge_row *row;    /* [n] */
} edges;

/* Own edges by destination ascend, so they are packed by home rank already. Local */
static void pack_edges(const embed *m, edge_row *row, size_t *bytes)
{
    const ff_graph *g = m->e->graph;
    const ff_halo *h = m->e->halo;
    memset(bytes, 0, (size_t)m->app->comm->size * sizeof *bytes);
    for (int64_t e = 0; e < g->n_edges; e++) {
        row[e] = (edge_row){.dst = h->gid[h->own[g->dst[e]]], .src = h->gid[g->src[e]]};
        memcpy(row[e].vec, g->vec + 3 * e, sizeof row[e].vec);
        if (g->image != NULL) memcpy(row[e].image, g->image + 3 * e, sizeof row[e].image);
        bytes[ff_share_owner(m->n_points, row[e].dst, m->app->comm->size)] += sizeof *row;
    }
}

/* Rows that came by rank, each rank's by destination, to places by destination. Local */
static ff_status place_edges(const embed *m, const edge_row *from, edges *out)
{
    int64_t *at = NULL;
    const int64_t begin = ff_share_begin(m->n_points, m->app->comm->rank, m->app->comm->size);
    FF_TRY(FF_NEW0(at, m->n_home + 1));
    for (int64_t i = 0; i < out->n; i++) at[from[i].dst - begin + 1]++;
    for (int64_t i = 0; i < m->n_home; i++) at[i + 1] += at[i];
    for (int64_t i = 0; i < out->n; i++) out->row[at[from[i].dst - begin]++] = from[i];
    ff_free(at);
    return FF_OK;
}

/* Collective */
static ff_status edges_home(const embed *m, edges *out)
{
    ff_status st = FF_OK;
    ff_comm *comm = m->app->comm;
    edge_row *send = NULL, *recv = NULL;
    size_t *send_bytes = NULL, *recv_bytes = NULL;
    int64_t *n_of = NULL;
    FF_GO(FF_NEW_ALL(comm, send_bytes, comm->size));
    FF_GO(FF_NEW_ALL(comm, recv_bytes, comm->size));
    FF_GO(FF_NEW_ALL(comm, n_of, comm->size));
    FF_GO(FF_NEW_ALL(comm, send, m->e->graph->n_edges));
    pack_edges(m, send, send_bytes);
    FF_GO(ff_comm_alltoall_counts(comm, send_bytes, recv_bytes));
    for (int r = 0; r < comm->size; r++) out->n += (int64_t)(recv_bytes[r] / sizeof *recv);
    FF_GO(FF_NEW_ALL(comm, recv, out->n));
    FF_GO(FF_NEW_ALL(comm, out->row, out->n));
    FF_GO(ff_comm_alltoallv(comm, send, send_bytes, recv, recv_bytes));
    FF_GO(ff_agree(comm, place_edges(m, recv, out)));
    FF_GO(ff_comm_allgather(comm, &out->n, sizeof out->n, n_of));
    for (int r = 0; r < comm->rank; r++) out->first += n_of[r];
done:
    ff_free(send);
    ff_free(recv);
    ff_free(send_bytes);
    ff_free(recv_bytes);
    ff_free(n_of);
    return st;
}

/* ---- HDF5 ---- */

static ff_status write_rows(ff_h5 *f, const char *name, ff_h5_type type, int rank, const int64_t *dim,
                            int64_t first, int64_t n, const void *rows)
{
    FF_TRY(ff_h5_dataset(f, name, type, rank, dim));
    return ff_h5_write(f, name, type, first, n, rows);
}

static ff_status write_attributes(const embed *m, ff_h5 *f)
{
    const ff_head_opts *o = &m->h.o;
    const int64_t value[] = {o->lmax, o->n_channels, o->n_radial, o->rbf_exponent, o->degree_exponent};
    static const char *const name[] = {"lmax", "channels", "n_radial", "rbf_exponent", "degree_exponent"};
    FF_TRY(ff_h5_attr_write_text(f, "/", "format", "farfield embedding 1"));
    for (int i = 0; i < 5; i++) FF_TRY(ff_h5_attr_write_scalar(f, "/", name[i], FF_H5_I64, &value[i]));
    FF_TRY(ff_h5_attr_write_scalar(f, "/", "cutoff", FF_H5_F64, &m->h.cutoff));
    FF_TRY(ff_h5_attr_write_scalar(f, "/", "degree_floor", FF_H5_F64, &o->degree_floor));
    if (!m->periodic) return FF_OK;
    const int64_t pbc[3] = {m->cell.periodic[0], m->cell.periodic[1], m->cell.periodic[2]};
    FF_TRY(ff_h5_attr_write(f, "/", "cell", FF_H5_F64, 9, m->cell.vector));
    return ff_h5_attr_write(f, "/", "pbc", FF_H5_I64, 3, pbc);
}

static ff_status write_gradients(const embed *m, ff_h5 *f, ff_h5_type real, int64_t first)
{
    const ff_head_opts *o = &m->h.o;
    const bool writer = m->app->comm->rank == 0;
    FF_TRY(ff_h5_group(f, "/gradient"));
    FF_TRY(write_rows(f, "/gradient/points", FF_H5_F64, 2, (int64_t[]){m->n_points, 3}, first, m->n_home,
                      m->d_points));
    FF_TRY(write_rows(f, "/gradient/W1", real, 2, (int64_t[]){o->n_hidden, o->n_radial}, 0,
                      writer ? o->n_hidden : 0, m->d_w1));
    const int64_t n2 = o->lmax * o->n_channels;
    return write_rows(f, "/gradient/W2", real, 2, (int64_t[]){n2, o->n_hidden}, 0, writer ? n2 : 0, m->d_w2);
}

/* One column of the edges after the other; buf holds 3 doubles an edge. */
static ff_status write_edges(const embed *m, ff_h5 *f, const edges *s, double *buf)
{
    int64_t *id = (int64_t *)buf;
    int32_t *image = (int32_t *)buf;
    const int64_t n = m->e->n_edges;
    FF_TRY(ff_h5_group(f, "/edges"));
    for (int64_t i = 0; i < s->n; i++) id[i] = s->row[i].dst;
    FF_TRY(write_rows(f, "/edges/dst", FF_H5_I64, 1, &n, s->first, s->n, id));
    for (int64_t i = 0; i < s->n; i++) id[i] = s->row[i].src;
    FF_TRY(write_rows(f, "/edges/src", FF_H5_I64, 1, &n, s->first, s->n, id));
    for (int64_t i = 0; i < s->n; i++) memcpy(buf + 3 * i, s->row[i].vec, sizeof s->row[i].vec);
    FF_TRY(write_rows(f, "/edges/vec", FF_H5_F64, 2, (int64_t[]){n, 3}, s->first, s->n, buf));
    for (int64_t i = 0; i < s->n; i++) memcpy(image + 3 * i, s->row[i].image, sizeof s->row[i].image);
    return write_rows(f, "/edges/image", FF_H5_I32, 2, (int64_t[]){n, 3}, s->first, s->n, image);
}

static ff_status write_all(const embed *m, ff_h5 *f, const char *deck, const edges *s, double *buf)
{
    const ff_h5_type real = m->f64 ? FF_H5_F64 : FF_H5_F32;
    const int64_t d = (int64_t)(m->h.o.lmax + 1) * (m->h.o.lmax + 1);
    const int64_t first = ff_share_begin(m->n_points, m->app->comm->rank, m->app->comm->size);
    FF_TRY(write_attributes(m, f));
    FF_TRY(write_rows(f, "/points", FF_H5_F64, 2, (int64_t[]){m->n_points, 3}, first, m->n_home, m->x));
    FF_TRY(write_rows(f, "/features", real, 3, (int64_t[]){m->n_points, d, m->h.o.n_channels}, first,
                      m->n_home, m->out));
    if (m->gradients) FF_TRY(write_gradients(m, f, real, first));
    if (s->row != NULL) FF_TRY(write_edges(m, f, s, buf));
    FF_TRY(ff_h5_group(f, "/farfield"));
    FF_TRY(ff_h5_attr_write_text(f, "/farfield", "version", ff_version()));
    return ff_h5_write_text(f, "/farfield/deck", deck);
}

static int64_t file_bytes(const embed *m)
{
    const int64_t real = m->f64 ? 8 : 4;
    return m->n_points * (48 + real * ff_head_n_out(&m->h.o)) +
           2 * real * (ff_head_n_w1(&m->h.o) + ff_head_n_w2(&m->h.o)) +
           (ff_config_bool(m->app->config, "embed.edges") ? 52 * m->e->n_edges : 0) + (1 << 20);
}

/* path.tmp, renamed when complete. Collective */
static ff_status write_h5(const embed *m, const char *path, const char *deck, const edges *s)
{
    ff_comm *comm = m->app->comm;
    ff_h5 *f = NULL;
    char *tmp = NULL;
    double *buf = NULL;
    ff_status st = ff_io_tmp_name(path, &tmp);
    if (st == FF_OK) st = FF_NEW(buf, 3 * s->n + 1);
    if (st == FF_OK && comm->rank == 0) st = ff_io_try_space(tmp, file_bytes(m));
    FF_GO(ff_agree(comm, st));
    st = ff_h5_create(comm, tmp, &f);
    if (st == FF_OK) {
        st = write_all(m, f, deck, s, buf);
        ff_status closed = ff_h5_close(&f);
        if (st == FF_OK) st = closed;
    }
    if (st == FF_OK)
        st = ff_agree(comm, comm->rank == 0 ? ff_io_publish(tmp, path) : FF_OK);
    else if (comm->rank == 0)
        ff_io_discard(tmp);
done:
    ff_free(tmp);
    ff_free(buf);
    return st;
}

/* ---- points with fields ---- */

static ff_status write_fields(const embed *m, const char *path, const char *deck)
{
    const ff_h5_type real = m->f64 ? FF_H5_F64 : FF_H5_F32;
    const ff_result_field field[2] = {{"features", (int)ff_head_n_out(&m->h.o), real, m->out},
                                      {"gradient", 3, FF_H5_F64, m->d_points}};
    const ff_result_text text[2] = {{"deck", deck}, {"version", ff_version()}};
    ff_result r = {.dim = 0, .n_points = m->n_home, .points = m->x};
    r.n_point_fields = m->gradients ? 2 : 1;
    r.point_field = field;
    r.n_texts = 2;
    r.text = text;
    return ff_result_write(m->app->comm, &r, path, ff_config_bool(m->app->config, "write.force"));
}

ff_status embed_write(embed *m)
{
    const char *path = ff_config_string(m->app->config, "output");
    ff_text deck = {0};
    edges s = {0, 0, NULL};
    ff_phase_begin("write");
    ff_config_print(m->app->config, &deck);
    ff_status st = ff_text_status(&deck);
    FF_GO(ff_agree(m->app->comm, st));
    if (ff_config_bool(m->app->config, "embed.edges")) FF_GO(edges_home(m, &s));
    FF_GO(is_h5(path) ? write_h5(m, path, ff_text_get(&deck), &s)
                      : write_fields(m, path, ff_text_get(&deck)));
    ff_info("wrote %s", path);
done:
    ff_text_free(&deck);
    ff_free(s.row);
    return st;
}
