/* Cells of the mesh from an unstructured zone. */
#include "ff_cgns_impl.h"
#include "ff_faces.h"
#include "ff_mem.h"

#include <string.h>

typedef struct {                /* a section of cells, by its numbers */
    int64_t first, last, cell0; /* its first cell in solutions */
} cell_range;

typedef struct {
    cgns_zone *z;
    ff_builder *b;
    int64_t n, cap;
    cgns_section *sec;     /* [n] the sections read, in file order */
    int64_t *ids, cap_ids; /* corners of one element, from 0 */
    int64_t n_ranges, cap_ranges;
    cell_range *range; /* ascending */
} unstructured;

/* ---- elements ---- */

static bool has_corners(int64_t type)
{
    return type == CGNS_NGON || cgns_kinds[type].corners > 0;
}

/* The corners of element i, from 0, checked, into u->ids; *n = 0 if it is not of dimension dim. */
static ff_status take_corners(unstructured *u, const cgns_section *s, int64_t i, int dim, int64_t *n)
{
    int64_t type;
    const int64_t *ids;
    cgns_element(s, i, &type, &ids, n);
    if (cgns_kinds[type].dim != dim || !has_corners(type)) *n = 0;
    FF_TRY(ff_mem_reserve(&u->ids, &u->cap_ids, *n + 1, sizeof *u->ids));
    for (int64_t k = 0; k < *n; k++) {
        if (ids[k] < 1 || ids[k] > u->z->n_vertices)
            return cgns_fail(u->z->t, s->node, "element %lld: vertex %lld, expected 1 to %lld",
                             (long long)(s->first + i), (long long)ids[k], (long long)u->z->n_vertices);
        u->ids[k] = ids[k] - 1;
    }
    if (*n > 0 && *n < dim + 1)
        return cgns_fail(u->z->t, s->node, "element %lld has %lld corners, expected %d or more",
                         (long long)(s->first + i), (long long)*n, dim + 1);
    return FF_OK;
}

/* Whether a section may hold elements of dimension dim. */
static ff_status section_may(const cgns_zone *z, int64_t node, int dim, bool *yes)
{
    int64_t type;
    FF_TRY(cgns_section_type(z->t, node, &type));
    if (type < 0 || (cgns_kinds[type].dim < 0 && type != CGNS_MIXED))
        return cgns_fail(z->t, node, "element type is not known, expected one of CGNS 4");
    *yes = type == CGNS_MIXED || cgns_kinds[type].dim == dim;
    return FF_OK;
}

/* Puts the last section read where its element numbers say: solutions at cells follow them. */
static void sort_in(unstructured *u)
{
    cgns_section last = u->sec[u->n - 1];
    int64_t at = u->n - 1;
    for (; at > 0 && u->sec[at - 1].first > last.first; at--) u->sec[at] = u->sec[at - 1];
    u->sec[at] = last;
}

/* Reads the sections with elements of dimension dim; *some: whether there is such an element. */
static ff_status read_sections(unstructured *u, int dim, bool *some)
{
    const cgns_tree *t = u->z->t;
    *some = false;
    for (int64_t node = -1; (node = cgns_find(t, u->z->node, "Elements_t", NULL, node)) >= 0;) {
        bool may = false;
        FF_TRY(section_may(u->z, node, dim, &may));
        if (!may) continue;
        FF_TRY(ff_mem_reserve(&u->sec, &u->cap, u->n + 1, sizeof *u->sec));
        cgns_section *s = &u->sec[u->n++];
        FF_TRY(cgns_section_read(u->z, node, s));
        for (int64_t i = 0; i < s->n && !*some; i++) {
            int64_t type, n;
            const int64_t *ids;
            cgns_element(s, i, &type, &ids, &n);
            *some = cgns_kinds[type].dim == dim;
        }
        sort_in(u);
    }
    return FF_OK;
}

static void drop_sections(unstructured *u)
{
    for (int64_t i = 0; i < u->n; i++) cgns_section_free(&u->sec[i]);
    u->n = 0;
}

/* ---- marks of a section's elements ---- */

static void mark_element(const cgns_section *s, int64_t number, int32_t value, int32_t *mark)
{
    if (number >= s->first && number < s->first + s->n && mark[number - s->first] == CGNS_UNMARKED)
        mark[number - s->first] = value;
}

