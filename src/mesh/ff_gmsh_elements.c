/* Elements of a Gmsh file. */
#include "ff_gmsh_impl.h"
#include "ff_mem.h"

/* Numbers as in the manual of Gmsh, "MSH file format", and for higher orders its list of types: dimension, corners,
 * nodes. */
static const ff_gmsh_type types[] = {
    /* points and lines */
    [15] = {0, 1, 1},
    [1] = {1, 2, 2},
    [8] = {1, 2, 3},
    [26] = {1, 2, 4},
    [27] = {1, 2, 5},
    [28] = {1, 2, 6},
    [62] = {1, 2, 7},
    [63] = {1, 2, 8},
    [64] = {1, 2, 9},
    [65] = {1, 2, 10},
    [66] = {1, 2, 11},
    /* triangles */
    [2] = {2, 3, 3},
    [9] = {2, 3, 6},
    [20] = {2, 3, 9},
    [21] = {2, 3, 10},
    [22] = {2, 3, 12},
    [23] = {2, 3, 15},
    [24] = {2, 3, 15},
    [25] = {2, 3, 21},
    [42] = {2, 3, 28},
    [43] = {2, 3, 36},
    [44] = {2, 3, 45},
    [45] = {2, 3, 55},
    [46] = {2, 3, 66},
    [52] = {2, 3, 18},
    [53] = {2, 3, 21},
    [54] = {2, 3, 24},
    [55] = {2, 3, 27},
    [56] = {2, 3, 30},
    /* quadrilaterals */
    [3] = {2, 4, 4},
    [10] = {2, 4, 9},
    [16] = {2, 4, 8},
    [36] = {2, 4, 16},
    [37] = {2, 4, 25},
    [38] = {2, 4, 36},
    [39] = {2, 4, 12},
    [40] = {2, 4, 16},
    [41] = {2, 4, 20},
    [47] = {2, 4, 49},
    [48] = {2, 4, 64},
    [49] = {2, 4, 81},
    [50] = {2, 4, 100},
    [51] = {2, 4, 121},
    [57] = {2, 4, 24},
    [58] = {2, 4, 28},
    [59] = {2, 4, 32},
    [60] = {2, 4, 36},
    [61] = {2, 4, 40},
    /* tetrahedra, hexahedra */
    [4] = {3, 4, 4},
    [11] = {3, 4, 10},
    [29] = {3, 4, 20},
    [30] = {3, 4, 35},
    [31] = {3, 4, 56},
    [71] = {3, 4, 84},
    [72] = {3, 4, 120},
    [73] = {3, 4, 165},
    [74] = {3, 4, 220},
    [75] = {3, 4, 286},
    [5] = {3, 8, 8},
    [12] = {3, 8, 27},
    [17] = {3, 8, 20},
    [92] = {3, 8, 64},
    [93] = {3, 8, 125},
    [94] = {3, 8, 216},
    [95] = {3, 8, 343},
    [96] = {3, 8, 512},
    [97] = {3, 8, 729},
    [98] = {3, 8, 1000},
    /* prisms, pyramids */
    [6] = {3, 6, 6},
    [13] = {3, 6, 18},
    [18] = {3, 6, 15},
    [90] = {3, 6, 40},
    [91] = {3, 6, 75},
    [7] = {3, 5, 5},
    [14] = {3, 5, 14},
    [19] = {3, 5, 13},
    [118] = {3, 5, 30},
    [119] = {3, 5, 55},
    [120] = {3, 5, 91},
    [121] = {3, 5, 140},
    [122] = {3, 5, 204},
    [123] = {3, 5, 285},
    [124] = {3, 5, 385},
    [106] = {3, 6, 126},
    [107] = {3, 6, 196},
    [108] = {3, 6, 288},
    [109] = {3, 6, 405},
    [110] = {3, 6, 550},
    /* volumes without nodes on faces and inside */
    [137] = {3, 4, 16},
    [32] = {3, 4, 22},
    [33] = {3, 4, 28},
    [79] = {3, 4, 34},
    [80] = {3, 4, 40},
    [81] = {3, 4, 46},
    [82] = {3, 4, 52},
    [83] = {3, 4, 58},
    [99] = {3, 8, 32},
    [100] = {3, 8, 44},
    [101] = {3, 8, 56},
    [102] = {3, 8, 68},
    [103] = {3, 8, 80},
    [104] = {3, 8, 92},
    [105] = {3, 8, 104},
    [111] = {3, 6, 24},
    [112] = {3, 6, 33},
    [113] = {3, 6, 42},
    [114] = {3, 6, 51},
    [115] = {3, 6, 60},
    [116] = {3, 6, 69},
    [117] = {3, 6, 78},
    [125] = {3, 5, 21},
    [126] = {3, 5, 29},
    [127] = {3, 5, 37},
    [128] = {3, 5, 45},
    [129] = {3, 5, 53},
    [130] = {3, 5, 61},
    [131] = {3, 5, 69},
};

ff_gmsh_type ff_gmsh_type_of(int64_t number)
{
    bool inside = number >= 0 && number < (int64_t)(sizeof types / sizeof *types);
    return inside ? types[number] : (ff_gmsh_type){0, 0, 0};
}

void ff_gmsh_drop_elements(ff_gmsh_elements *e)
{
    FF_FREE(e->element);
    FF_FREE(e->corner);
    *e = (ff_gmsh_elements){0};
}

static ff_status check_type(const ff_gmsh_in *in, int64_t number)
{
    if (ff_gmsh_type_of(number).n_nodes > 0) return FF_OK;
    return ff_gmsh_fail(
        in,
        "element type %lld, expected lines, triangles, quadrilaterals, tetrahedra, hexahedra, "
        "prisms or pyramids of Lagrange kind",
        (long long)number);
}

