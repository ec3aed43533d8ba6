/* What a Gmsh file holds, collected before the surface is made of it: sections may come in any order. */
#ifndef FF_GMSH_IMPL_H
#define FF_GMSH_IMPL_H

#include "ff_builder.h"
#include "ff_gmsh_in.h"

/* Element types, by their number in the file. n_corners of the n_nodes nodes come first: nodes on edges and faces of
 * quadratic and higher elements follow and are not used. */
typedef struct ff_gmsh_type {
    short dim, n_corners, n_nodes; /* 0: a type we do not know */
} ff_gmsh_type;
ff_gmsh_type ff_gmsh_type_of(int64_t number);

typedef struct ff_gmsh_element {
    int64_t tag, at;  /* its number; first of its corners in corner [] */
    int64_t physical; /* group, 0: none; version 4.1: follows from the entity */
    int64_t entity;
    int n_corners;
} ff_gmsh_element;

typedef struct ff_gmsh_elements { /* of one dimension */
    int64_t n, cap, n_corners, cap_corners;
    ff_gmsh_element *element;
    int64_t *corner; /* [n_corners] point numbers */
} ff_gmsh_elements;

typedef struct ff_gmsh_name { /* of a physical group */
    int64_t dim, tag;
    char *name;
} ff_gmsh_name;

typedef struct ff_gmsh_entity { /* of dimension 1, 2, 3; version 4.1 */
    int64_t dim, tag, physical; /* physical < 0: its elements are turned round in the group */
    bool inner; /* a border between partitions, made by cutting the mesh: no surface of the body */
} ff_gmsh_entity;

typedef struct ff_gmsh_data { /* a field at points or elements */
    bool at_points;
    char *name;
    int64_t n_comp, n, *tag; /* tag [n] of points or elements */
    double *value;           /* [n][n_comp] */
    int64_t steps;           /* sections of this name so far */
} ff_gmsh_data;

typedef struct ff_gmsh {
    ff_gmsh_in in;
    ff_builder mesh; /* its points */
    int64_t *point_tag, cap_points;
    ff_gmsh_elements of_dim[4]; /* volumes are dropped when the first surface element comes */
    ff_gmsh_name *name;
    int64_t n_names, cap_names;
    ff_gmsh_entity *entity;
    int64_t n_entities, cap_entities;
    ff_gmsh_data *data;
    int64_t n_data, cap_data;
    int64_t step; /* which of the sections of one name is wanted */
    bool has_nodes, has_elements;
    char section[40];
} ff_gmsh;

/* $Elements, behind its first line. Volumes are kept only while no surface element has come. */
ff_status ff_gmsh_read_elements(ff_gmsh *g);
void ff_gmsh_drop_elements(ff_gmsh_elements *e);

/* Sections of version 4.1 that say which physical groups an entity is in. */
ff_status ff_gmsh_read_entities(ff_gmsh *g, bool partitioned);

/* $NodeData and $ElementData, behind their first line; then the fields of the mesh: cell_tag [n_cells] are its cells'
 * elements. FF_E_INPUT: a step that no field has. */
ff_status ff_gmsh_read_data(ff_gmsh *g, bool at_points);
ff_status ff_gmsh_fields(ff_gmsh *g, ff_mesh *m, const int64_t *cell_tag);
void ff_gmsh_drop_data(ff_gmsh *g);

/* The surface: elements of dimension 2 if there are any, else the boundary of those of dimension 3, else those of
 * dimension 1 as a curve. */
ff_status ff_gmsh_build(ff_gmsh *g, ff_mesh **out);

#endif
