/* Gmsh: versions 2 and 4.1, text and binary, groups, kinds of elements, and what is refused. */
#include "ff_test_mesh.h"

#include "ff_gmsh.h"
#include "ff_log.h"

#define FORMAT_2 "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n"
#define FORMAT_4 "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n"
/* A unit square, numbers out of order, and a point above it. */
#define NODES_2 "$Nodes\n5\n10 0 0 0\n7 1 0 0\n12 1 1 0\n3 0 1 0\n90 0.5 .5 1e0\n$EndNodes\n"

static void expect_cell(const ff_mesh *m, int64_t c, const char *patch, int64_t n, const int64_t *pts)
{
    int64_t got, at = ff_mesh_cell(m, c, &got);
    assert_int_equal(got, n);
    assert_memory_equal(m->cell_pts + at, pts, (size_t)n * sizeof *pts);
    assert_string_equal(m->patch_name[m->cell_patch != NULL ? m->cell_patch[c] : 0], patch);
}
#define EXPECT_CELL(m, c, patch, n, ...) expect_cell(m, c, patch, n, (const int64_t[]){__VA_ARGS__})

static const char text_2[] =
    FORMAT_2 "$PhysicalNames\n3\n2 1 \"the wing\"\n1 4 \"edge\"\n2 9 \"unused\"\n$EndPhysicalNames\n" NODES_2
             "$Elements\n7\n1 15 2 0 1 10\n2 1 2 4 1 10 7\n"
             "3 2 2 1 5 10 7 90\n4 3 2 2 6 10 7 12 3\n5 2 2 1 5 7 12 90\n6 2 2 0 8 12 3 90\n7 2 0 3 10 "
             "90\n$EndElements\n";

static void version_2_text(void **state)
{
    (void)state;
    ff_mesh *m = ff_test_parse(ff_gmsh_parse, text_2);
    assert_int_equal(m->n_points, 5);
    assert_int_equal(m->n_cells, 5);
    EXPECT_CELL(m, 0, "the wing", 3, 0, 1, 4);
    EXPECT_CELL(m, 1, "physical 2", 4, 0, 1, 2, 3);
    EXPECT_CELL(m, 2, "the wing", 3, 1, 2, 4);
    EXPECT_CELL(m, 3, "entity 8", 3, 2, 3, 4);
    EXPECT_CELL(m, 4, "entity 0", 3, 3, 0, 4);
    assert_true(m->points[3 * 4 + 1] == 0.5 && m->points[3 * 4 + 2] == 1);
    ff_mesh_destroy(&m);
}

/* Group 1 has a name and one of its entities turned round, entity 3 has no group, nodes of a surface have parameters,
 * elements come before names, sections nobody needs are passed over. */
#define ELEMENTS_4                                                                                           \
    "$Elements\n4 4 1 4\n1 1 1 1\n1 10 7\n2 1 2 1\n2 10 7 90\n2 2 3 1\n3 10 7 12 3\n2 3 2 1\n4 7 12 "        \
    "90\n$EndElements\n"
#define NAMES_4 "$PhysicalNames\n1\n2 1 \"the \"wing\"\"\n$EndPhysicalNames\n"
#define HEAD_4                                                                                               \
    "$Comments\nby hand\n$EndComments\n" FORMAT_4                                                            \
    "$Entities\n1 1 3 0\n1 0 0 0 0\n1 0 0 0 1 0 0 1 4 2 1 -1\n1 0 0 0 1 1 0 1 1 1 1\n"                       \
    "2 0 0 0 1 1 0 1 -1 0\n3 0 0 0 1 1 0 0 2 1 -1\n$EndEntities\n"                                           \
    "$Nodes\n3 5 1 90\n0 1 0 1\n10\n0 0 0\n2 1 1 3\n7\n12\n3\n1 0 0 0.1 0.2\n1 1 0 0.1 0.2\n0 1 0 0 0\n"     \
    "2 2 0 1\n90\n0.5 0.5 1\n$EndNodes\n"