/* By the sets that list elements. */
static void mark_by_elements(const cgns_zone *z, const cgns_section *s, int32_t *mark)
{
    for (int32_t k = 0; k < z->n_sets; k++) {
        const cgns_set *set = &z->set[k];
        int32_t value = set->interface ? CGNS_INNER : k;
        if (set->place == CGNS_AT_VERTEX) continue;
        if (!set->range)
            for (int64_t i = 0; i < set->n; i++) mark_element(s, set->ids[i], value, mark);
        int64_t lo = set->ids[0] < set->ids[1] || !set->range ? set->ids[0] : set->ids[1];
        int64_t hi = set->range ? set->ids[0] + (set->ids[1] - lo) : lo;
        if (lo < s->first) lo = s->first;
        for (; set->range && lo <= hi && lo < s->first + s->n; lo++) mark_element(s, lo, value, mark);
    }
}

/* By the sets of vertices; elements of another dimension get no corners, and so stay unmarked. */
static ff_status mark_by_vertices(unstructured *u, const cgns_section *s, bool inner_only, int32_t *mark)
{
    ff_faces f = {0};
    int32_t *some = NULL;
    int64_t n;
    ff_status st = FF_OK;
    for (int64_t i = 0; i < s->n; i++) {
        if (mark[i] != CGNS_UNMARKED) continue;
        FF_GO(take_corners(u, s, i, u->z->face_dim, &n));
        if (n > 0) FF_GO(ff_faces_add(&f, i, u->ids, n, 1));
    }
    if (f.n == 0) goto done;
    FF_GO(FF_NEW(some, f.n));
    for (int64_t i = 0; i < f.n; i++) some[i] = CGNS_UNMARKED;
    FF_GO(cgns_mark_by_vertices(u->z, f.n, f.off, f.ids, inner_only, some));
    for (int64_t i = 0; i < f.n; i++) mark[f.cell[i]] = some[i];
done:
    ff_free(some);
    ff_faces_free(&f);
    return st;
}

static bool has_vertex_sets(const cgns_zone *z, bool inner_only)
{
    for (int i = 0; i < z->n_sets; i++)
        if (z->set[i].place == CGNS_AT_VERTEX && (z->set[i].interface || !inner_only)) return true;
    return false;
}

/* ---- NGON: which faces are the boundary ---- */

/* Cells that use each face of section s: uses [n] counts them up to 2, flip [n]: the one cell sees the face inwards. */
static void count_use(const cgns_section *s, int64_t number, uint8_t *uses, uint8_t *flip)
{
    int64_t at = (number < 0 ? -number : number) - s->first;
    if (number == INT64_MIN || at < 0 || at >= s->n) return;
    flip[at] = number < 0;
    if (uses[at] < 2) uses[at]++;
}

/* From ParentElements: the cells left and right of each face; the face looks from left to right. */
static ff_status uses_of_parents(const cgns_zone *z, const cgns_section *s, int64_t node, uint8_t *uses,
                                 uint8_t *flip)
{
    int64_t *p;
    if (z->t->node[node].n != 2 * s->n)
        return cgns_fail(z->t, node, "has %lld numbers, expected two for each of %lld faces",
                         (long long)z->t->node[node].n, (long long)s->n);
    FF_TRY(cgns_read_i64(z->t, node, &p));
    for (int64_t i = 0; i < s->n; i++) {
        uses[i] = (uint8_t)((p[i] != 0) + (p[s->n + i] != 0));
        flip[i] = p[i] == 0;
    }
    ff_free(p);
    return FF_OK;
}

static ff_status uses_of_cells(const cgns_zone *z, const cgns_section *s, bool *known, uint8_t *uses,
                               uint8_t *flip)
{
    const cgns_tree *t = z->t;
    for (int64_t node = -1; (node = cgns_find(t, z->node, "Elements_t", NULL, node)) >= 0;) {
        int64_t type, n;
        const int64_t *ids;
        cgns_section cells = {0};
        FF_TRY(cgns_section_type(t, node, &type));
        if (type != CGNS_NFACE) continue;
        ff_status st = cgns_section_read(z, node, &cells);
        for (int64_t i = 0; st == FF_OK && i < cells.n; i++) {
            cgns_element(&cells, i, &type, &ids, &n);
            for (int64_t k = 0; k < n; k++) count_use(s, ids[k], uses, flip);
        }
        cgns_section_free(&cells);
        FF_TRY(st);
        *known = true;
    }
    return FF_OK;
}

