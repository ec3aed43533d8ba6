/* STL: binary, or text where patches are to be kept. */
#include "ff_io.h"
#include "ff_mem.h"
#include "ff_mesh_write_impl.h"
#include "ff_sort.h"

#include <math.h>
#include <string.h>

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

static ff_status write_binary(const ff_mesh *m, FILE *f, const char *path)
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

/* ---- text ---- */

/* One line; a name is what follows "solid". */
static void add_name(ff_text *t, const char *word, const char *name)
{
    ff_text_add(t, "%s", word);
    if (name[0] != 0) ff_text_put(t, " ", 1);
    for (; *name != 0; name++) ff_text_put(t, (unsigned char)*name < ' ' ? " " : name, 1);
    ff_text_put(t, "\n", 1);
}

static void add_facet(ff_text *t, const ff_mesh *tri, int64_t c)
{
    float p[9], n[3];
    int digits = tri->points_float32 ? 9 : 17;
    for (int i = 0; i < 9; i++) p[i] = (float)tri->points[3 * tri->cell_pts[3 * c + i / 3] + i % 3];
    facet_normal(p, n);
    ff_text_add(t, "facet normal %.9g %.9g %.9g\nouter loop\n", (double)n[0], (double)n[1], (double)n[2]);
    for (int i = 0; i < 3; i++) {
        const double *x = tri->points + 3 * tri->cell_pts[3 * c + i];
        ff_text_add(t, "vertex %.*g %.*g %.*g\n", digits, x[0], digits, x[1], digits, x[2]);
    }
    ff_text_add(t, "endloop\nendfacet\n");
}

static ff_status write_text(const ff_mesh *m, FILE *f, const char *path)
{
    ff_status st = FF_OK;
    ff_mesh *tri = NULL;
    int64_t *parent = NULL, *cell = NULL;
    uint64_t *patch = NULL;
    ff_text t = {0};
    FF_GO(ff_mesh_triangulate(m, &tri, &parent));
    FF_GO(FF_NEW(cell, tri->n_cells));
    FF_GO(FF_NEW(patch, tri->n_cells));
    for (int64_t c = 0; c < tri->n_cells; c++) {
        cell[c] = c;
        patch[c] = (uint64_t)m->cell_patch[parent[c]];
    }
    FF_GO(ff_sort_u64(patch, cell, tri->n_cells)); /* stable: in a patch cells keep their order */
    for (int64_t i = 0; i < tri->n_cells; i++) {
        const char *name = m->patch_name[patch[i]];
        if (i == 0 || patch[i] != patch[i - 1]) add_name(&t, "solid", name);
        add_facet(&t, tri, cell[i]);
        if (i + 1 == tri->n_cells || patch[i + 1] != patch[i]) add_name(&t, "endsolid", name);
        FF_GO(ff_write_text(&t, f, path, FF_WRITE_CHUNK));
    }
    st = ff_write_text(&t, f, path, 0);
done:
    ff_text_free(&t);
    ff_free(patch);
    ff_free(cell);
    ff_free(parent);
    ff_mesh_destroy(&tri);
    return st;
}

bool ff_write_stl_is_text(const ff_mesh *m)
{
    return m->n_patches > 1 && m->cell_patch != NULL;
}

ff_status ff_write_stl(const ff_mesh *m, FILE *f, const char *path)
{
    return ff_write_stl_is_text(m) ? write_text(m, f, path) : write_binary(m, f, path);
}
