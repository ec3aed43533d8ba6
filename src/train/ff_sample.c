#include "ff_sample.h"

#include "ff_exact.h"
#include "ff_extract.h"
#include "ff_h5.h"
#include "ff_mem.h"
#include "ff_mesh_dist.h"
#include "ff_rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 1024, PICK_FACES = 1, PICK_POINTS = 2, PLACE = 3 };

static const double no_shift[3] = {0, 0, 0};

void ff_sample_destroy(ff_sample **sp)
{
    ff_sample *s = *sp;
    if (s == NULL) return;
    ff_case_destroy(&s->c);
    ff_free(s->name);
    ff_free(s->truth);
    ff_free(s->weight);
    ff_mesh_destroy(&s->mesh);
    FF_FREE(*sp);
}

/* ---- reading one file ---- */

typedef struct reader {
    ff_comm *comm;
    const ff_model *m;
    const ff_sample_opts *opts;
    const char *path;
    ff_h5 *f;
    ff_sample *s;
    ff_mesh *target_mesh; /* boundary the targets belong to, as drawn; NULL: free points */

} reader;

/* Object names hold no '/': "a/b" is stored as "a_b". */
static void object_name(char *out, const char *group, const char *name)
{
    int at = snprintf(out, NAME_MAX_LEN, "%s/", group);
    for (; *name != 0 && at + 1 < NAME_MAX_LEN; name++) out[at++] = *name == '/' ? '_' : *name;
    out[at] = 0;
}

static ff_status wrong_shape(const reader *r, const char *name, const ff_h5_shape *s, int64_t rows,
                             int64_t comp)
{
    return ff_fail(FF_E_INPUT, "%s: %s has shape [%lld][%lld], expected [%lld][%lld]", r->path, name,
                   (long long)s->dim[0], (long long)s->row_len, (long long)rows, (long long)comp);
}

/* This rank's share of rows of a dataset as double, [share][comp]. rows -1: any number, returned. */
static ff_status read_share(const reader *r, const char *name, int comp, int64_t *rows, int64_t *begin,
                            int64_t *n, double **out)
{
    ff_h5_shape shape;
    FF_TRY(ff_h5_shape_of(r->f, name, &shape));
    if (shape.row_len != comp || (*rows >= 0 && shape.dim[0] != *rows) ||
        (shape.kind != FF_H5_FLOAT && shape.kind != FF_H5_INTEGER))
        return wrong_shape(r, name, &shape, *rows >= 0 ? *rows : shape.dim[0], comp);
    *rows = shape.dim[0];
    *begin = ff_share_begin(*rows, r->comm->rank, r->comm->size);
    *n = ff_share_begin(*rows, r->comm->rank + 1, r->comm->size) - *begin;
    FF_TRY(FF_NEW_ALL(r->comm, *out, *n * comp + 1));
    return ff_h5_read(r->f, name, FF_H5_F64, *begin, *n, *out);
}

/* One value or a vector of globals or lengths, an attribute of its group. */
static ff_status read_attr(const reader *r, const char *group, const char *name, int comp, double *out)
{
    if (!ff_h5_attr_exists(r->f, group, name))
        return ff_fail(FF_E_INPUT, "%s: %s has no attribute %s, which the model needs", r->path, group, name);
    return ff_h5_attr_read(r->f, group, name, FF_H5_F64, comp, out);
}

static ff_status read_numbers(const reader *r)
{
    const ff_model_config *m = r->m->config;
    ff_case *c = r->s->c;
    int at = 0;
    for (int i = 0; i < m->n_len; i++) {
        FF_TRY(read_attr(r, "/lengths", m->len[i], 1, &c->length[i]));
        if (!(c->length[i] > 0) || isinf(c->length[i]))
            return ff_fail(FF_E_INPUT, "%s: length %s = %g, expected > 0", r->path, m->len[i], c->length[i]);
    }
    for (int i = 0; i < m->globals.n; i++) {
        int comp = m->globals.item[i].rank == 0 ? 1 : m->dim;
        FF_TRY(read_attr(r, "/global", m->globals.item[i].name, comp, c->global + at));
        for (int d = 0; d < comp; d++)
            if (!isfinite(c->global[at + d]))
                return ff_fail(FF_E_INPUT, "%s: global %s = %g, expected a finite number", r->path,
                               m->globals.item[i].name, c->global[at + d]);
        at += comp;
    }
    return FF_OK;
}