/* Marks of an NGON section: faces between two cells in no condition become inner ones. */
static ff_status mark_polygons(unstructured *u, const cgns_section *s, int32_t *mark, uint8_t *flip)
{
    const cgns_zone *z = u->z;
    uint8_t *uses;
    int64_t parents = cgns_find(z->t, s->node, NULL, "ParentElements", -1);
    bool known = parents >= 0, named = false;
    FF_TRY(FF_NEW0(uses, s->n));
    ff_status st =
        known ? uses_of_parents(z, s, parents, uses, flip) : uses_of_cells(z, s, &known, uses, flip);
    for (int64_t i = 0; st == FF_OK && i < s->n; i++) {
        if (known && uses[i] == 2 && mark[i] == CGNS_UNMARKED) mark[i] = CGNS_INNER;
        flip[i] = flip[i] && known && uses[i] == 1;
        named |= mark[i] >= 0;
    }
    ff_free(uses);
    FF_TRY(st);
    if (known || named) {
        for (int64_t i = 0; !known && i < s->n; i++)
            if (mark[i] == CGNS_UNMARKED) mark[i] = CGNS_INNER;
        return FF_OK;
    }
    return cgns_fail(
        z->t, s->node,
        "NGON faces without ParentElements, NFACE cells or boundary conditions that name them: nothing "
        "says which are the boundary");
}

/* ---- from sections ---- */

/* Whether conditions cut the section's cells into several parts. */
static bool is_split(const cgns_section *s, const int32_t *mark, int dim)
{
    int32_t first = CGNS_INNER;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t type, n;
        const int64_t *ids;
        cgns_element(s, i, &type, &ids, &n);
        if (mark[i] == CGNS_INNER || cgns_kinds[type].dim != dim) continue;
        if (first != CGNS_INNER && mark[i] != first) return true;
        first = mark[i];
    }
    return false;
}

static void reverse(int64_t *ids, int64_t n)
{
    for (int64_t i = 1, j = n - 1; i < j; i++, j--) {
        int64_t t = ids[i];
        ids[i] = ids[j];
        ids[j] = t;
    }
}

static ff_status name_patch(unstructured *u, int64_t node, int32_t mark)
{
    char name[4 * CGNS_NAME];
    const char *set = mark >= 0 ? u->z->set[mark].name : NULL;
    size_t a = strlen(u->z->prefix), b = strlen(u->z->t->node[node].name);
    if (set != NULL) return ff_builder_patch(u->b, set, strlen(set));
    if (node == u->z->node && a > 0)
        return ff_builder_patch(u->b, u->z->prefix, a - 1); /* without the last / */
    memcpy(name, u->z->prefix, a);
    memcpy(name + a, u->z->t->node[node].name, b);
    return ff_builder_patch(u->b, name, a + b);
}

/* ---- the cell behind a face ---- */

/* Numbers of the sections of cells; none where a section holds elements of several dimensions. */
static ff_status list_ranges(unstructured *u)
{
    const cgns_tree *t = u->z->t;
    for (int64_t node = -1; (node = cgns_find(t, u->z->node, "Elements_t", NULL, node)) >= 0;) {
        int64_t type, at, *v, numbers = cgns_find(t, node, NULL, "ElementRange", -1);
        FF_TRY(cgns_section_type(t, node, &type));
        if (type == CGNS_MIXED) u->n_ranges = 0;
        if (type == CGNS_MIXED) return FF_OK;
        if (type < 0 || cgns_kinds[type].dim != u->z->cell_dim || numbers < 0 || t->node[numbers].n != 2)
            continue;
        FF_TRY(cgns_read_i64(t, numbers, &v));
        cell_range r = {.first = v[0], .last = v[1]};
        ff_free(v);
        if (r.first < 1 || r.last < r.first || r.last > 1000000000000) continue; /* refused when it is read */
        FF_TRY(ff_mem_reserve(&u->range, &u->cap_ranges, u->n_ranges + 1, sizeof *u->range));
        for (at = u->n_ranges++; at > 0 && u->range[at - 1].first > r.first; at--)
            u->range[at] = u->range[at - 1];
        u->range[at] = r;
    }
    for (int64_t i = 1; i < u->n_ranges; i++) {
        const cell_range *before = &u->range[i - 1];
        if (before->last >= u->range[i].first) u->n_ranges = 0; /* contradictory */
        if (u->n_ranges > 0) u->range[i].cell0 = before->cell0 + (before->last - before->first + 1);
    }
    return FF_OK;
}

