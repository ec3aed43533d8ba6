/* From what a Gmsh file holds to a surface. */
#include "ff_gmsh_impl.h"
#include "ff_idmap.h"
#include "ff_log.h"
#include "ff_mem.h"
#include "ff_skin.h"

#include <stdio.h>
#include <string.h>

typedef struct build {
    ff_gmsh *g;
    int dim;                        /* of the elements used */
    ff_idmap points, names, groups; /* places of point numbers, of names and entities of this dimension */
    int64_t *name_at, n_names;      /* [n_names] places in g->name */
    int64_t *entity_at, n_entities;
    int64_t physical, entity; /* of the last element, with it its patch */
    bool named;               /* whether there was one */
    bool turned;              /* whether the elements of that group are turned round */
    int64_t n_inner;          /* elements left out: borders between partitions */
    int64_t *cell_tag, cap;   /* the element each cell comes from */
} build;

static const char *path_of(const build *w)
{
    return ff_bytes_path(w->g->in.b);
}

/* ---- numbers ---- */

static ff_status index_points(build *w)
{
    FF_TRY(ff_idmap_build(&w->points, w->g->point_tag, w->g->mesh.m->n_points));
    int64_t i = ff_idmap_next_twice(&w->points, 0);
    if (i < 0) return FF_OK;
    return ff_fail(FF_E_INPUT, "%s: $Nodes: rows %lld and %lld have the same number %lld", path_of(w),
                   (long long)w->points.place[i - 1] + 1, (long long)w->points.place[i] + 1,
                   (long long)w->points.key[i]);
}

/* Numbers of groups and entities have 32 bits and may be negative. */
static int64_t key_of(int64_t tag)
{
    return (int64_t)(uint32_t)tag;
}

static ff_status index_names(build *w)
{
    const ff_gmsh *g = w->g;
    int64_t *key = NULL;
    ff_status st;
    FF_GO(FF_NEW(key, g->n_names > g->n_entities ? g->n_names : g->n_entities));
    FF_GO(FF_NEW(w->name_at, g->n_names));
    FF_GO(FF_NEW(w->entity_at, g->n_entities));
    for (int64_t i = 0; i < g->n_names; i++) {
        if (g->name[i].dim != w->dim) continue;
        key[w->n_names] = key_of(g->name[i].tag);
        w->name_at[w->n_names++] = i;
    }
    FF_GO(ff_idmap_build(&w->names, key, w->n_names));
    for (int64_t i = 0; i < g->n_entities; i++) {
        if (g->entity[i].dim != w->dim) continue;
        key[w->n_entities] = key_of(g->entity[i].tag);
        w->entity_at[w->n_entities++] = i;
    }
    FF_GO(ff_idmap_build(&w->groups, key, w->n_entities));
done:
    ff_free(key);
    return st;
}

/* Places of an element's corners. */
static ff_status places_of(const build *w, const ff_gmsh_element *e, int64_t *id)
{
    const int64_t *tag = w->g->of_dim[w->dim].corner + e->at;
    for (int i = 0; i < e->n_corners; i++) {
        id[i] = ff_idmap_find(&w->points, tag[i]);
        if (id[i] < 0)
            return ff_fail(FF_E_INPUT,
                           "%s: $Elements: element %lld uses node %lld, which $Nodes does not hold",
                           path_of(w), (long long)e->tag, (long long)tag[i]);
    }
    return FF_OK;
}

/* ---- patches ---- */

static const ff_gmsh_entity *entity_of(const build *w, const ff_gmsh_element *e)
{
    int64_t at = w->g->in.v4 ? ff_idmap_find(&w->groups, key_of(e->entity)) : -1;
    return at >= 0 ? &w->g->entity[w->entity_at[at]] : NULL;
}