/* ---- drawing ---- */

static uint64_t draw_key(const ff_sample_opts *o, int what, int boundary, int64_t id)
{
    return ff_rng_u64(o->seed, (o->draw << 12) ^ (uint64_t)(boundary << 4) ^ (uint64_t)what, (uint64_t)id);
}

/* keep [n]: the `want` items of smallest key among all ranks' (keys are distinct for practical purposes; equal ones stay
 * together). Bisection of the threshold, one integer sum a step.                                        Collective */
static ff_status keep_smallest(ff_comm *comm, const uint64_t *key, int64_t n, int64_t want, uint8_t *keep)
{
    uint64_t lo = 0, hi = UINT64_MAX; /* smallest threshold with at least `want` keys at or below it */
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        int64_t below = 0;
        for (int64_t i = 0; i < n; i++) below += key[i] <= mid;
        FF_TRY(ff_comm_allreduce(comm, &below, 1, FF_SUM_I64));
        if (below >= want)
            hi = mid;
        else
            lo = mid + 1;
    }
    for (int64_t i = 0; i < n; i++) keep[i] = key[i] <= lo;
    return FF_OK;
}

/* Which of this rank's items, numbers begin.. of `total`, are drawn; all if want is 0 or not fewer. */
static ff_status draw(const reader *r, int what, int boundary, int64_t begin, int64_t n, int64_t total,
                      int64_t want, uint8_t *keep)
{
    uint64_t *key = NULL;
    memset(keep, 1, (size_t)n);
    if (want == 0 || want >= total) return FF_OK;
    FF_TRY(FF_NEW_ALL(r->comm, key, n + 1));
    for (int64_t i = 0; i < n; i++) key[i] = draw_key(r->opts, what, boundary, begin + i);
    ff_status st = keep_smallest(r->comm, key, n, want, keep);
    ff_free(key);
    return st;
}

/* ---- boundaries ---- */

static ff_status read_boundary_mesh(const reader *r, const char *group, ff_mesh *m)
{
    char name[NAME_MAX_LEN];
    double *cells = NULL;
    int64_t n_points = -1, begin, n, dim = r->m->config->dim;
    object_name(name, group, "points");
    FF_TRY(read_share(r, name, 3, &n_points, &begin, &m->n_points, &m->points));
    object_name(name, group, "cells");
    m->dim = (int)dim;
    m->n_cells_global = -1;
    FF_TRY(read_share(r, name, (int)dim, &m->n_cells_global, &m->cell_begin, &n, &cells));
    ff_status st = FF_NEW(m->cell_pts, n * dim + 1);
    for (int64_t i = 0; i < n * dim && st == FF_OK; i++) { /* ids below 2^53 are exact in double */
        m->cell_pts[i] = (int64_t)cells[i];
        if (!(cells[i] >= 0 && cells[i] < (double)n_points))
            st = ff_fail(FF_E_INPUT, "%s: %s: cell %lld names point %g, expected 0 .. %lld", r->path, name,
                         (long long)(m->cell_begin + i / dim), cells[i], (long long)n_points - 1);
    }
    for (int64_t i = 0; i < 3 * m->n_points && st == FF_OK; i++)
        if (!isfinite((float)m->points[i]))
            st = ff_fail(FF_E_INPUT, "%s: %s/points: point %lld is not finite", r->path, group,
                         (long long)(begin + i / 3));
    ff_free(cells);
    FF_TRY(ff_agree(r->comm, st));
    m->n_cells = n;
    FF_TRY(ff_agree(r->comm, ff_mesh_set_patch(m, FF_PATCH_SINGLE)));
    return ff_mesh_localise(r->comm, m, n_points);
}

/* Source fields the model wants, and for the targets' boundary the true fields, as cell data. */
static ff_status read_cell_field(const reader *r, const char *object, const char *as, int comp, ff_mesh *m)
{
    double *v = NULL;
    int64_t begin, n = 0;
    ff_status st = read_share(r, object, comp, &m->n_cells_global, &begin, &n, &v);
    if (st == FF_OK) st = ff_field_set_add(&m->cell_data, as, comp, n, &v);
    ff_free(v);
    return ff_agree(r->comm, st);
}