/* The cell with that number of an element; -1 if it is none. */
static int64_t cell_of(const unstructured *u, int64_t number)
{
    for (int64_t i = 0; i < u->n_ranges; i++) {
        const cell_range *r = &u->range[i];
        if (number < r->first || number > r->last) continue;
        int64_t cell = r->cell0 + (number - r->first);
        return cell < u->z->n_cells ? cell : -1;
    }
    return -1;
}

/* owner [s->n]: from ParentElements or ParentData, whose first two columns are the cells at both sides of each face. */
static ff_status find_owners(const unstructured *u, const cgns_section *s, int64_t *owner)
{
    const cgns_tree *t = u->z->t;
    int64_t *p, node = cgns_find(t, s->node, NULL, "ParentElements", -1);
    if (node < 0) node = cgns_find(t, s->node, NULL, "ParentData", -1);
    for (int64_t i = 0; i < s->n; i++) owner[i] = -1;
    if (node < 0 || t->node[node].n < 2 * s->n) return FF_OK;
    FF_TRY(cgns_read_i64(t, node, &p));
    for (int64_t i = 0; i < s->n; i++) owner[i] = cell_of(u, p[i] != 0 ? p[i] : p[s->n + i]);
    ff_free(p);
    return FF_OK;
}

static ff_status put_faces(unstructured *u, const cgns_section *s, const int32_t *mark, const uint8_t *flip,
                           const int64_t *owner)
{
    bool conditions = (s->type == CGNS_NGON && !u->z->whole) || is_split(s, mark, u->z->face_dim);
    int64_t n;
    for (int64_t i = 0; i < s->n; i++) {
        FF_TRY(take_corners(u, s, i, u->z->face_dim, &n)); /* inner ones are checked, too */
        if (n == 0 || mark[i] == CGNS_INNER) continue;
        if (flip[i]) reverse(u->ids, n);
        FF_TRY(name_patch(u, s->node, conditions ? mark[i] : CGNS_UNMARKED));
        FF_TRY(cgns_put_face(u->z, u->b, u->ids, n, owner[i]));
    }
    return FF_OK;
}

static ff_status from_section(unstructured *u, const cgns_section *s)
{
    int32_t *mark = NULL;
    uint8_t *flip = NULL;
    int64_t *owner = NULL;
    bool polygons = s->type == CGNS_NGON && !u->z->whole;
    ff_status st;
    FF_GO(FF_NEW(mark, s->n));
    FF_GO(FF_NEW0(flip, s->n));
    FF_GO(FF_NEW(owner, s->n));
    FF_GO(find_owners(u, s, owner));
    for (int64_t i = 0; i < s->n; i++) mark[i] = CGNS_UNMARKED;
    if (!u->z->whole) mark_by_elements(u->z, s, mark);
    if (polygons) FF_GO(mark_polygons(u, s, mark, flip));
    if (!u->z->whole && has_vertex_sets(u->z, !polygons)) FF_GO(mark_by_vertices(u, s, !polygons, mark));
    FF_GO(put_faces(u, s, mark, flip, owner));
done:
    ff_free(owner);
    ff_free(mark);
    ff_free(flip);
    return st;
}

/* ---- from cells ---- */

/* *cell: number of the next cell in solutions. */
static ff_status add_cell(unstructured *u, const cgns_section *s, int64_t i, int64_t *cell, ff_faces *f)
{
    static const ff_shape shape[9] = {
        [4] = FF_SHAPE_TETRA, [5] = FF_SHAPE_PYRAMID, [6] = FF_SHAPE_WEDGE, [8] = FF_SHAPE_HEXA};
    int64_t n;
    FF_TRY(take_corners(u, s, i, u->z->cell_dim, &n));
    if (n == 0) return FF_OK; /* of another dimension; NFACE comes with NGON, which stands for it */
    ++*cell;
    return u->z->cell_dim == 3 ? ff_faces_add_cell(f, *cell - 1, shape[n], u->ids)
                               : ff_faces_add_edges(f, *cell - 1, u->ids, n);
}