/* The nodes of an element, which is kept if it may become part of the surface. */
static ff_status read_element(ff_gmsh *g, int64_t type, ff_gmsh_element e)
{
    ff_gmsh_type t = ff_gmsh_type_of(type);
    ff_gmsh_elements *to = &g->of_dim[t.dim];
    bool keep = t.dim == 2 || (t.dim > 0 && g->of_dim[2].n == 0);
    if (t.dim == 2 && to->n == 0) ff_gmsh_drop_elements(&g->of_dim[3]);
    if (keep) FF_TRY(ff_mem_reserve(&to->element, &to->cap, to->n + 1, sizeof *to->element));
    if (keep)
        FF_TRY(
            ff_mem_reserve(&to->corner, &to->cap_corners, to->n_corners + t.n_corners, sizeof *to->corner));
    for (int i = 0; i < t.n_nodes; i++) {
        int64_t id;
        FF_TRY(ff_gmsh_id(&g->in, "the number of a node", &id));
        if (keep && i < t.n_corners) to->corner[to->n_corners + i] = id;
    }
    if (!keep) return FF_OK;
    e.at = to->n_corners;
    e.n_corners = t.n_corners;
    to->element[to->n++] = e;
    to->n_corners += t.n_corners;
    return FF_OK;
}

/* The first tag is the physical group, the second the entity. */
static ff_status read_tags(ff_gmsh_in *in, int64_t n, ff_gmsh_element *e)
{
    if (n < 0) return ff_gmsh_fail(in, "%lld tags, expected 0 or more", (long long)n);
    for (int64_t i = 0, v; i < n; i++) {
        FF_TRY(ff_gmsh_int(in, "a tag", &v));
        if (i == 0) e->physical = v < 0 ? -v : v; /* version 2 turned the element when it was written */
        if (i == 1) e->entity = v;
    }
    return FF_OK;
}

static ff_status read_elements_2_text(ff_gmsh *g)
{
    ff_gmsh_in *in = &g->in;
    for (int64_t n = in->n_rows; in->row < n;) {
        ff_gmsh_element e = {0};
        int64_t type, n_tags;
        in->row++;
        FF_TRY(ff_gmsh_id(in, "the number of an element", &e.tag));
        FF_TRY(ff_gmsh_int(in, "an element type", &type));
        FF_TRY(check_type(in, type));
        FF_TRY(ff_gmsh_int(in, "the number of tags", &n_tags));
        FF_TRY(read_tags(in, n_tags, &e));
        FF_TRY(read_element(g, type, e));
    }
    return FF_OK;
}

/* Binary: blocks of one type and number of tags. */
static ff_status read_elements_2_binary(ff_gmsh *g)
{
    ff_gmsh_in *in = &g->in;
    while (in->row < in->n_rows) {
        int64_t type, n, n_tags;
        FF_TRY(ff_gmsh_int(in, "an element type", &type));
        FF_TRY(check_type(in, type));
        FF_TRY(ff_gmsh_int(in, "the number of elements of a block", &n));
        if (n < 1 || n > in->n_rows - in->row)
            return ff_gmsh_fail(
                in, "a block of %lld elements, expected 1 to the %lld that are left of those announced",
                (long long)n, (long long)(in->n_rows - in->row));
        FF_TRY(ff_gmsh_int(in, "the number of tags", &n_tags));
        for (; n > 0; n--) {
            ff_gmsh_element e = {0};
            in->row++;
            FF_TRY(ff_gmsh_id(in, "the number of an element", &e.tag));
            FF_TRY(read_tags(in, n_tags, &e));
            FF_TRY(read_element(g, type, e));
        }
    }
    return FF_OK;
}

static ff_status read_elements_2(ff_gmsh *g)
{
    FF_TRY(ff_gmsh_count(&g->in));
    FF_TRY(g->in.binary ? read_elements_2_binary(g) : read_elements_2_text(g));
    return ff_gmsh_end(&g->in);
}

static ff_status read_element_block(ff_gmsh *g)
{
    ff_gmsh_element e = {0};
    int64_t dim, type, n;
    FF_TRY(ff_gmsh_int(&g->in, "the dimension of an entity", &dim));
    FF_TRY(ff_gmsh_int(&g->in, "the number of an entity", &e.entity));
    FF_TRY(ff_gmsh_int(&g->in, "an element type", &type));
    FF_TRY(check_type(&g->in, type));
    if (dim != ff_gmsh_type_of(type).dim)
        return ff_gmsh_fail(&g->in, "elements of type %lld in an entity of dimension %lld, expected %d",
                            (long long)type, (long long)dim, ff_gmsh_type_of(type).dim);
    FF_TRY(ff_gmsh_block_rows(&g->in, &n));
    for (; n > 0; n--) {
        g->in.row++;
        FF_TRY(ff_gmsh_id(&g->in, "the number of an element", &e.tag));
        FF_TRY(read_element(g, type, e));
    }
    return FF_OK;
}

static ff_status read_elements_4(ff_gmsh *g)
{
    int64_t n_blocks;
    FF_TRY(ff_gmsh_head(&g->in, &n_blocks));
    for (int64_t i = 0; i < n_blocks; i++) FF_TRY(read_element_block(g));
    FF_TRY(ff_gmsh_check_rows(&g->in));
    return ff_gmsh_end(&g->in);
}

ff_status ff_gmsh_read_elements(ff_gmsh *g)
{
    return g->in.v4 ? read_elements_4(g) : read_elements_2(g);
}