/* Area of the cells kept over the area of all: what each kept face stands for more. */
static ff_status area_factor(const reader *r, const ff_mesh *m, const uint8_t *keep, double *factor)
{
    ff_exact sum[2] = {{0}};
    double *area = NULL;
    FF_TRY(FF_NEW_ALL(r->comm, area, m->n_cells + 1));
    ff_mesh_cell_areas(m, area);
    for (int64_t i = 0; i < m->n_cells; i++) {
        ff_exact_add(&sum[0], area[i]);
        if (keep[i]) ff_exact_add(&sum[1], area[i]);
    }
    ff_free(area);
    FF_TRY(ff_exact_allreduce(r->comm, sum, 2));
    double kept = ff_exact_value(&sum[1]);
    *factor = kept > 0 ? ff_exact_value(&sum[0]) / kept : 1;
    return FF_OK;
}

static const char weights_name[] = "_measure_weights";

/* What each face stands for, times factor; 1 where the file does not say. */
static ff_status scale_weights(ff_mesh *m, double factor)
{
    double *w = NULL;
    for (int i = 0; i < m->cell_data.n; i++)
        if (strcmp(m->cell_data.field[i].name, weights_name) == 0) {
            for (int64_t k = 0; k < m->n_cells; k++) m->cell_data.field[i].value[k] *= factor;
            return FF_OK;
        }
    FF_TRY(FF_NEW(w, m->n_cells + 1));
    for (int64_t k = 0; k < m->n_cells; k++) w[k] = factor;
    ff_status st = ff_field_set_add(&m->cell_data, weights_name, 1, m->n_cells, &w);
    ff_free(w);
    return st;
}

/* The faces drawn from m in its place, with the area factor in the measure weights. */
static ff_status subsample(const reader *r, int boundary, ff_mesh **mp)
{
    ff_status st = FF_OK;
    ff_mesh *m = *mp, *part = NULL;
    uint8_t *keep = NULL;
    double factor = 1;
    if (r->opts->faces == 0 || r->opts->faces >= m->n_cells_global) return FF_OK;
    FF_TRY(FF_NEW_ALL(r->comm, keep, m->n_cells + 1));
    FF_GO(draw(r, PICK_FACES, boundary, m->cell_begin, m->n_cells, m->n_cells_global, r->opts->faces, keep));
    FF_GO(area_factor(r, m, keep, &factor));
    st = ff_mesh_extract(m, keep, NULL, NULL, &part);
    if (st == FF_OK) st = scale_weights(part, factor);
    FF_GO(ff_agree(r->comm, st));
    ff_mesh_destroy(mp);
    *mp = part;
    part = NULL;
done:
    ff_free(keep);
    ff_mesh_destroy(&part);
    return st;
}

static const char truth_prefix[] = "_truth.", number_name[] = "_number";

/* The cells' numbers in the file, as a field: it stays with the faces that are drawn. */
static ff_status number_cells(ff_mesh *m)
{
    double *v = NULL;
    FF_TRY(FF_NEW(v, m->n_cells + 1));
    for (int64_t i = 0; i < m->n_cells; i++) v[i] = (double)(m->cell_begin + i);
    ff_status st = ff_field_set_add(&m->cell_data, number_name, 1, m->n_cells, &v);
    ff_free(v);
    return st;
}

static ff_status read_truth_cells(const reader *r, ff_mesh *m)
{
    const ff_name_list *out = &r->m->config->outputs;
    for (int i = 0; i < out->n; i++) {
        char object[NAME_MAX_LEN], as[NAME_MAX_LEN];
        object_name(object, "/targets/fields", out->item[i].name);
        (void)snprintf(as, sizeof as, "%s%s", truth_prefix, out->item[i].name);
        if (!ff_h5_exists(r->f, object)) continue;
        FF_TRY(read_cell_field(r, object, as, out->item[i].rank == 0 ? 1 : r->m->config->dim, m));
    }
    if (!ff_h5_exists(r->f, "/targets/weights")) return FF_OK;
    return read_cell_field(r, "/targets/weights", "_truth_weights", 1, m);
}

