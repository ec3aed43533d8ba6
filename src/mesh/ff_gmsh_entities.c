/* $Entities and $PartitionedEntities of Gmsh 4.1: which physical groups the elements of an entity are in. */
#include "ff_gmsh_impl.h"
#include "ff_log.h"
#include "ff_mem.h"

/* Physical groups of an entity; the first one counts. */
static ff_status read_groups(ff_gmsh *g, ff_gmsh_entity *e)
{
    int64_t n;
    FF_TRY(ff_gmsh_size(&g->in, "the number of physical groups", &n));
    for (int64_t i = 0, v; i < n; i++) {
        FF_TRY(ff_gmsh_int(&g->in, "a physical group", &v));
        if (e->physical == 0) e->physical = v;
    }
    if (n > 1 && e->dim == 2)
        ff_warn(
            "%s: surface entity %lld is in %lld physical groups; its cells become a patch of the first one",
            ff_bytes_path(g->in.b), (long long)e->tag, (long long)n);
    return FF_OK;
}

/* Between number and box of a partition's entity: the entity it is cut from, and its partitions. */
static ff_status read_parent(ff_gmsh *g, ff_gmsh_entity *e)
{
    int64_t dim, tag, n;
    FF_TRY(ff_gmsh_int(&g->in, "the dimension of a parent entity", &dim));
    FF_TRY(ff_gmsh_int(&g->in, "the number of a parent entity", &tag));
    FF_TRY(ff_gmsh_size(&g->in, "the number of partitions", &n));
    e->inner = dim > e->dim;
    return ff_gmsh_skip_ints(&g->in, "a partition", n);
}

/* Number, box (a point: its place), groups, and the entities that bound it. */
static ff_status read_entity(ff_gmsh *g, int dim, bool partitioned)
{
    ff_gmsh_entity e = {.dim = dim};
    int64_t n;
    FF_TRY(ff_gmsh_int(&g->in, "the number of an entity", &e.tag));
    if (partitioned) FF_TRY(read_parent(g, &e));
    FF_TRY(ff_gmsh_skip_doubles(&g->in, "the box of an entity", dim == 0 ? 3 : 6));
    FF_TRY(read_groups(g, &e));
    if (dim == 0) return FF_OK;
    FF_TRY(ff_gmsh_size(&g->in, "the number of bounding entities", &n));
    FF_TRY(ff_gmsh_skip_ints(&g->in, "a bounding entity", n));
    FF_TRY(ff_mem_reserve(&g->entity, &g->cap_entities, g->n_entities + 1, sizeof *g->entity));
    g->entity[g->n_entities++] = e;
    return FF_OK;
}

ff_status ff_gmsh_read_entities(ff_gmsh *g, bool partitioned)
{
    int64_t n[4], n_parts, n_ghosts;
    if (partitioned) {
        FF_TRY(ff_gmsh_size(&g->in, "the number of partitions", &n_parts));
        FF_TRY(ff_gmsh_size(&g->in, "the number of ghost entities", &n_ghosts));
        for (int64_t i = 0; i < n_ghosts; i++) FF_TRY(ff_gmsh_skip_ints(&g->in, "a ghost entity", 2));
    }
    for (int d = 0; d < 4; d++) FF_TRY(ff_gmsh_size(&g->in, "the number of entities", &n[d]));
    for (int d = 0; d < 4; d++) {
        g->in.n_rows = n[d];
        for (g->in.row = 1; g->in.row <= n[d]; g->in.row++) FF_TRY(read_entity(g, d, partitioned));
        g->in.row = 0;
    }
    return ff_gmsh_end(&g->in);
}
