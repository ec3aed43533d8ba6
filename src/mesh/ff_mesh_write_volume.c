/* Surfaces in formats made for volume meshes, whose elements have at most four corners. */
#include "ff_mem.h"
#include "ff_mesh_write_impl.h"
#include "ff_sort.h"

#include <string.h>

enum { MAX_CORNERS = 4 };

/* Cells as elements: as they are, or as triangles where they have more corners. */
typedef struct elements {
    const ff_mesh *m;
    ff_mesh *t;      /* triangles of all cells, NULL if no cell needs them */
    int64_t *parent; /* of each triangle its cell, ascending */
} elements;

static ff_status elements_begin(elements *e, const ff_mesh *m)
{
    *e = (elements){.m = m};
    for (int64_t c = 0, n; c < m->n_cells; c++) {
        (void)ff_mesh_cell(m, c, &n);
        if (n > MAX_CORNERS) return ff_mesh_triangulate(m, &e->t, &e->parent);
    }
    return FF_OK;
}

static void elements_end(elements *e)
{
    ff_mesh_destroy(&e->t);
    FF_FREE(e->parent);
}

static int64_t elements_of_cell(const elements *e, int64_t c)
{
    int64_t n;
    (void)ff_mesh_cell(e->m, c, &n);
    return n > MAX_CORNERS ? n - 2 : 1;
}