static ff_status add_boundary(reader *r, int bc, const char *target)
{
    ff_status st = FF_OK;
    const ff_model_bc *b = &r->m->config->bc[bc];
    char group[NAME_MAX_LEN], fields[NAME_MAX_LEN], object[2 * NAME_MAX_LEN];
    ff_mesh *m = NULL;
    bool is_target = target != NULL && strcmp(target, b->name) == 0;
    object_name(group, "/boundary", b->name);
    if (!ff_h5_exists(r->f, group)) return FF_OK; /* a sample may hold a part of the model's boundaries */
    (void)snprintf(fields, sizeof fields, "%.*s/cell_data", NAME_MAX_LEN - 32, group);
    FF_GO(ff_agree(r->comm, ff_mesh_create(&m)));
    FF_GO(read_boundary_mesh(r, group, m));
    for (int i = 0; i < b->fields.n; i++) {
        object_name(object, fields, b->fields.item[i].name);
        FF_GO(read_cell_field(r, object, b->fields.item[i].name,
                              b->fields.item[i].rank == 0 ? 1 : r->m->config->dim, m));
    }
    object_name(object, fields, weights_name);
    if (ff_h5_exists(r->f, object)) FF_GO(read_cell_field(r, object, weights_name, 1, m));
    if (is_target) FF_GO(read_truth_cells(r, m));
    if (is_target && r->opts->inside) FF_GO(ff_agree(r->comm, number_cells(m)));
    bool drawn = r->opts->faces > 0 && r->opts->faces < m->n_cells_global;
    FF_GO(subsample(r, bc, &m));
    FF_GO(ff_agree(r->comm, ff_case_add_mesh(r->s->c, b->name, m, no_shift)));
    if (is_target) {
        r->s->drawn = drawn;
        r->target_mesh = m;
        m = NULL;
    }
done:
    ff_mesh_destroy(&m);
    return st;
}

/* ---- targets ---- */

static ff_status alloc_truth(const reader *r, int64_t n)
{
    ff_sample *s = r->s;
    int n_comp = ff_names_comp(&r->m->config->outputs, r->m->config->dim);
    s->n = n;
    FF_TRY(FF_NEW(s->truth, n * n_comp + 1));
    FF_TRY(FF_NEW(s->weight, n + 1));
    for (int64_t i = 0; i < n * n_comp; i++) s->truth[i] = (double)NAN;
    for (int64_t i = 0; i < n; i++) s->weight[i] = 1;
    return FF_OK;
}

/* Puts rows [n][comp] into the columns of output field f. */
static void take_truth(const reader *r, int f, const double *rows)
{
    const ff_name_list *out = &r->m->config->outputs;
    int n_comp = ff_names_comp(out, r->m->config->dim), at = 0, dim = r->m->config->dim;
    for (int i = 0; i < f; i++) at += out->item[i].rank == 0 ? 1 : dim;
    int comp = out->item[f].rank == 0 ? 1 : dim;
    for (int64_t i = 0; i < r->s->n; i++)
        for (int d = 0; d < comp; d++) {
            double v = rows[i * comp + d];
            r->s->truth[i * n_comp + at + d] = isfinite(v) ? v : (double)NAN;
        }
}

/* A point of triangle (edge) k, uniform by area, drawn by its number in the file. */
static void point_inside(const reader *r, const ff_mesh *m, int64_t k, double number, double x[3])
{
    uint64_t id = draw_key(r->opts, PLACE, 0, (int64_t)number);
    double u = (double)(id >> 32) * 0x1.0p-32, v = (double)(id & 0xffffffff) * 0x1.0p-32;
    const int64_t *c = m->cell_pts + m->dim * k;
    if (u + v > 1 && m->dim == 3) {
        u = 1 - u;
        v = 1 - v;
    }
    for (int d = 0; d < 3; d++) {
        double a = m->points[3 * c[0] + d], b = m->points[3 * c[1] + d];
        x[d] = a + u * (b - a);
        if (m->dim == 3) x[d] += v * (m->points[3 * c[2] + d] - a);
    }
}

