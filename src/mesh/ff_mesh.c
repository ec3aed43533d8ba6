#include "ff_mesh.h"

#include "ff_mem.h"

#include <math.h>
#include <string.h>

ff_status ff_mesh_create(ff_mesh **out)
{
    FF_TRY(FF_NEW0(*out, 1));
    (*out)->dim = 3;
    return FF_OK;
}

void ff_mesh_destroy(ff_mesh **mesh)
{
    ff_mesh *m = *mesh;
    if (m == NULL) return;
    ff_free(m->points);
    ff_free(m->cell_off);
    ff_free(m->cell_pts);
    for (int i = 0; i < m->n_patches; i++) ff_free(m->patch_name[i]);
    ff_free(m->patch_name);
    ff_free(m->cell_patch);
    ff_free(m->point_gid);
    ff_field_set_free(&m->cell_data);
    ff_field_set_free(&m->point_data);
    FF_FREE(*mesh);
}

ff_status ff_mesh_set_patch(ff_mesh *m, const char *name)
{
    for (int i = 0; i < m->n_patches; i++) ff_free(m->patch_name[i]);
    m->n_patches = 0;
    FF_FREE(m->patch_name);
    FF_FREE(m->cell_patch);
    FF_TRY(FF_NEW(m->patch_name, 1));
    if ((m->patch_name[0] = ff_strdup(name)) == NULL) return FF_E_MEM;
    m->n_patches = 1;
    return FF_OK;
}

/* ---- last step of every reader ---- */

/* Products of two lengths (areas, squared distances) must stay within float32. */
#define COORD_MAX 1e18

static ff_status scale_points(ff_mesh *m, const char *path, double scale)
{
    if (!(scale > 0) || !isfinite(scale))
        return ff_fail(FF_E_ARG, "%s: scale = %g, expected a positive number", path, scale);
    for (int64_t i = 0; i < 3 * m->n_points; i++) {
        m->points[i] *= scale;
        if (fabs(m->points[i]) <= COORD_MAX) continue;
        long long point = m->point_gid != NULL ? m->point_gid[i / 3] : i / 3;
        double x = m->points[i];
        return ff_fail(FF_E_INPUT, "%s: point %lld: %c = %g, expected a finite number%s", path, point,
                       "xyz"[i % 3], x, isfinite(x) ? " up to 1e18; check the file and --scale" : "");
    }
    return FF_OK;
}

static ff_status check_cells(const ff_mesh *m, const char *path)
{
    for (int64_t c = 0; c < m->n_cells; c++) {
        int64_t n, at = ff_mesh_cell(m, c, &n);
        if (n < m->dim)
            return ff_fail(FF_E_INPUT, "%s: cell %lld has %lld points, expected at least %d", path,
                           (long long)c, (long long)n, m->dim);
        for (int64_t i = at; i < at + n; i++)
            if (m->cell_pts[i] < 0 || m->cell_pts[i] >= m->n_points)
                return ff_fail(FF_E_INPUT, "%s: cell %lld: point id %lld, expected 0 <= id < %lld", path,
                               (long long)c, (long long)m->cell_pts[i], (long long)m->n_points);
    }
    return FF_OK;
}

static void drop_plain_off(ff_mesh *m)
{
    if (m->cell_off == NULL) return;
    for (int64_t c = 0; c <= m->n_cells; c++)
        if (m->cell_off[c] != c * m->dim) return;
    FF_FREE(m->cell_off);
}

/* A curve belongs into the x-y plane. Tolerance: what float32 coordinates of that plane may differ by. */
static ff_status flatten(ff_mesh *m, const char *path)
{
    double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (int64_t i = 0; i < 2 * m->n_cells; i++)
        for (int k = 0; k < 3; k++) {
            double x = m->points[3 * m->cell_pts[i] + k];
            lo[k] = fmin(lo[k], x);
            hi[k] = fmax(hi[k], x);
        }
    double size = fmax(fmax(hi[0] - lo[0], hi[1] - lo[1]), fabs(hi[2]));
    if (m->n_cells > 0 && hi[2] - lo[2] > 1e-6 * size)
        return ff_fail(FF_E_INPUT,
                       "%s: a curve with z from %g to %g, expected a plane z = const; rotate it first", path,
                       lo[2], hi[2]);
    for (int64_t i = 0; i < m->n_points; i++) m->points[3 * i + 2] = 0;
    return FF_OK;
}

ff_status ff_mesh_finish(ff_mesh *m, const char *path, const ff_read_opts *opts)
{
    FF_TRY(scale_points(m, path, opts->scale));
    FF_TRY(check_cells(m, path));
    drop_plain_off(m);
    if (m->dim == 2 && m->cell_off != NULL)
        return ff_fail(FF_E_INPUT, "%s: a curve with cells of more than 2 points", path);
    if (m->dim == 2 && !opts->keep_z) FF_TRY(flatten(m, path));
    if (m->n_patches == 0 && m->n_cells > 0) FF_TRY(ff_mesh_set_patch(m, FF_PATCH_SINGLE));
    m->cell_begin = 0;
    m->n_cells_global = m->n_cells;
    return FF_OK;
}