/* Corners of element i of cell c: *n ids. */
static const int64_t *element(const elements *e, int64_t c, int64_t i, int64_t *n)
{
    int64_t at = ff_mesh_cell(e->m, c, n);
    if (*n <= MAX_CORNERS) return e->m->cell_pts + at;
    int64_t lo = 0, hi = e->t->n_cells; /* the first triangle of the cell */
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (e->parent[mid] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    *n = 3;
    return e->t->cell_pts + 3 * (lo + i);
}

static int32_t patch_of(const ff_mesh *m, int64_t c)
{
    return m->cell_patch != NULL ? m->cell_patch[c] : 0;
}

/* A mesh made in memory may have cells and no patch yet. */
static int n_patches_of(const ff_mesh *m)
{
    return m->n_patches > 0 ? m->n_patches : m->n_cells > 0;
}

static const char *patch_name_of(const ff_mesh *m, int p)
{
    return m->n_patches > 0 ? m->patch_name[p] : FF_PATCH_SINGLE;
}

/* ---- Gmsh ---- */

static ff_status gmsh_head(const ff_mesh *m, ff_text *t, FILE *f, const char *path)
{
    int digits = m->points_float32 ? 9 : 17;
    ff_text_add(t, "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$PhysicalNames\n%d\n", n_patches_of(m));
    for (int p = 0; p < n_patches_of(m); p++)
        ff_text_add(t, "%d %d \"%s\"\n", m->dim - 1, p + 1, patch_name_of(m, p));
    ff_text_add(t, "$EndPhysicalNames\n$Nodes\n%lld\n", (long long)m->n_points);
    for (int64_t p = 0; p < m->n_points; p++) {
        const double *x = m->points + 3 * p;
        ff_text_add(t, "%lld %.*g %.*g %.*g\n", (long long)p + 1, digits, x[0], digits, x[1], digits, x[2]);
        FF_TRY(ff_write_text(t, f, path, FF_WRITE_CHUNK));
    }
    return FF_OK;
}

static ff_status gmsh_elements(const elements *e, ff_text *t, FILE *f, const char *path)
{
    static const int type[MAX_CORNERS + 1] = {0, 0, 1, 2, 3}; /* line, triangle, quadrilateral */
    const ff_mesh *m = e->m;
    int64_t n_all = 0, number = 0, n;
    for (int64_t c = 0; c < m->n_cells; c++) n_all += elements_of_cell(e, c);
    ff_text_add(t, "$EndNodes\n$Elements\n%lld\n", (long long)n_all);
    for (int64_t c = 0; c < m->n_cells; c++) {
        int group = patch_of(m, c) + 1;
        for (int64_t i = 0; i < elements_of_cell(e, c); i++) {
            const int64_t *id = element(e, c, i, &n);
            ff_text_add(t, "%lld %d 2 %d %d", (long long)++number, type[n], group, group);
            for (int64_t k = 0; k < n; k++) ff_text_add(t, " %lld", (long long)id[k] + 1);
            ff_text_put(t, "\n", 1);
        }
        FF_TRY(ff_write_text(t, f, path, FF_WRITE_CHUNK));
    }
    ff_text_add(t, "$EndElements\n");
    return FF_OK;
}

/* A quotation mark would end the name. */
static void gmsh_data_head(ff_text *t, const char *section, const ff_field *field, int64_t n)
{
    ff_text_add(t, "$%s\n1\n\"", section);
    for (const char *p = field->name; *p != 0; p++) ff_text_put(t, *p == '"' ? "'" : p, 1);
    ff_text_add(t, "\"\n1\n0\n3\n0\n%d\n%lld\n", field->n_comp, (long long)n);
}

static void gmsh_data_row(ff_text *t, int64_t number, const ff_field *field, int64_t i)
{
    ff_text_add(t, "%lld", (long long)number);
    for (int k = 0; k < field->n_comp; k++) ff_text_add(t, " %.17g", field->value[i * field->n_comp + k]);
    ff_text_put(t, "\n", 1);
}

/* Fields as $NodeData and $ElementData; a cell's value for each of its elements. */
static ff_status gmsh_fields(const elements *e, ff_text *t, FILE *f, const char *path)
{
    const ff_mesh *m = e->m;
    int64_t n_all = 0;
    for (int i = 0; i < m->point_data.n; i++) {
        gmsh_data_head(t, "NodeData", &m->point_data.field[i], m->n_points);
        for (int64_t p = 0; p < m->n_points; p++) {
            gmsh_data_row(t, p + 1, &m->point_data.field[i], p);
            FF_TRY(ff_write_text(t, f, path, FF_WRITE_CHUNK));
        }
        ff_text_add(t, "$EndNodeData\n");
    }
    for (int64_t c = 0; c < m->n_cells; c++) n_all += elements_of_cell(e, c);
    for (int i = 0; i < m->cell_data.n; i++) {
        int64_t number = 0;
        gmsh_data_head(t, "ElementData", &m->cell_data.field[i], n_all);
        for (int64_t c = 0; c < m->n_cells; c++) {
            for (int64_t k = 0; k < elements_of_cell(e, c); k++)
                gmsh_data_row(t, ++number, &m->cell_data.field[i], c);
            FF_TRY(ff_write_text(t, f, path, FF_WRITE_CHUNK));
        }
        ff_text_add(t, "$EndElementData\n");
    }
    return ff_write_text(t, f, path, 0);
}

ff_status ff_write_gmsh(const ff_mesh *m, FILE *f, const char *path)
{
    elements e = {0};
    ff_text t = {0};
    ff_status st;
    FF_GO(elements_begin(&e, m));
    FF_GO(gmsh_head(m, &t, f, path));
    FF_GO(gmsh_elements(&e, &t, f, path));
    FF_GO(gmsh_fields(&e, &t, f, path));
done:
    elements_end(&e);
    ff_text_free(&t);
    return st;
}

/* ---- SU2 ---- */

/* A blank ends a marker's name, and two characters have a meaning of their own. */
static void su2_name(ff_text *t, const char *name)
{
    ff_text_add(t, "MARKER_TAG= ");
    if (name[0] == 0) ff_text_put(t, "_", 1);
    for (; *name != 0; name++)
        ff_text_put(t, (unsigned char)*name <= ' ' || *name == '%' || *name == '=' ? "_" : name, 1);
}

static ff_status su2_head(const ff_mesh *m, ff_text *t, FILE *f, const char *path)
{
    int digits = m->points_float32 ? 9 : 17;
    ff_text_add(t, "%% farfield: a surface without volume elements\nNDIME= %d\nNELEM= 0\nNPOIN= %lld\n",
                m->dim, (long long)m->n_points);
    for (int64_t p = 0; p < m->n_points; p++) {
        const double *x = m->points + 3 * p;
        ff_text_add(t, "%.*g %.*g", digits, x[0], digits, x[1]);
        if (m->dim == 3) ff_text_add(t, " %.*g", digits, x[2]);
        ff_text_put(t, "\n", 1);
        FF_TRY(ff_write_text(t, f, path, FF_WRITE_CHUNK));
    }
    ff_text_add(t, "NMARK= %d\n", n_patches_of(m));
    return FF_OK;
}

/* The cells cell[0 .. n) of one patch. */
static ff_status su2_marker(const elements *e, const int64_t *cell, int64_t n_cells, ff_text *t, FILE *f,
                            const char *path)
{
    static const int type[MAX_CORNERS + 1] = {0, 0, 3, 5, 9}; /* of VTK: line, triangle, quadrilateral */
    int64_t n_all = 0, n;
    for (int64_t j = 0; j < n_cells; j++) n_all += elements_of_cell(e, cell[j]);
    su2_name(t, patch_name_of(e->m, patch_of(e->m, cell[0])));
    ff_text_add(t, "\nMARKER_ELEMS= %lld\n", (long long)n_all);
    for (int64_t j = 0; j < n_cells; j++) {
        for (int64_t i = 0; i < elements_of_cell(e, cell[j]); i++) {
            const int64_t *id = element(e, cell[j], i, &n);
            ff_text_add(t, "%d", type[n]);
            for (int64_t k = 0; k < n; k++) ff_text_add(t, " %lld", (long long)id[k]);
            ff_text_put(t, "\n", 1);
        }
        FF_TRY(ff_write_text(t, f, path, FF_WRITE_CHUNK));
    }
    return FF_OK;
}

/* Cells by patch, in each in their order; each patch holds one at least. */
static ff_status su2_markers(const elements *e, ff_text *t, FILE *f, const char *path)
{
    int64_t n = e->m->n_cells, *cell = NULL;
    uint64_t *patch = NULL;
    ff_status st;
    FF_GO(FF_NEW(cell, n));
    FF_GO(FF_NEW(patch, n));
    for (int64_t c = 0; c < n; c++) {
        cell[c] = c;
        patch[c] = (uint64_t)patch_of(e->m, c);
    }
    FF_GO(ff_sort_u64(patch, cell, n));
    for (int64_t begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && patch[end] == patch[begin];) end++;
        FF_GO(su2_marker(e, cell + begin, end - begin, t, f, path));
    }
    st = ff_write_text(t, f, path, 0);
done:
    ff_free(cell);
    ff_free(patch);
    return st;
}

ff_status ff_write_su2(const ff_mesh *m, FILE *f, const char *path)
{
    elements e = {0};
    ff_text t = {0};
    ff_status st;
    FF_GO(elements_begin(&e, m));
    FF_GO(su2_head(m, &t, f, path));
    FF_GO(su2_markers(&e, &t, f, path));
done:
    elements_end(&e);
    ff_text_free(&t);
    return st;
}
