/* Inside of the CGNS reader. Included by ff_cgns*.c only. */
#ifndef FF_CGNS_IMPL_H
#define FF_CGNS_IMPL_H

#include "ff_builder.h"
#include "ff_cgns_tree.h"

/* ---- elements ---- */
enum { CGNS_BAR_2 = 3, CGNS_MIXED = 20, CGNS_NGON = 22, CGNS_NFACE = 23, CGNS_TYPES = 57 };

/* Dimension of an element type (-1: unknown), its nodes, and those of them that are corners (they come first). */
typedef struct cgns_kind {
    int8_t dim, nodes, corners;
} cgns_kind;
extern const cgns_kind cgns_kinds[CGNS_TYPES];

/* One Elements_t node, its connectivity read. */
typedef struct cgns_section {
    int64_t node, type, first, n; /* elements first to first + n - 1 */
    int64_t *conn, n_conn;
    int64_t *start; /* [n + 1] into conn; NULL: every element has the nodes of its type */
    bool
        counted; /* each element begins with its type (MIXED) or its size (NGON and NFACE of versions before 4) */
} cgns_section;

/* ---- sets of faces or vertices: boundary conditions and connectivities ---- */
typedef enum { CGNS_AT_VERTEX, CGNS_AT_FACE, CGNS_AT_I, CGNS_AT_J, CGNS_AT_K, CGNS_AT_CELL } cgns_place;
typedef struct cgns_set {
    int64_t node;
    bool interface;               /* a connectivity: its faces are no boundary */
    char name[3 * CGNS_NAME + 4]; /* of the patch: family or else condition */
    cgns_place place;
    bool range;      /* ids hold the first and the last item */
    int64_t n, *ids; /* [n][index_dim], from 1 */
} cgns_set;

/* ---- one zone ---- */
typedef struct cgns_zone {
    const cgns_tree *t;
    int64_t base, node;
    int cell_dim, phys_dim;
    int face_dim; /* of what becomes a cell of the mesh: 2 polygons, 1 edges */
    bool whole;   /* the base is a surface: all cells of dimension face_dim, not the boundary */
    bool structured;
    int index_dim;        /* 1 unstructured */
    int64_t nv[3], nc[3]; /* vertices and cells a direction; 1 beyond index_dim */
    int64_t n_vertices, n_cells;
    int64_t point0;       /* its first point in the mesh */
    int64_t cell0, cell1; /* its cells in the mesh */
    int64_t n_owners, cap_owners;
    int64_t *owner; /* [n_owners] volume zones: the cell behind each of them, from 0; -1: not known */
    char prefix[2 * CGNS_NAME + 2]; /* "Zone/" before names of sections, "" in files of one zone */
    int n_sets;
    cgns_set *set; /* in file order */
    int64_t cap_sets;
} cgns_zone;

/* The marks of a zone's faces: number of a set, or one of these. */
enum { CGNS_UNMARKED = -1, CGNS_INNER = -2 };

/* Reads the zone's boundary conditions and connectivities. Local */
ff_status cgns_sets_read(cgns_zone *z);
void cgns_sets_free(cgns_zone *z);
/* The number of a set's item i as one number from 0 (vertices: point of the zone; unstructured faces: element - 1);
 * ranges of unstructured zones are walked as lists are: cgns_set_size items. */
int64_t cgns_set_size(const cgns_zone *z, const cgns_set *s);
int64_t cgns_set_item(const cgns_zone *z, const cgns_set *s, int64_t i);
/* Faces without a mark whose corners all lie in one set of vertices take its mark: CGNS_INNER for connectivities, which
 * come first, the set's number for conditions (not asked for with inner_only). Faces: off [n + 1], ids from 0. Local */
ff_status cgns_mark_by_vertices(const cgns_zone *z, int64_t n, const int64_t *off, const int64_t *ids,
                                bool inner_only, int32_t *mark);

ff_status cgns_section_read(const cgns_zone *z, int64_t node, cgns_section *s);
void cgns_section_free(cgns_section *s);
/* Element i of a section: its type and its corners (numbers from 1, n of them; NFACE: faces), borrowed. */
void cgns_element(const cgns_section *s, int64_t i, int64_t *type, const int64_t **ids, int64_t *n);
/* The type of a section whose connectivity is not read; -1 for an unknown one. */
ff_status cgns_section_type(const cgns_tree *t, int64_t node, int64_t *type);

/* Cells of one zone into the mesh, with patches. Local */
ff_status cgns_unstructured(cgns_zone *z, ff_builder *b);
ff_status cgns_structured(cgns_zone *z, ff_builder *b);
/* Adds a cell of the mesh with corners ids [n] of the zone's points and the volume cell behind it (-1: unknown). */
ff_status cgns_put_face(cgns_zone *z, ff_builder *b, int64_t *ids, int64_t n, int64_t owner);

/* A child array of container (coordinates, solution) over the zone's vertices or cells, without rind; *out [n] owned by
 * the caller, NULL if its size does not fit. */
ff_status cgns_zone_array(const cgns_zone *z, int64_t container, int64_t array, bool at_vertices,
                          double **out);
/* Where the values of a FlowSolution_t lie; where it does not say, at vertices. Other places are neither. */
ff_status cgns_solution_place(const cgns_tree *t, int64_t solution, bool *vertex, bool *cell);
/* Solutions of all zones as fields. */
ff_status cgns_fields(const cgns_zone *zone, int64_t n_zones, ff_mesh *m);

#endif
