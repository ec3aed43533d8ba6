#include "ff_cgns.h"

#include "ff_cgns_impl.h"
#include "ff_log.h"
#include "ff_mem.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    cgns_tree t;
    int64_t n_zones, cap_zones;
    cgns_zone *zone; /* those that become part of the mesh, in file order */
    ff_builder b;
    bool float32;
} reader;

/* ---- bases and zones ---- */

static ff_status read_base(const cgns_tree *t, int64_t base, cgns_zone *z)
{
    int64_t *v = NULL;
    if (t->node[base].n < 2) return cgns_fail(t, base, "expected two numbers, cell and physical dimension");
    FF_TRY(cgns_read_i64(t, base, &v));
    int64_t cell = v[0], phys = v[1];
    ff_free(v);
    if (cell < 1 || cell > phys || phys < 2 || phys > 3)
        return cgns_fail(t, base, "cell dimension %lld, physical dimension %lld, expected 1 to 3 and 2 or 3",
                         (long long)cell, (long long)phys);
    z->cell_dim = (int)cell;
    z->phys_dim = (int)phys;
    z->face_dim = cell == 1 || phys == 2 ? 1 : 2;
    z->whole = cell == z->face_dim;
    return FF_OK;
}

/* Sizes: vertices, cells and boundary vertices of each index. */
static ff_status read_size(cgns_zone *z)
{
    const cgns_tree *t = z->t;
    int64_t *v = NULL;
    char type[CGNS_NAME];
    FF_TRY(cgns_read_text(t, cgns_find(t, z->node, "ZoneType_t", NULL, -1), type, sizeof type));
    z->structured = strcmp(type, "Unstructured") != 0; /* the standard's default */
    z->index_dim = z->structured ? z->cell_dim : 1;
    if (t->node[z->node].n < 2 * z->index_dim)
        return cgns_fail(t, z->node, "has %lld sizes, expected %d", (long long)t->node[z->node].n,
                         3 * z->index_dim);
    FF_TRY(cgns_read_i64(t, z->node, &v));
    z->n_vertices = z->n_cells = 1;
    ff_status st = FF_OK;
    for (int k = 0; k < 3 && st == FF_OK; k++) {
        z->nv[k] = k < z->index_dim ? v[k] : 1;
        z->nc[k] = k < z->index_dim ? v[z->index_dim + k] : 1;
        bool fits = z->nv[k] >= 1 && z->nv[k] <= 1000000000000 / z->n_vertices && z->nc[k] >= 0;
        if (!fits || (z->structured && k < z->index_dim && (z->nc[k] != z->nv[k] - 1 || z->nc[k] < 1)))
            st = cgns_fail(t, z->node, "direction %d has %lld vertices and %lld cells%s", k + 1,
                           (long long)z->nv[k], (long long)z->nc[k],
                           z->structured ? ", expected one vertex more than cells" : "");
        else
            z->n_vertices *= z->nv[k], z->n_cells *= z->structured ? z->nc[k] : 1;
    }
    if (!z->structured) z->n_cells = z->nc[0];
    ff_free(v);
    return st;
}

static ff_status add_zone(reader *r, int64_t base, int64_t node, const cgns_zone *of_base)
{
    FF_TRY(ff_mem_reserve(&r->zone, &r->cap_zones, r->n_zones + 1, sizeof *r->zone));
    cgns_zone *z = &r->zone[r->n_zones];
    *z = *of_base;
    z->t = &r->t;
    z->base = base;
    z->node = node;
    r->n_zones++;
    return read_size(z);
}

/* Bases of another dimension than the first one's boundary cannot become part of the same mesh. */
static ff_status find_zones(reader *r)
{
    const cgns_tree *t = &r->t;
    for (int64_t base = -1; (base = cgns_find(t, 0, "CGNSBase_t", NULL, base)) >= 0;) {
        cgns_zone of_base = {0};
        FF_TRY(read_base(t, base, &of_base));
        if (r->n_zones > 0 && of_base.face_dim != r->zone[0].face_dim) {
            ff_warn("%s: base %s has a boundary of another dimension than the bases before and is left out",
                    t->path, t->node[base].name);
            continue;
        }
        for (int64_t z = -1; (z = cgns_find(t, base, "Zone_t", NULL, z)) >= 0;)
            FF_TRY(add_zone(r, base, z, &of_base));
    }
    if (r->n_zones == 0) return ff_fail(FF_E_INPUT, "%s: holds no CGNS zone, expected a mesh", t->path);
    return FF_OK;
}

/* "Base/" and "Zone/" where there is more than one. */
static void name_zones(reader *r)
{
    bool bases = false;
    for (int64_t i = 1; i < r->n_zones; i++) bases |= r->zone[i].base != r->zone[0].base;
    for (int64_t i = 0; i < r->n_zones; i++) {
        cgns_zone *z = &r->zone[i];
        (void)snprintf(z->prefix, sizeof z->prefix, "%s%s%s%s", bases ? r->t.node[z->base].name : "",
                       bases ? "/" : "", r->n_zones > 1 ? r->t.node[z->node].name : "",
                       r->n_zones > 1 ? "/" : "");
    }
}

/* ---- coordinates ---- */

