/* Arrays over a zone's vertices or cells, and solutions as fields of the mesh. */
#include "ff_cgns_impl.h"

#include "ff_log.h"
#include "ff_mem.h"

#include <math.h>
#include <string.h>

/* ---- arrays with rind ---- */

/* Planes of values beyond the zone, before and behind each direction. */
static ff_status read_rind(const cgns_zone *z, int64_t container, int64_t rind[6])
{
    int64_t *v, node = cgns_find(z->t, container, "Rind_t", NULL, -1);
    for (int i = 0; i < 6; i++) rind[i] = 0;
    if (node < 0) return FF_OK;
    if (z->t->node[node].n != 2 * z->index_dim)
        return cgns_fail(z->t, node, "has %lld numbers, expected %d", (long long)z->t->node[node].n,
                         2 * z->index_dim);
    FF_TRY(cgns_read_i64(z->t, node, &v));
    ff_status st = FF_OK;
    for (int i = 0; i < 2 * z->index_dim; i++) {
        rind[i] = v[i];
        if (v[i] < 0 || v[i] > 1000000)
            st = cgns_fail(z->t, node, "%lld planes, expected 0 to 1e6", (long long)v[i]);
    }
    ff_free(v);
    return st;
}

ff_status cgns_zone_array(const cgns_zone *z, int64_t container, int64_t array, bool at_vertices,
                          double **out)
{
    int64_t rind[6], n[3], full[3], all = 1, core = 1;
    *out = NULL;
    FF_TRY(read_rind(z, container, rind));
    for (int k = 0; k < 3; k++) {
        n[k] = at_vertices ? z->nv[k] : z->nc[k];
        full[k] = n[k] + rind[2 * k] + rind[2 * k + 1];
        if (full[k] > 0 && all > 1000000000000 / full[k]) return FF_OK;
        all *= full[k];
        core *= n[k];
    }
    if (z->t->node[array].n != all) return FF_OK;
    FF_TRY(cgns_read_f64(z->t, array, out));
    double *x = *out;
    if (all == core) return FF_OK;
    for (int64_t c = 0, to = 0; c < n[2];
         c++) /* to the front, in place: never behind what is still to read */
        for (int64_t b = 0; b < n[1]; b++)
            for (int64_t a = 0; a < n[0]; a++)
                x[to++] = x[a + rind[0] + full[0] * (b + rind[2] + full[1] * (c + rind[4]))];
    return FF_OK;
}

/* ---- solutions ---- */

ff_status cgns_solution_place(const cgns_tree *t, int64_t solution, bool *vertex, bool *cell)
{
    char place[CGNS_NAME];
    FF_TRY(cgns_read_text(t, cgns_find(t, solution, "GridLocation_t", NULL, -1), place, sizeof place));
    *vertex = place[0] == 0 || strcmp(place, "Vertex") == 0;
    *cell = strcmp(place, "CellCenter") == 0;
    return FF_OK;
}

/* The array of that name in a solution at vertices or cells; container: the solution. -1: none. */
static ff_status find_array(const cgns_zone *z, bool at_vertices, const char *name, int64_t *container,
                            int64_t *array)
{
    const cgns_tree *t = z->t;
    *array = -1;
    for (int64_t s = -1; *array < 0 && (s = cgns_find(t, z->node, "FlowSolution_t", NULL, s)) >= 0;) {
        bool vertex, cell;
        FF_TRY(cgns_solution_place(t, s, &vertex, &cell));
        if (at_vertices ? !vertex : !cell) continue;
        *container = s;
        *array = cgns_find(t, s, "DataArray_t", name, -1);
    }
    return FF_OK;
}

/* The zone's rows of a field to value; *fits is false if it has none, or of another size. */
static ff_status read_rows(const cgns_zone *z, bool at_vertices, const char *name, double *value, bool *fits)
{
    int64_t container = -1, array, n = at_vertices ? z->n_vertices : z->cell1 - z->cell0;
    double *x = NULL;
    bool behind =
        !at_vertices && !z->whole; /* cells of the volume: each face has the value of the one behind it */
    *fits = n == 0;
    FF_TRY(find_array(z, at_vertices, name, &container, &array));
    if (array < 0 || *fits || strchr("RIU", z->t->node[array].type[0]) == NULL) return FF_OK;
    if (!at_vertices && !behind && z->n_cells != n) return FF_OK;
    FF_TRY(cgns_zone_array(z, container, array, at_vertices, &x));
    *fits = x != NULL;
    if (x != NULL && !behind) memcpy(value, x, (size_t)n * sizeof *x);
    for (int64_t i = 0; x != NULL && behind && i < n; i++)
        value[i] = z->owner[i] >= 0 && z->owner[i] < z->n_cells ? x[z->owner[i]] : (double)NAN;
    ff_free(x);
    return FF_OK;
}

static ff_status read_field(const cgns_zone *zone, int64_t n_zones, bool at_vertices, const char *name,
                            ff_mesh *m)
{
    ff_field_set *set = at_vertices ? &m->point_data : &m->cell_data;
    double *value;
    int64_t n = at_vertices ? m->n_points : m->n_cells;
    ff_status st = FF_OK;
    bool fits = true;
    if (ff_field_set_find(set, name) != NULL) return FF_OK;
    FF_TRY(FF_NEW(value, n));
    for (int64_t i = 0; st == FF_OK && fits && i < n_zones; i++)
        st = read_rows(&zone[i], at_vertices, name, value + (at_vertices ? zone[i].point0 : zone[i].cell0),
                       &fits);
    if (st == FF_OK && fits) return ff_field_set_add(set, name, 1, n, &value);
    ff_free(value);
    if (st == FF_OK)
        ff_warn("%s: field \"%s\" is not in all zones, or not one number a %s, and is left out",
                zone->t->path, name, at_vertices ? "vertex" : "cell");
    return st;
}

/* Whether the cell behind some face is known. */
static bool knows_owners(const cgns_zone *zone, int64_t n_zones)
{
    for (int64_t k = 0; k < n_zones; k++)
        for (int64_t i = 0; i < zone[k].n_owners; i++)
            if (zone[k].owner[i] >= 0) return true;
    return false;
}

/* Fields are those of the first zone's solutions. */
ff_status cgns_fields(const cgns_zone *zone, int64_t n_zones, ff_mesh *m)
{
    const cgns_tree *t = zone->t;
    bool cells = zone->whole || knows_owners(zone, n_zones);
    for (int64_t s = -1; (s = cgns_find(t, zone->node, "FlowSolution_t", NULL, s)) >= 0;) {
        bool vertex, cell;
        FF_TRY(cgns_solution_place(t, s, &vertex, &cell));
        if (!vertex && !(cell && cells)) continue;
        for (int64_t a = -1; (a = cgns_find(t, s, "DataArray_t", NULL, a)) >= 0;)
            FF_TRY(read_field(zone, n_zones, vertex, t->node[a].name, m));
    }
    return FF_OK;
}