#define TAIL_4 "$Periodic\n1\n0 2 1\n0\n$EndPeriodic\n"
static const char text_4[] = HEAD_4 NAMES_4 ELEMENTS_4 TAIL_4;

static void version_4_text(void **state)
{
    (void)state;
    ff_mesh *m = ff_test_parse(ff_gmsh_parse, text_4);
    assert_int_equal(m->n_points, 5);
    assert_int_equal(m->n_cells, 3);
    EXPECT_CELL(m, 0, "the \"wing\"", 3, 0, 1, 4);
    EXPECT_CELL(m, 1, "the \"wing\"", 4, 0, 3, 2, 1);
    EXPECT_CELL(m, 2, "entity 3", 3, 1, 2, 4);
    ff_mesh *other_order = ff_test_parse(ff_gmsh_parse, HEAD_4 ELEMENTS_4 TAIL_4 NAMES_4);
    assert_true(ff_test_same_mesh(m, other_order));
    ff_mesh_destroy(&other_order);
    ff_mesh_destroy(&m);
}

/* A surface in two partitions, whose common border is an entity of its own and no surface of the body. */
static void partitions(void **state)
{
    (void)state;
    ff_mesh *m = ff_test_parse(
        ff_gmsh_parse, FORMAT_4
        "$PhysicalNames\n1\n2 6 \"hull\"\n$EndPhysicalNames\n$Entities\n0 0 1 0\n1 0 0 0 1 1 0 1 6 "
        "0\n$EndEntities\n"
        "$PartitionedEntities\n2 1\n5 1\n1 0 3 0\n1 0 1 1 1 0 0 0 0\n"
        "11 2 1 1 1 0 0 0 1 1 0 1 6 0\n12 2 1 1 2 0 0 0 1 1 0 1 6 0\n13 3 1 2 1 2 0 0 0 1 1 0 0 0\n"
        "$EndPartitionedEntities\n"
        "$Nodes\n1 4 1 4\n2 11 0 4\n1\n2\n3\n4\n0 0 0 1 0 0\n1 1 0 0 1 0\n$EndNodes\n"
        "$Elements\n3 3 1 3\n2 11 2 1\n1 1 2 3\n2 12 2 1\n2 1 3 4\n2 13 2 1\n3 1 2 4\n$EndElements\n");
    assert_int_equal(m->n_cells, 2);
    assert_int_equal(m->n_patches, 1);
    assert_string_equal(m->patch_name[0], "hull");
    ff_mesh_destroy(&m);
}

static void higher_orders_give_their_corners(void **state)
{
    (void)state;
    ff_mesh *m = ff_test_parse(
        ff_gmsh_parse,
        FORMAT_2 "$Nodes\n9\n1 0 0 0\n2 2 0 0\n3 2 2 0\n4 0 2 0\n5 1 0 0\n6 2 1 0\n7 1 2 0\n8 0 1 0\n9 1 "
                 "1 0\n$EndNodes\n"
                 "$Elements\n4\n1 9 2 1 1 1 2 3 5 6 9\n2 16 2 1 1 1 2 3 4 5 6 7 8\n"
                 "3 10 2 1 1 1 2 3 4 5 6 7 8 9\n4 20 2 1 1 1 3 4 9 9 9 9 9 9\n$EndElements\n");
    assert_int_equal(m->n_points, 9);
    EXPECT_CELL(m, 0, "physical 1", 3, 0, 1, 2);
    EXPECT_CELL(m, 1, "physical 1", 4, 0, 1, 2, 3);
    EXPECT_CELL(m, 2, "physical 1", 4, 0, 1, 2, 3);
    EXPECT_CELL(m, 3, "physical 1", 3, 0, 2, 3);
    ff_mesh_destroy(&m);
    /* A pyramid of order 3 without nodes on its faces, before the surface. */
    m = ff_test_parse(ff_gmsh_parse, FORMAT_2 NODES_2
                      "$Elements\n2\n1 125 2 0 1 10 7 12 3 90 10 10 10 10 10 10 10 10 10 10 10 10 10 "
                      "10 10 10\n2 2 2 1 1 10 7 12\n$EndElements\n");
    assert_int_equal(m->n_cells, 1);
    ff_mesh_destroy(&m);
}

