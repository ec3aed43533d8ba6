#include "ff_mesh_write.h"

#include "ff_io.h"
#include "ff_mem.h"
#include "ff_mesh_write_impl.h"
#include "ff_result.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/* ---- STL ---- */

enum { STL_HEADER = 80, STL_FACET = 50 };

/* Unit normal of a triangle, zero without area. */
static void facet_normal(const float p[9], float n[3])
{
    double a[3], b[3], c[3];
    for (int k = 0; k < 3; k++) a[k] = (double)p[3 + k] - p[k], b[k] = (double)p[6 + k] - p[k];
    for (int k = 0; k < 3; k++) c[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
    double len = sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2]);
    for (int k = 0; k < 3; k++) n[k] = len > 0 ? (float)(c[k] / len) : 0.0f;
}

/* Facets [begin, end) of a mesh of triangles, 50 bytes each; the program's machines are little-endian. */
static void stl_facets(const ff_mesh *t, int64_t begin, int64_t end, char *out)
{
    for (int64_t c = begin; c < end; c++, out += STL_FACET) {
        float f[12];
        for (int i = 0; i < 9; i++) f[3 + i] = (float)t->points[3 * t->cell_pts[3 * c + i / 3] + i % 3];
        facet_normal(f + 3, f);
        memcpy(out, f, sizeof f);
        memset(out + sizeof f, 0, STL_FACET - sizeof f);
    }
}

static ff_status stl_write(const ff_mesh *m, FILE *f, const char *path)
{
    ff_status st = FF_OK;
    ff_mesh *t = NULL;
    int64_t *parent = NULL, per_chunk = FF_WRITE_CHUNK / STL_FACET;
    char header[STL_HEADER + 4] = "farfield binary STL", *chunk = NULL;
    FF_GO(ff_mesh_triangulate(m, &t, &parent));
    if (t->n_cells > (int64_t)UINT32_MAX) {
        st = ff_fail(FF_E_ARG, "%s: %lld triangles, expected fewer than 2^32; write .vtkhdf", path,
                     (long long)t->n_cells);
        goto done;
    }
    FF_GO(FF_NEW(chunk, per_chunk * STL_FACET));
    uint32_t n = (uint32_t)t->n_cells;
    memcpy(header + STL_HEADER, &n, sizeof n);
    FF_GO(ff_io_put(f, path, header, sizeof header));
    for (int64_t begin = 0; begin < t->n_cells; begin += per_chunk) {
        int64_t end = begin + per_chunk < t->n_cells ? begin + per_chunk : t->n_cells;
        stl_facets(t, begin, end, chunk);
        FF_GO(ff_io_put(f, path, chunk, (size_t)((end - begin) * STL_FACET)));
    }
done:
    ff_free(chunk);
    ff_free(parent);
    ff_mesh_destroy(&t);
    return st;
}

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

typedef ff_status writer(const ff_mesh *m, FILE *f, const char *path);

static const struct {
    const char *ext;
    writer *write; /* NULL: a result file without results */
} formats[] = {{".vtkhdf", NULL},   {".vtp", NULL},          {".h5", NULL},         {".stl", stl_write},
               {".obj", obj_write}, {".msh", ff_write_gmsh}, {".su2", ff_write_su2}};

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

ff_status ff_mesh_write(const ff_mesh *m, const char *path)
{
    ff_status st = FF_OK;
    char *tmp = NULL;
    FILE *f = NULL;
    FF_TRY(ff_mesh_can_write(path));
    writer *write = formats[format_of(path)].write;
    if (write == NULL) return ff_result_write_mesh(ff_comm_self(), m, NULL, 0, path, true);
    if (write == stl_write && m->dim == 2)
        return ff_fail(FF_E_ARG, "%s: STL holds triangles, the mesh is a curve; write .vtkhdf, .vtp or .obj",
                       path);
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