/* The node of coordinate x, y or z; -1 where a plane base has no z. */
static ff_status find_coordinate(const cgns_zone *z, int64_t grid, int axis, int64_t *out)
{
    static const char *const names[] = {"CoordinateX", "CoordinateY", "CoordinateZ"};
    const cgns_tree *t = z->t;
    *out = cgns_find(t, grid, "DataArray_t", names[axis], -1);
    if (*out >= 0 || axis >= z->phys_dim) return FF_OK;
    int64_t other = cgns_find(t, grid, "DataArray_t", NULL, -1);
    if (other < 0) return cgns_fail(t, grid, "%s is missing", names[axis]);
    ff_status st = cgns_fail(t, grid, "%s is missing (there is %s), expected Cartesian coordinates",
                             names[axis], t->node[other].name);
    return strncmp(t->node[other].name, "Coordinate", 10) == 0 && axis == 0 ? FF_E_UNSUPPORTED : st;
}

static ff_status read_points(reader *r, cgns_zone *z)
{
    ff_mesh *m = r->b.m;
    int64_t grid = cgns_find(z->t, z->node, "GridCoordinates_t", "GridCoordinates", -1), node;
    double *x = NULL, zero[3] = {0};
    if (grid < 0) grid = cgns_find(z->t, z->node, "GridCoordinates_t", NULL, -1);
    if (grid < 0) return cgns_fail(z->t, z->node, "has no GridCoordinates");
    z->point0 = m->n_points;
    for (int k = 0; k < 3; k++) {
        FF_TRY(find_coordinate(z, grid, k, &node));
        if (node < 0) continue;
        FF_TRY(cgns_zone_array(z, grid, node, true, &x));
        if (x == NULL)
            return cgns_fail(z->t, node, "has %lld values, expected %lld (and rind)",
                             (long long)z->t->node[node].n, (long long)z->n_vertices);
        ff_status st = FF_OK;
        for (int64_t i = 0; k == 0 && st == FF_OK && i < z->n_vertices; i++)
            st = ff_builder_point(&r->b, zero);
        for (int64_t i = 0; st == FF_OK && i < z->n_vertices; i++) m->points[3 * (z->point0 + i) + k] = x[i];
        ff_free(x);
        FF_TRY(st);
        r->float32 &= strcmp(z->t->node[node].type, "R4") == 0;
    }
    return FF_OK;
}

/* ---- entry ---- */

ff_status cgns_put_face(cgns_zone *z, ff_builder *b, int64_t *ids, int64_t n, int64_t owner)
{
    FF_TRY(ff_mem_reserve(&z->owner, &z->cap_owners, z->n_owners + 1, sizeof *z->owner));
    z->owner[z->n_owners++] = owner;
    for (int64_t k = 0; k < n; k++) ids[k] += z->point0;
    return ff_builder_cell(b, ids, n);
}

static ff_status read_zone(reader *r, cgns_zone *z)
{
    FF_TRY(read_points(r, z));
    FF_TRY(cgns_sets_read(z));
    z->cell0 = r->b.m->n_cells;
    FF_TRY(z->structured ? cgns_structured(z, &r->b) : cgns_unstructured(z, &r->b));
    z->cell1 = r->b.m->n_cells;
    return FF_OK;
}

static ff_status read_all(reader *r)
{
    FF_TRY(find_zones(r));
    name_zones(r);
    FF_TRY(ff_builder_begin(&r->b, r->zone[0].face_dim + 1));
    for (int64_t i = 0; i < r->n_zones; i++) FF_TRY(read_zone(r, &r->zone[i]));
    ff_mesh *m = r->b.m;
    m->points_float32 = r->float32 && m->n_points > 0;
    if (m->n_cells == 0)
        return ff_fail(FF_E_INPUT,
                       "%s: its zones have no boundary faces, expected elements, boundary conditions or "
                       "cells that make some",
                       r->t.path);
    return cgns_fields(r->zone, r->n_zones, m);
}

ff_status ff_cgns_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    reader r = {.float32 = true};
    ff_status st;
    *out = NULL;
    FF_GO(cgns_tree_open(&r.t, path));
    if (opts->step != 0)
        FF_GO(ff_fail(FF_E_INPUT, "%s: step = %lld, but CGNS files are read as one step; expected 0", path,
                      (long long)opts->step));
    FF_GO(read_all(&r));
    *out = ff_builder_take(&r.b);
    FF_GO(ff_mesh_finish(*out, path, opts));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    for (int64_t i = 0; i < r.n_zones; i++) {
        cgns_sets_free(&r.zone[i]);
        ff_free(r.zone[i].owner);
    }
    ff_free(r.zone);
    ff_builder_free(&r.b);
    cgns_tree_close(&r.t);
    return st;
}

/* CGNS writes what made the file at its root; VTKHDF and our own files have none of it. */
ff_status ff_cgns_probe(const char *path, bool *yes)
{
    ff_h5 *f = NULL;
    FF_TRY(ff_h5_open(ff_comm_self(), path, &f));
    *yes = ff_h5_exists(f, "/CGNSLibraryVersion") ||
           (ff_h5_attr_exists(f, "/", "label") && ff_h5_attr_exists(f, "/", "type"));
    return ff_h5_close(&f);
}