/* A cube, a prism on its side, a pyramid and a tetrahedron on top: 6 + 5 + 5 + 4 faces less two for each contact. */
static void volumes_alone_give_their_boundary(void **state)
{
    (void)state;
    ff_mesh_stats s;
    ff_mesh *m = ff_test_parse(
        ff_gmsh_parse, FORMAT_2
        "$PhysicalNames\n1\n3 7 \"air\"\n$EndPhysicalNames\n"
        "$Nodes\n12\n1 0 0 0\n2 1 0 0\n3 1 1 0\n4 0 1 0\n5 0 0 1\n6 1 0 1\n7 1 1 1\n8 0 1 1\n9 .5 .5 2\n"
        "10 2 0 0\n11 2 1 0\n12 1.5 .5 2\n$EndNodes\n"
        "$Elements\n4\n1 5 2 7 1 1 2 3 4 5 6 7 8\n2 7 2 7 1 5 6 7 8 9\n3 6 2 7 1 2 6 10 3 7 11\n"
        "4 4 2 0 9 6 12 7 9\n$EndElements\n");
    assert_int_equal(m->n_cells, 20 - 2 * 3);
    assert_string_equal(m->patch_name[0], "air");
    assert_string_equal(m->patch_name[1], "entity 9");
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    assert_true(s.closed && s.misoriented_edges == 0);
    /* 1 + 1/3 + 1/2 + 1/6: sums of a few rounded terms */
    assert_true(s.volume > 2 - 1e-12 && s.volume < 2 + 1e-12);
    ff_mesh_destroy(&m);
    /* With a surface element the volumes are no longer wanted, whatever comes first. */
    m = ff_test_parse(ff_gmsh_parse,
                      FORMAT_2 NODES_2 "$Elements\n3\n1 4 2 7 1 10 7 12 90\n2 2 2 1 1 10 7 12\n"
                                       "3 4 2 7 1 10 7 12 90\n$EndElements\n");
    assert_int_equal(m->n_cells, 1);
    EXPECT_CELL(m, 0, "physical 1", 3, 0, 1, 2);
    ff_mesh_destroy(&m);
}

static void lines_alone_are_a_curve(void **state)
{
    (void)state;
    ff_mesh *m = ff_test_parse(ff_gmsh_parse, FORMAT_2
                               "$PhysicalNames\n1\n1 1 \"foil\"\n$EndPhysicalNames\n"
                               "$Nodes\n3\n1 0 0 5\n2 1 0 5\n3 0 1 5\n$EndNodes\n"
                               "$Elements\n3\n1 1 2 1 1 1 2\n2 8 2 1 1 2 3 1\n3 1 2 2 1 3 1\n$EndElements\n");
    assert_int_equal(m->dim, 2);
    assert_int_equal(m->n_cells, 3);
    EXPECT_CELL(m, 1, "foil", 2, 1, 2);
    EXPECT_CELL(m, 2, "physical 2", 2, 2, 0);
    assert_true(m->points[2] == 0);
    ff_mesh_destroy(&m);
    m = ff_test_parse(ff_gmsh_parse, FORMAT_2 NODES_2 "$Elements\n0\n$EndElements\n");
    assert_int_equal(m->n_cells, 0);
    assert_int_equal(m->n_points, 5);
    ff_mesh_destroy(&m);
}

/* ---- binary ---- */

typedef struct bin {
    unsigned char byte[4096];
    size_t n;
    bool big;
    int size_bytes;
} bin;

static void put_text(bin *b, const char *s)
{
    memcpy(b->byte + b->n, s, strlen(s));
    b->n += strlen(s);
}