static ff_status target_cells(reader *r, const char *target)
{
    ff_status st = FF_OK;
    const ff_mesh *m = r->target_mesh;
    ff_case *c = r->s->c;
    const ff_name_list *out = &r->m->config->outputs;
    double *x = NULL;
    int bc = ff_model_find_bc(r->m->config, target);
    FF_GO(alloc_truth(r, m->n_cells));
    for (int i = 0; i < out->n; i++) {
        char as[NAME_MAX_LEN];
        (void)snprintf(as, sizeof as, "%s%s", truth_prefix, out->item[i].name);
        const ff_field *f = ff_field_set_find(&m->cell_data, as);
        if (f != NULL) take_truth(r, i, f->value);
    }
    const ff_field *w = ff_field_set_find(&m->cell_data, "_truth_weights");
    for (int s = 0; s < c->n_sources; s++) {
        if (c->source[s].bc != bc) continue;
        c->target_source = s;
        memcpy(r->s->weight, w != NULL ? w->value : c->source[s].area, (size_t)m->n_cells * sizeof(double));
    }
    if (r->opts->inside) {
        const ff_field *number = ff_field_set_find(&m->cell_data, number_name);
        FF_GO(FF_NEW(x, 3 * m->n_cells + 1));
        for (int64_t k = 0; k < m->n_cells; k++) point_inside(r, m, k, number->value[k], x + 3 * k);
        FF_GO(ff_case_set_targets(c, x, m->n_cells, no_shift));
    }
done:
    ff_free(x);
    return st;
}

/* Rows of v [n][comp] that are kept, moved to the front; their number. */
static int64_t compact(double *v, int64_t n, int comp, const uint8_t *keep)
{
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!keep[i]) continue;
        memmove(v + m * comp, v + i * comp, (size_t)comp * sizeof *v);
        m++;
    }
    return m;
}

static ff_status target_points(reader *r)
{
    ff_status st = FF_OK;
    const ff_name_list *out = &r->m->config->outputs;
    double *x = NULL, *v = NULL;
    uint8_t *keep = NULL;
    int64_t total = -1, begin, n;
    FF_GO(read_share(r, "/targets/points", 3, &total, &begin, &n, &x));
    FF_GO(FF_NEW_ALL(r->comm, keep, n + 1));
    FF_GO(draw(r, PICK_POINTS, 0, begin, n, total, r->opts->targets, keep));
    int64_t kept = compact(x, n, 3, keep);
    for (int64_t i = 0; i < 3 * kept && st == FF_OK; i++)
        if (!isfinite((float)x[i])) st = ff_fail(FF_E_INPUT, "%s: /targets/points is not finite", r->path);
    if (st == FF_OK) st = alloc_truth(r, kept);
    if (st == FF_OK) st = ff_case_set_targets(r->s->c, x, kept, no_shift);
    FF_GO(ff_agree(r->comm, st));
    for (int i = 0; i < out->n; i++) {
        char object[NAME_MAX_LEN];
        int comp = out->item[i].rank == 0 ? 1 : r->m->config->dim;
        object_name(object, "/targets/fields", out->item[i].name);
        if (!ff_h5_exists(r->f, object)) continue;
        FF_FREE(v);
        FF_GO(read_share(r, object, comp, &total, &begin, &n, &v));
        (void)compact(v, n, comp, keep);
        take_truth(r, i, v);
    }
    if (!ff_h5_exists(r->f, "/targets/weights")) goto done;
    FF_FREE(v);
    FF_GO(read_share(r, "/targets/weights", 1, &total, &begin, &n, &v));
    (void)compact(v, n, 1, keep);
    memcpy(r->s->weight, v, (size_t)kept * sizeof *v);
done:
    ff_free(x);
    ff_free(v);
    ff_free(keep);
    return st;
}

static ff_status check_weights(const reader *r)
{
    for (int64_t i = 0; i < r->s->n; i++)
        if (!(r->s->weight[i] >= 0) || isinf(r->s->weight[i]))
            return ff_fail(FF_E_INPUT, "%s: /targets/weights holds %g, expected finite numbers >= 0", r->path,
                           r->s->weight[i]);
    return FF_OK;
}

