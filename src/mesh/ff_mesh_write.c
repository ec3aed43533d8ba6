#include "ff_mesh_write.h"

#include "ff_io.h"
#include "ff_log.h"
#include "ff_mem.h"
#include "ff_mesh_write_impl.h"
#include "ff_result.h"

#include <string.h>
#include <strings.h>

/* ---- OBJ ---- */

ff_status ff_write_text(ff_text *t, FILE *f, const char *path, int64_t limit)
{
    FF_TRY(ff_text_status(t));
    if (t->n < limit || t->n == 0) return FF_OK;
    FF_TRY(ff_io_put(f, path, t->s, (size_t)t->n));
    t->n = 0;
    return FF_OK;
}

/* A blank in a group's name would make two groups of it. */
static void obj_group(ff_text *t, const char *name)
{
    ff_text_add(t, "g ");
    for (; *name != 0; name++) ff_text_put(t, (unsigned char)*name <= ' ' ? "_" : name, 1);
    ff_text_put(t, "\n", 1);
}

static ff_status obj_write(const ff_mesh *m, FILE *f, const char *path)
{
    ff_status st = FF_OK;
    ff_text t = {0};
    int digits = m->points_float32 ? 9 : 17;
    int32_t patch = -1;
    ff_text_add(&t, "# farfield: %lld points, %lld cells\n", (long long)m->n_points, (long long)m->n_cells);
    for (int64_t p = 0; p < m->n_points; p++) {
        const double *x = m->points + 3 * p;
        ff_text_add(&t, "v %.*g %.*g %.*g\n", digits, x[0], digits, x[1], digits, x[2]);
        FF_GO(ff_write_text(&t, f, path, FF_WRITE_CHUNK));
    }
    for (int64_t c = 0; c < m->n_cells; c++) {
        int64_t n, at = ff_mesh_cell(m, c, &n);
        if (m->cell_patch != NULL && m->cell_patch[c] != patch) {
            patch = m->cell_patch[c];
            obj_group(&t, m->patch_name[patch]);
        }
        ff_text_put(&t, m->dim == 2 ? "l" : "f", 1);
        for (int64_t i = at; i < at + n; i++) ff_text_add(&t, " %lld", (long long)m->cell_pts[i] + 1);
        ff_text_put(&t, "\n", 1);
        FF_GO(ff_write_text(&t, f, path, FF_WRITE_CHUNK));
    }
    st = ff_write_text(&t, f, path, 0);
done:
    ff_text_free(&t);
    return st;
}

/* ---- any format ---- */

/* What a format cannot hold. */
enum { NO_FIELDS = 1, NO_BLANKS = 2, FOUR_CORNERS = 4, TRIANGLES = 8, FLOAT32 = 16 };

typedef ff_status writer(const ff_mesh *m, FILE *f, const char *path);

static const struct {
    const char *ext;
    writer *write; /* NULL: a result file without results */
    int limits;
} formats[] = {{".vtkhdf", NULL, 0},
               {".vtp", NULL, 0},
               {".h5", NULL, 0},
               {".stl", ff_write_stl, NO_FIELDS | TRIANGLES | FLOAT32},
               {".obj", obj_write, NO_FIELDS | NO_BLANKS},
               {".msh", ff_write_gmsh, FOUR_CORNERS},
               {".su2", ff_write_su2, NO_FIELDS | NO_BLANKS | FOUR_CORNERS}};

static int format_of(const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        size_t e = strlen(formats[i].ext);
        if (n > e && strcasecmp(path + n - e, formats[i].ext) == 0) return (int)i;
    }
    return -1;
}

ff_status ff_mesh_can_write(const char *path)
{
    if (format_of(path) >= 0) return FF_OK;
    return ff_fail(FF_E_ARG,
                   "%s: no format of this name is written; use .vtkhdf, .vtp, .h5, .stl, .obj, .msh or .su2",
                   path);
}

static ff_status warn_of_fields(const ff_field_set *set, const char *path, const char *where)
{
    ff_text names = {0};
    if (set->n == 0) return FF_OK;
    for (int i = 0; i < set->n; i++) ff_text_add(&names, "%s%s", i > 0 ? ", " : "", set->field[i].name);
    ff_status st = ff_text_status(&names);
    if (st == FF_OK)
        ff_warn("%s: this format holds no fields: %d at %s left out: %s; write .vtkhdf, .vtp or .msh to keep "
                "them",
                path, set->n, where, names.s);
    ff_text_free(&names);
    return st;
}

static void warn_of_names(const ff_mesh *m, const char *path)
{
    int n = 0;
    const char *first = NULL;
    for (int p = 0; p < m->n_patches && m->n_patches > 1; p++) {
        bool blank = false;
        for (const char *c = m->patch_name[p]; *c != 0; c++) blank |= (unsigned char)*c <= ' ';
        n += blank;
        if (blank && first == NULL) first = m->patch_name[p];
    }
    if (n > 0)
        ff_warn("%s: this format has no blanks in names: they became _ in %d patches, the first is \"%s\"",
                path, n, first);
}

/* Names and counts what the format does not hold. */
static ff_status warn_of_losses(const ff_mesh *m, const char *path, int limits)
{
    int64_t large = 0, corners, rounded = 0;
    for (int64_t c = 0; c < m->n_cells; c++) {
        (void)ff_mesh_cell(m, c, &corners);
        large += corners > ((limits & TRIANGLES) != 0 ? 3 : 4);
    }
    for (int64_t i = 0; i < 3 * m->n_points; i++) rounded += (double)(float)m->points[i] != m->points[i];
    if ((limits & NO_FIELDS) != 0) {
        FF_TRY(warn_of_fields(&m->point_data, path, "points"));
        FF_TRY(warn_of_fields(&m->cell_data, path, "cells"));
    }
    if ((limits & NO_BLANKS) != 0) warn_of_names(m, path);
    if ((limits & (TRIANGLES | FOUR_CORNERS)) != 0 && large > 0)
        ff_warn("%s: this format holds %s: %lld larger cells became triangles", path,
                (limits & TRIANGLES) != 0 ? "triangles alone" : "cells of at most four corners",
                (long long)large);
    if ((limits & FLOAT32) != 0 && rounded > 0 && !ff_write_stl_is_text(m))
        ff_warn("%s: binary STL holds float32: %lld of %lld coordinates are rounded", path,
                (long long)rounded, (long long)(3 * m->n_points));
    return FF_OK;
}

ff_status ff_mesh_write(const ff_mesh *m, const char *path)
{
    ff_status st = FF_OK;
    char *tmp = NULL;
    FILE *f = NULL;
    FF_TRY(ff_mesh_can_write(path));
    writer *write = formats[format_of(path)].write;
    if (write == NULL) return ff_result_write_mesh(ff_comm_self(), m, NULL, 0, path, true);
    if (write == ff_write_stl && m->dim == 2)
        return ff_fail(FF_E_ARG, "%s: STL holds triangles, the mesh is a curve; write .vtkhdf, .vtp or .obj",
                       path);
    FF_GO(warn_of_losses(m, path, formats[format_of(path)].limits));
    FF_GO(ff_io_tmp_name(path, &tmp));
    FF_GO(ff_io_open(tmp, &f));
    FF_GO(write(m, f, path));
    FF_GO(ff_io_close(&f, path));
    FF_GO(ff_io_publish(tmp, path));
done:
    if (f != NULL) (void)ff_io_close(&f, path);
    if (st != FF_OK) ff_io_discard(tmp);
    ff_free(tmp);
    return st;
}