static void put_bits(bin *b, uint64_t v, int n)
{
    for (int i = 0; i < n; i++) b->byte[b->n++] = (unsigned char)(v >> 8 * (b->big ? n - 1 - i : i));
}

static void put_ints(bin *b, const int *v, size_t n)
{
    for (size_t i = 0; i < n; i++) put_bits(b, (uint32_t)v[i], 4);
}
#define PUT_INTS(b, ...)                                                                                     \
    put_ints(b, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static void put_sizes(bin *b, const int *v, size_t n)
{
    for (size_t i = 0; i < n; i++) put_bits(b, (uint64_t)v[i], b->size_bytes);
}
#define PUT_SIZES(b, ...)                                                                                    \
    put_sizes(b, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static void put_doubles(bin *b, const double *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        put_bits(b, bits, 8);
    }
}
#define PUT_DOUBLES(b, ...)                                                                                  \
    put_doubles(b, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* The mesh of text_2 up to its fourth element, in blocks of one type each. */
static void binary_2(bin *b)
{
    static const int tag[5] = {10, 7, 12, 3, 90};
    static const double x[15] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, .5, .5, 1};
    put_text(b, "$MeshFormat\n2.2 1 8\n");
    PUT_INTS(b, 1);
    put_text(b, "\n$EndMeshFormat\n$PhysicalNames\n1\n2 1 \"the wing\"\n$EndPhysicalNames\n$Nodes\n5\n");
    for (int i = 0; i < 5; i++) {
        PUT_INTS(b, tag[i]);
        put_doubles(b, x + 3 * i, 3);
    }
    put_text(b, "\n$EndNodes\n$Elements\n5\n");
    PUT_INTS(b, 1, 1, 2, 2, 4, 1, 10, 7);
    PUT_INTS(b, 2, 2, 2, 3, 1, 5, 10, 7, 90, 5, 1, 5, 7, 12, 90);
    PUT_INTS(b, 3, 1, 2, 4, 2, 6, 10, 7, 12, 3);
    PUT_INTS(b, 2, 1, 3, 6, 0, 8, 1, 12, 3, 90);
    put_text(b, "\n$EndElements\n");
}

static void binary_4(bin *b)
{
    put_text(b, "$MeshFormat\n4.1 1 ");
    put_text(b, b->size_bytes == 8 ? "8\n" : "4\n");
    PUT_INTS(b, 1);
    put_text(b, "\n$EndMeshFormat\n$PhysicalNames\n1\n2 1 \"the wing\"\n$EndPhysicalNames\n$Entities\n");
    PUT_SIZES(b, 1, 0, 2, 0);
    PUT_INTS(b, 1);
    PUT_DOUBLES(b, 0, 0, 0);
    PUT_SIZES(b, 0);
    PUT_INTS(b, 5);
    PUT_DOUBLES(b, 0, 0, 0, 1, 1, 1);
    PUT_SIZES(b, 1);
    PUT_INTS(b, -1);
    PUT_SIZES(b, 2);
    PUT_INTS(b, 1, -2);
    PUT_INTS(b, 8);
    PUT_DOUBLES(b, 0, 0, 0, 1, 1, 1);
    PUT_SIZES(b, 0, 0);
    put_text(b, "\n$EndEntities\n$Nodes\n");
    PUT_SIZES(b, 2, 4, 3, 90);
    PUT_INTS(b, 2, 5, 1);
    PUT_SIZES(b, 3, 10, 7, 12);
    PUT_DOUBLES(b, 0, 0, 0, .1, .2, 1, 0, 0, .1, .2, 1, 1, 0, .1, .2);
    PUT_INTS(b, 0, 1, 0);
    PUT_SIZES(b, 1, 90);
    PUT_DOUBLES(b, .5, .5, 1);
    put_text(b, "\n$EndNodes\n$Elements\n");
    PUT_SIZES(b, 2, 2, 1, 2);
    PUT_INTS(b, 2, 5, 2);
    PUT_SIZES(b, 1, 1, 10, 7, 90);
    PUT_INTS(b, 2, 8, 2);
    PUT_SIZES(b, 1, 2, 7, 12, 90);
    put_text(b, "\n$EndElements\n$Periodic\n");
    PUT_SIZES(b, 1);
    PUT_INTS(b, 0, 2, 1, 0x45242440); /* bytes that begin like a section's end */
    put_text(b, "\n$EndPeriodic\n");
}

static void binary_of_both_byte_orders(void **state)
{
    (void)state;
    for (int big = 0; big < 2; big++) {
        bin b = {.big = big == 1, .size_bytes = 8};
        ff_mesh *m;
        binary_2(&b);
        if (ff_test_parse_n(ff_gmsh_parse, b.byte, b.n, &m) != FF_OK)
            fail_msg("refused: %s", ff_error_text());
        assert_int_equal(m->n_cells, 4);
        EXPECT_CELL(m, 0, "the wing", 3, 0, 1, 4);
        EXPECT_CELL(m, 1, "the wing", 3, 1, 2, 4);
        EXPECT_CELL(m, 2, "physical 2", 4, 0, 1, 2, 3);
        EXPECT_CELL(m, 3, "entity 8", 3, 2, 3, 4);
        assert_true(m->points[3 * 4 + 1] == 0.5);
        ff_mesh_destroy(&m);
        assert_int_equal(ff_test_prefixes(ff_gmsh_parse, b.byte, b.n), 1);
        for (int size_bytes = 4; size_bytes <= 8; size_bytes += 4) {
            b.n = 0;
            b.size_bytes = size_bytes;
            binary_4(&b);
            if (ff_test_parse_n(ff_gmsh_parse, b.byte, b.n, &m) != FF_OK)
                fail_msg("refused: %s", ff_error_text());
            assert_int_equal(m->n_cells, 2);
            EXPECT_CELL(m, 0, "the wing", 3, 0, 3, 1);
            EXPECT_CELL(m, 1, "entity 8", 3, 1, 2, 3);
            ff_mesh_destroy(&m);
            /* Whole from $EndElements on until $Periodic begins, and without the last end of line. */
            assert_int_equal(ff_test_prefixes(ff_gmsh_parse, b.byte, b.n), 3);
        }
    }
}

static void what_is_wrong_in_binary_is_refused(void **state)
{
    (void)state;
    bin b = {.size_bytes = 8};
    binary_2(&b);
    unsigned char *at = memmem(b.byte, b.n, "$Elements\n5\n", 12);
    assert_non_null(at);
    at[12] = 34; /* type of the first block */
    ff_test_refuse_n(ff_gmsh_parse, b.byte, b.n, "$Elements: element type 34");
    at[12] = 1;
    at[16] = 200; /* its number of elements */
    ff_test_refuse_n(ff_gmsh_parse, b.byte, b.n, "a block of 200 elements, expected 1 to the 5");
    at[16] = 1;
    at[10] = '4';
    ff_test_refuse_n(ff_gmsh_parse, b.byte, b.n,
                     "$Elements: bytes that are not $EndElements behind the 4 rows");
    at[10] = '6';
    ff_test_refuse_n(ff_gmsh_parse, b.byte, b.n, "$Elements, row 5 of 6: ");
    at[10] = '5';
    b.byte[20] = 2;
    ff_test_refuse_n(ff_gmsh_parse, b.byte, b.n, "expected the number 1 of a binary file");
}

/* ---- fields ---- */

#define DATA_2(section, name, step, comps, rows)                                                             \
    "$" section "\n2\n\"" name "\"\n\"a scheme\"\n1\n0.5\n4\n" step "\n" comps "\n" rows "$End" section "\n"

static void fields_of_text(void **state)
{
    (void)state;
    static const char text[] = FORMAT_2 NODES_2 "$Elements\n3\n9 1 2 4 1 10 7\n1 2 2 1 5 10 7 90\n2 3 2 2 6 "
                                                "10 7 12 3\n$EndElements\n" /* element 9 is no cell */
        DATA_2("NodeData", "p", "0", "1", "5\n0\n90 4\n10 0.5\n7 -1e3\n12 2\n3 3\n")
            DATA_2("NodeData", "p", "1", "1", "5\n0\n90 40\n10 5\n7 -1e4\n12 20\n3 30\n")
                DATA_2("ElementData", "U vec", "0", "3", "2\n0\n2 4 5 6\n9 1 2 3\n")
                    DATA_2("ElementData", "of volumes", "0", "1", "1\n0\n77 4\n");
    for (int step = 0; step < 3; step++) {
        ff_mesh *m = NULL;
        ff_read_opts opts = FF_READ_OPTS_INIT;
        opts.step = step;
        ff_test_write("data.msh", text, sizeof text - 1);
        ff_error_clear();
        ff_status st = ff_gmsh_read("data.msh", &opts, &m);
        if (step == 2) {
            ff_test_refused(st, "step = 2, but no field has so many steps");
            continue;
        }
        if (st != FF_OK) fail_msg("%s", ff_error_text());
        const ff_field *p = ff_field_set_find(&m->point_data, "p"),
                       *u = ff_field_set_find(&m->cell_data, "U vec");
        assert_true(p != NULL && u != NULL && m->cell_data.n == 1 && m->point_data.n == 1);
        static const double want[2][5] = {{0.5, -1e3, 2, 3, 4}, {5, -1e4, 20, 30, 40}};
        assert_memory_equal(p->value, want[step], sizeof want[step]);
        assert_true(u->n_comp == 3 && u->value[3] == 4 && u->value[5] == 6);
        assert_true(u->value[0] != u->value[0]); /* NaN: the first cell has no row */
        ff_mesh_destroy(&m);
    }
    assert_int_equal(unlink("data.msh"), 0);
}

/* Numbers of rows are ints in both versions. */
static void fields_of_binary(void **state)
{
    (void)state;
    for (int big = 0; big < 2; big++)
        for (int v4 = 0; v4 < 2; v4++) {
            bin b = {.big = big == 1, .size_bytes = 8};
            ff_mesh *m;
            if (v4)
                binary_4(&b);
            else
                binary_2(&b);
            put_text(&b, "$NodeData\n1\n\"p\"\n1\n0\n3\n0\n1\n2\n");
            PUT_INTS(&b, 90);
            PUT_DOUBLES(&b, 4.5);
            PUT_INTS(&b, 7);
            PUT_DOUBLES(&b, -7.5);
            put_text(&b, "\n$EndNodeData\n$ElementData\n1\n\"U\"\n0\n3\n0\n3\n1\n");
            PUT_INTS(&b, v4 ? 2 : 3);
            PUT_DOUBLES(&b, 1, 2, 3);
            put_text(&b, "\n$EndElementData\n");
            if (ff_test_parse_n(ff_gmsh_parse, b.byte, b.n, &m) != FF_OK)
                fail_msg("refused: %s", ff_error_text());
            const ff_field *p = ff_field_set_find(&m->point_data, "p"),
                           *u = ff_field_set_find(&m->cell_data, "U");
            assert_true(p != NULL && u != NULL);
            assert_true(p->value[1] == -7.5 && p->value[m->n_points - 1] == 4.5);
            assert_true(u->value[v4 ? 3 : 0] == 1 && u->value[v4 ? 5 : 2] == 3);
            ff_mesh_destroy(&m);
        }
}

/* ---- refusals ---- */

static void prefixes_of_text(void **state)
{
    (void)state;
    assert_int_equal(ff_test_prefixes(ff_gmsh_parse, text_2, strlen(text_2)), 1);
    assert_int_equal(ff_test_prefixes(ff_gmsh_parse, text_4, strlen(text_4)), 3);
}

#define BAD_4(elements)                                                                                      \
    FORMAT_4 "$Nodes\n1 3 1 3\n2 1 0 3\n1\n2\n3\n0 0 0\n1 0 0\n0 1 0\n$EndNodes\n" elements

static void what_is_wrong_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "the file ends without $MeshFormat"},
        {"(0 \"Fluent\")\n", "line 1: \"(0\", expected the head of a section of a Gmsh file"},
        {"$Nodes\n1\n", "line 1: $Nodes: expected $MeshFormat first"},
        {"$NOD\n1\n", "Gmsh version 1, expected 2.2 or 4.1"},
        {"$MeshFormat\n4 0 8\n$EndMeshFormat\n", "line 2: Gmsh version 4, expected 2.2 or 4.1"},
        {"$MeshFormat\n2.2 7 8\n", "line 2: $MeshFormat: expected version, type"},
        {"$MeshFormat\n2.2 0 4\n", "data size 4, expected 8"},
        {FORMAT_2 FORMAT_2, "line 4: $MeshFormat: a second section"},
        {FORMAT_2 NODES_2, "the file ends without $Elements"},
        {FORMAT_2 "$Elements\n0\n$EndElements\n", "the file ends without $Nodes"},
        {FORMAT_2 NODES_2 NODES_2, "a second section of this name"},
        {FORMAT_2 "$ParametricNodes\n", "parametric nodes of version 2 are not read"},
        {FORMAT_2 "$Nodes\nx\n", "line 5: $Nodes: \"x\", expected the number of rows"},
        {FORMAT_2 "$Nodes\n3\n1 0 0 0\n2 1 0 0\n$EndNodes\n",
         "line 8: $Nodes, row 3 of 3: \"$EndNodes\", expected the number of a node"},
        {FORMAT_2 "$Nodes\n1\n1 0 0 0\n2 1 0 0\n$EndNodes\n",
         "line 7: $Nodes: \"2\", expected $EndNodes behind the 1 rows"},
        {FORMAT_2 "$Nodes\n2\n1 0 0\n2 1 0 0\n$EndNodes\n",
         "line 8: $Nodes, row 2 of 2: \"$EndNodes\", expected a coordinate"},
        {FORMAT_2 "$Nodes\n1\n1 0 zero 0\n",
         "line 6: $Nodes, row 1 of 1: \"zero\", expected a coordinate, a number"},
        {FORMAT_2 "$Nodes\n1\n-1 0 0 0\n", "the number of a node is negative"},
        {FORMAT_2 "$Nodes\n2\n4 0 0 0\n4 1 0 0\n$EndNodes\n$Elements\n0\n$EndElements\n",
         "$Nodes: rows 1 and 2 have the same number 4"},
        {FORMAT_2 "$Nodes\n1\n4 0 nan 0\n$EndNodes\n$Elements\n0\n$EndElements\n", "point 0: y = nan"},
        {FORMAT_2 NODES_2 "$Elements\n1\n5 2 2 1 1 10 7 8\n$EndElements\n",
         "$Elements: element 5 uses node 8, which $Nodes does not hold"},
        {FORMAT_2 NODES_2 "$Elements\n1\n5 34 2 1 1 10 7 8\n",
         "line 14: $Elements, row 1 of 1: element type 34"},
        {FORMAT_2 NODES_2 "$Elements\n1\n5 2 -1 1 1 10 7 8\n", "-1 tags"},
        {FORMAT_2 NODES_2 "$Elements\n2\n5 2 2 1 1 10 7 12\n$EndElements\n",
         "line 15: $Elements, row 2 of 2: \"$EndElements\""},
        {FORMAT_2 "$PhysicalNames\n1\n2 1 wing\n",
         "line 6: $PhysicalNames, row 1 of 1: \"2 1 wing\", expected dimension"},
        {FORMAT_2 "$PhysicalNames\n2\n2 1 \"wing\"\n$EndPhysicalNames\n",
         "expected dimension, number and a name"},
        {FORMAT_2 "$Unknown\n1\n", "the file ends, expected $EndUnknown"},
        {FORMAT_2 "$NodeData\n1\n", "the file ends, expected a text: cut?"},
        {FORMAT_2 "$NodeData\n1\nname\n", "expected the name of a field between quotation marks"},
        {FORMAT_2 "$NodeData\n1\n\"p\"\n1\nx\n", "a real tag: \"x\", expected a number"},
        {FORMAT_2 "$NodeData\n1\n\"p\"\n0\n2\n0\n1\n", "2 whole tags, expected 3 or more"},
        {FORMAT_2 "$NodeData\n1\n\"p\"\n0\n3\n0\n0\n1\n", "0 components and 1 rows"},
        {FORMAT_2 "$NodeData\n1\n\"p\"\n0\n3\n0\n1\n2\n1 5\n-1 6\n$EndNodeData\n",
         "row 2 of 2: a number is negative"},
        {FORMAT_2 "$NodeData\n1\n\"p\"\n0\n3\n0\n1\n2\n1 5\n$EndNodeData\n", "row 2 of 2"},
        {FORMAT_4 "$Nodes\n1 3 1 3\n2 1 0 4\n", "a block of 4 rows, but only 3 are left"},
        {FORMAT_4 "$Nodes\n1 3 1 3\n2 1 0 1\n1\n0 0 0\n$EndNodes\n",
         "the blocks hold 1 rows, but the section announced 3"},
        {FORMAT_4 "$Nodes\n1 3 1 3\n9 1 0 3\n", "a block of dimension 9"},
        {FORMAT_4 "$Nodes\n1 1 1 3\n2 1 0 1\n-4\n", "is negative"},
        {BAD_4("$Elements\n1 1 1 1\n1 1 2 1\n1 1 2 3\n$EndElements\n"),
         "elements of type 2 in an entity of dimension 1, expected 2"},
        {BAD_4("$Elements\n2 1 1 1\n2 1 2 1\n1 1 2 3\n$EndElements\n"),
         "\"$EndElements\", expected the dimension"},
        {BAD_4("$Elements\n1 2 1 1\n2 1 2 1\n1 1 2 3\n$EndElements\n"),
         "the blocks hold 1 rows, but the section announced 2"},
        {BAD_4("$Elements\n1 1 1 1\n2 99999999999 2 1\n"), "expected a number of 32 bits"},
        {FORMAT_4 "$Entities\n0 0 1 0\n1 0 0 0 1 1 1 1 2\n$EndEntities\n",
         "line 7: $Entities, row 1 of 1: \"$EndEntities\", expected the number of bounding entities"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ff_test_refuse(ff_gmsh_parse, cases[i][0], cases[i][1]);
}

static int no_block_left(void **state)
{
    (void)state;
    return ff_mem_blocks() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(version_2_text, no_block_left),
        cmocka_unit_test_teardown(version_4_text, no_block_left),
        cmocka_unit_test_teardown(partitions, no_block_left),
        cmocka_unit_test_teardown(higher_orders_give_their_corners, no_block_left),
        cmocka_unit_test_teardown(volumes_alone_give_their_boundary, no_block_left),
        cmocka_unit_test_teardown(lines_alone_are_a_curve, no_block_left),
        cmocka_unit_test_teardown(binary_of_both_byte_orders, no_block_left),
        cmocka_unit_test_teardown(what_is_wrong_in_binary_is_refused, no_block_left),
        cmocka_unit_test_teardown(fields_of_text, no_block_left),
        cmocka_unit_test_teardown(fields_of_binary, no_block_left),
        cmocka_unit_test_teardown(prefixes_of_text, no_block_left),
        cmocka_unit_test_teardown(what_is_wrong_is_refused_with_its_place, no_block_left),
    };
    ff_log_set_level(FF_LOG_ERROR); /* warnings about what is left out are not of interest here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