/* Reads the sections of cells in place of those that are there: the faces of volume elements (edges of plane ones) that one
 * element only uses, and the number of elements. */
static ff_status free_faces(unstructured *u, ff_faces *f, int64_t *cells)
{
    bool some = false;
    *cells = 0;
    drop_sections(u);
    FF_TRY(read_sections(u, u->z->cell_dim, &some));
    for (int64_t k = 0; k < u->n; k++)
        for (int64_t i = 0; i < u->sec[k].n; i++) FF_TRY(add_cell(u, &u->sec[k], i, cells, f));
    return ff_faces_keep_free(f);
}

static ff_status from_cells(unstructured *u)
{
    ff_faces f = {0};
    int32_t *mark = NULL;
    int64_t cell = 0;
    ff_status st;
    FF_GO(free_faces(u, &f, &cell));
    FF_GO(FF_NEW(mark, f.n));
    for (int64_t i = 0; i < f.n; i++) mark[i] = CGNS_UNMARKED;
    if (f.n > 0) FF_GO(cgns_mark_by_vertices(u->z, f.n, f.off, f.ids, false, mark));
    for (int64_t i = 0; i < f.n; i++) {
        int64_t n = f.off[i + 1] - f.off[i];
        if (mark[i] == CGNS_INNER) continue;
        FF_GO(name_patch(u, u->z->node, mark[i]));
        FF_GO(ff_mem_reserve(&u->ids, &u->cap_ids, n, sizeof *u->ids));
        memcpy(u->ids, f.ids + f.off[i], (size_t)n * sizeof *u->ids);
        FF_GO(cgns_put_face(u->z, u->b, u->ids, n, cell == u->z->n_cells ? f.cell[i] : -1));
    }
done:
    ff_free(mark);
    ff_faces_free(&f);
    return st;
}

/* ---- cells behind faces of sections that do not tell ---- */

/* Whether the zone has cell solutions, and faces whose cell is not known. */
static ff_status lacks_owners(const cgns_zone *z, bool *yes)
{
    bool at_cells = false;
    *yes = false;
    for (int64_t s = -1; (s = cgns_find(z->t, z->node, "FlowSolution_t", NULL, s)) >= 0;) {
        bool vertex, cell;
        FF_TRY(cgns_solution_place(z->t, s, &vertex, &cell));
        at_cells |= cell;
    }
    for (int64_t i = 0; at_cells && i < z->n_owners; i++) *yes |= z->owner[i] < 0;
    return FF_OK;
}

/* The cell that has the face, by the corners. */
static ff_status owners_from_cells(unstructured *u)
{
    cgns_zone *z = u->z;
    const ff_mesh *m = u->b->m;
    ff_faces f = {0};
    int64_t cell = 0;
    ff_status st;
    FF_GO(free_faces(u, &f, &cell));
    if (cell != z->n_cells) goto done; /* other cells than solutions count */
    int64_t n_free = f.n;
    for (int64_t i = 0; i < z->n_owners; i++) {
        int64_t n, at = ff_mesh_cell(m, m->n_cells - z->n_owners + i, &n);
        if (z->owner[i] >= 0) continue;
        FF_GO(ff_mem_reserve(&u->ids, &u->cap_ids, n, sizeof *u->ids));
        for (int64_t k = 0; k < n; k++) u->ids[k] = m->cell_pts[at + k] - z->point0;
        FF_GO(ff_faces_add(&f, i, u->ids, n, 1));
    }
    FF_GO(ff_faces_behind(&f, n_free, z->owner));
done:
    ff_faces_free(&f);
    return st;
}

ff_status cgns_unstructured(cgns_zone *z, ff_builder *b)
{
    unstructured u = {.z = z, .b = b};
    bool some = false;
    ff_status st;
    if (!z->whole) FF_GO(list_ranges(&u));
    FF_GO(read_sections(&u, z->face_dim, &some));
    for (int64_t i = 0; some && i < u.n; i++) FF_GO(from_section(&u, &u.sec[i]));
    if (!some && !z->whole) FF_GO(from_cells(&u));
    bool lacking = false;
    FF_GO(lacks_owners(z, &lacking));
    if (some && !z->whole && lacking) FF_GO(owners_from_cells(&u));
done:
    drop_sections(&u);
    ff_free(u.sec);
    ff_free(u.ids);
    ff_free(u.range);
    return st;
}