/* Enters the patch of an element: its physical group by name or number, else its entity. */
static ff_status enter_patch(build *w, const ff_gmsh_element *e)
{
    const ff_gmsh_entity *of = entity_of(w, e);
    int64_t physical = of != NULL ? of->physical : e->physical;
    char text[48];
    if (w->named && physical == w->physical && e->entity == w->entity) return FF_OK;
    w->named = true;
    w->physical = physical;
    w->entity = e->entity;
    w->turned = physical < 0;
    if (physical < 0) physical = -physical;
    int64_t at = physical != 0 ? ff_idmap_find(&w->names, key_of(physical)) : -1;
    const char *name = at >= 0 ? w->g->name[w->name_at[at]].name : "";
    if (name[0] != 0) return ff_builder_patch(&w->g->mesh, name, strlen(name));
    int n = snprintf(text, sizeof text, "%s %lld", physical != 0 ? "physical" : "entity",
                     (long long)(physical != 0 ? physical : e->entity));
    return ff_builder_patch(&w->g->mesh, text, (size_t)n);
}

/* ---- cells ---- */

static ff_status add_cell(build *w, const ff_gmsh_element *e, const int64_t *id, int n)
{
    int64_t turned[4];
    FF_TRY(enter_patch(w, e));
    int64_t c = w->g->mesh.m->n_cells;
    FF_TRY(ff_mem_reserve(&w->cell_tag, &w->cap, c + 1, sizeof *w->cell_tag));
    w->cell_tag[c] = e->tag;
    for (int i = 0; i < n; i++) turned[i] = id[n == 2 ? 1 - i : (n - i) % n];
    return ff_builder_cell(&w->g->mesh, w->turned && w->dim < 3 ? turned : id, n);
}

static ff_status add_elements(build *w)
{
    const ff_gmsh_elements *all = &w->g->of_dim[w->dim];
    for (int64_t i = 0; i < all->n; i++) {
        const ff_gmsh_element *e = &all->element[i];
        const ff_gmsh_entity *of = entity_of(w, e);
        int64_t id[4] = {0};
        if (of != NULL && of->inner) {
            w->n_inner++;
            continue;
        }
        FF_TRY(places_of(w, e, id));
        FF_TRY(add_cell(w, e, id, e->n_corners));
    }
    if (w->n_inner > 0)
        ff_warn("%s: %lld elements on borders between partitions are left out", path_of(w),
                (long long)w->n_inner);
    return FF_OK;
}

static ff_solid solid_of(int n_corners)
{
    return n_corners == 4 ? FF_TET : n_corners == 5 ? FF_PYRAMID : n_corners == 6 ? FF_PRISM : FF_HEX;
}

static ff_status add_boundary(build *w)
{
    const ff_gmsh_elements *all = &w->g->of_dim[3];
    ff_skin skin = {0};
    ff_status st = FF_OK;
    for (int64_t i = 0; i < all->n; i++) {
        int64_t id[8];
        FF_GO(places_of(w, &all->element[i], id));
        FF_GO(ff_skin_add(&skin, solid_of(all->element[i].n_corners), id, i));
    }
    FF_GO(ff_skin_reduce(&skin));
    ff_warn("%s: no surface elements; the boundary of %lld volume elements is the surface, its patches are "
            "those of "
            "the volumes",
            path_of(w), (long long)all->n);
    for (int64_t i = 0; i < skin.n; i++) {
        const ff_skin_face *f = &skin.face[i];
        FF_GO(add_cell(w, &all->element[f->cell], f->id, f->id[3] < 0 ? 3 : 4));
    }
done:
    ff_skin_free(&skin);
    return st;
}

ff_status ff_gmsh_build(ff_gmsh *g, ff_mesh **out)
{
    build w = {.g = g, .dim = g->of_dim[2].n > 0 ? 2 : g->of_dim[3].n > 0 ? 3 : 1};
    ff_status st;
    if (w.dim == 1 && g->of_dim[1].n > 0) g->mesh.m->dim = 2;
    FF_GO(index_points(&w));
    FF_GO(index_names(&w));
    FF_GO(w.dim == 3 ? add_boundary(&w) : add_elements(&w));
    FF_GO(ff_gmsh_fields(g, g->mesh.m, w.cell_tag));
    *out = ff_builder_take(&g->mesh);
done:
    ff_free(w.cell_tag);
    ff_idmap_free(&w.points);
    ff_idmap_free(&w.names);
    ff_idmap_free(&w.groups);
    ff_free(w.name_at);
    ff_free(w.entity_at);
    return st;
}