static ff_status check_head(const reader *r)
{
    char *format = NULL;
    int64_t version = 0, dim = 0;
    ff_status st = FF_OK;
    if (!ff_h5_attr_exists(r->f, "/", "format") || !ff_h5_exists(r->f, "/targets/fields"))
        return ff_fail(FF_E_INPUT, "%s: no training sample; tools/make_samples.py makes them", r->path);
    FF_GO(ff_h5_attr_read_text(r->f, "/", "format", &format));
    FF_GO(ff_h5_attr_read(r->f, "/", "format_version", FF_H5_I64, 1, &version));
    FF_GO(ff_h5_attr_read(r->f, "/", "dim", FF_H5_I64, 1, &dim));
    if (strcmp(format, "farfield-sample") != 0 || version != 1)
        FF_GO(ff_fail(FF_E_INPUT, "%s: format %s version %lld, expected farfield-sample version 1", r->path,
                      format, (long long)version));
    if (dim != r->m->config->dim)
        FF_GO(ff_fail(FF_E_INPUT, "%s: %lld dimensions, the model has %d", r->path, (long long)dim,
                      r->m->config->dim));
done:
    ff_free(format);
    return st;
}

/* Adds 1 to has[f] for each output field that is there; at least one must be. */
static ff_status find_fields(const reader *r, int64_t *has)
{
    const ff_name_list *out = &r->m->config->outputs;
    int n = 0;
    for (int f = 0; f < out->n; f++) {
        char object[NAME_MAX_LEN];
        object_name(object, "/targets/fields", out->item[f].name);
        if (!ff_h5_exists(r->f, object)) continue;
        if (has != NULL) has[f]++;
        n++;
    }
    if (n > 0 || out->n == 0) return FF_OK;
    return ff_fail(FF_E_INPUT, "%s: /targets/fields holds none of the model's output fields, expected %s%s",
                   r->path, out->item[0].name, out->n > 1 ? " or another" : "");
}

ff_status ff_sample_fields(const ff_model *m, const char *path, int64_t *has)
{
    reader r = {.comm = ff_comm_self(), .m = m, .path = path};
    FF_TRY(ff_h5_open(r.comm, path, &r.f));
    ff_status st = check_head(&r);
    if (st == FF_OK) st = find_fields(&r, has);
    ff_status closed = ff_h5_close(&r.f);
    return st != FF_OK ? st : closed;
}

static ff_status read_all(reader *r)
{
    ff_status st = FF_OK;
    char *target = NULL;
    FF_GO(check_head(r));
    FF_GO(find_fields(r, NULL));
    FF_GO(read_numbers(r));
    if (ff_h5_attr_exists(r->f, "/targets", "boundary"))
        FF_GO(ff_h5_attr_read_text(r->f, "/targets", "boundary", &target));
    for (int bc = 0; bc < r->m->config->n_bc; bc++) FF_GO(add_boundary(r, bc, target));
    if (r->s->c->n_sources == 0)
        FF_GO(ff_fail(FF_E_INPUT, "%s: none of the model's boundaries is there", r->path));
    if (target != NULL && r->target_mesh == NULL)
        FF_GO(ff_fail(FF_E_INPUT, "%s: targets lie on boundary %s, which the model or the file lacks",
                      r->path, target));
    FF_GO(target != NULL ? ff_agree(r->comm, target_cells(r, target)) : target_points(r));
    st = ff_agree(r->comm, check_weights(r));
done:
    ff_free(target);
    return st;
}

static ff_status sample_start(ff_comm *comm, const ff_model *m, const char *name, ff_sample **out)
{
    ff_sample *s = NULL;
    FF_TRY(FF_NEW0_ALL(comm, s, 1));
    *out = s;
    s->name = ff_strdup(name);
    return ff_agree(comm, s->name != NULL ? ff_case_create(m, &s->c) : FF_E_MEM);
}

ff_status ff_sample_read(ff_comm *comm, const ff_model *m, const char *path, const ff_sample_opts *opts,
                         ff_sample **out)
{
    reader r = {.comm = comm, .m = m, .opts = opts, .path = path};
    *out = NULL;
    ff_status st = sample_start(comm, m, path, out);
    r.s = *out;
    if (st == FF_OK) st = ff_h5_open(comm, path, &r.f);
    if (st == FF_OK) {
        st = read_all(&r);
        ff_status closed = ff_h5_close(&r.f);
        if (st == FF_OK) st = closed;
    }
    if (opts->keep_mesh && st == FF_OK) {
        r.s->mesh = r.target_mesh;
        r.target_mesh = NULL;
    }
    ff_mesh_destroy(&r.target_mesh);
    if (st != FF_OK) ff_sample_destroy(out);
    return st;
}
