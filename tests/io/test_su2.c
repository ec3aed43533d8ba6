/* SU2: zones, markers, dimensions, counts that rows contradict, and what is refused. */
#include "ff_test_mesh.h"

#include "ff_log.h"
#include "ff_su2.h"

/* A pyramid on a square and its five faces. */
#define POINTS "NPOIN= 5\n0 0 0 0\n1 0 0 1\n1 1 0 2\n0 1 0 3\n0.5 0.5 1 4\n"
#define VOLUME "NELEM= 1\n14 0 1 2 3 4 0\n"
#define MARKERS                                                                                              \
    "NMARK= 2\nMARKER_TAG= base\nMARKER_ELEMS= 1\n9 0 3 2 1\nMARKER_TAG= sides\nMARKER_ELEMS= 4\n"           \
    "5 0 1 4\n5 1 2 4\n5 2 3 4\n5 3 0 4\n"
static const char pyramid[] = "% made by hand\nNDIME= 3\n" VOLUME POINTS MARKERS;

static void expect_pyramid(const char *text)
{
    ff_mesh_stats s;
    ff_mesh *m = ff_test_parse(ff_su2_parse, text);
    assert_int_equal(m->n_points, 5);
    assert_int_equal(m->n_cells, 5);
    assert_int_equal(m->n_patches, 2);
    assert_string_equal(m->patch_name[0], "base");
    assert_string_equal(m->patch_name[1], "sides");
    assert_int_equal(m->cell_patch[1], 1);
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    assert_true(s.closed && s.misoriented_edges == 0 && s.volume > 1.0 / 3 - 1e-15 &&
                s.volume < 1.0 / 3 + 1e-15);
    ff_mesh_destroy(&m);
}

static void markers_are_patches(void **state)
{
    (void)state;
    expect_pyramid(pyramid);
    /* Any order of the parts, blanks, comments, words nobody knows with rows of their own, one zone. */
    expect_pyramid("NDIME = 3\n" MARKERS POINTS VOLUME);
    expect_pyramid(
        "\n  NDIME=3 % three\nNZONE= 1\nIZONE= 1\nNDIME= 3\r\n" VOLUME "% between\n\n" POINTS "NPERIODIC= 1\n"
        "PERIODIC_INDEX= 0\nPERIODIC_CENTER= 0 0 0\nFFD_NBOX= 1\nFFD_CORNER_POINTS= 2\n0 0 0\n1 1 1\n" MARKERS
        "FFD_SURFACE_POINTS= 1\nbase 0 1e-1 0 0\n");
    /* A second number behind NPOIN and the points themselves, a marker of single points. */
    expect_pyramid(
        "NDIME= 3\nNELEM= 0\nNPOIN= 5 5\n0 0 0 0 0\n1 0 0 1 1\n1 1 0\n0 1 0\n5e-1 .5 1\n"
        "NMARK= 3\nMARKER_TAG= base\nMARKER_ELEMS= 1\n9 0 3 2 1\nMARKER_TAG= sides\nMARKER_ELEMS= 4\n"
        "5 0 1 4 0\n5 1 2 4 1\n5 2 3 4 2\n5 3 0 4 3\nMARKER_TAG= SEND_RECEIVE\nMARKER_ELEMS= 2\nSEND_RECV= "
        "2\n"
        "1 0 0\n1 4 0\n");
}

static void zones_number_their_own_points(void **state)
{
    (void)state;
    static const int64_t second[4] = {5, 8, 7, 6};
    int64_t n;
    ff_mesh *m = ff_test_parse(ff_su2_parse, "NDIME= 3\nNZONE= 2\nIZONE= 1\nNDIME= 3\n" VOLUME POINTS MARKERS
                                             "IZONE= 2\nNDIME= 3\n" VOLUME POINTS MARKERS);
    assert_int_equal(m->n_points, 10);
    assert_int_equal(m->n_cells, 10);
    assert_int_equal(m->n_patches, 4);
    assert_string_equal(m->patch_name[1], "zone1/sides");
    assert_string_equal(m->patch_name[2], "zone2/base");
    assert_memory_equal(m->cell_pts + ff_mesh_cell(m, 5, &n), second, sizeof second);
    ff_mesh_destroy(&m);
}

static void two_dimensions_give_a_curve(void **state)
{
    (void)state;
    static const int64_t want[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    ff_mesh *m = ff_test_parse(
        ff_su2_parse,
        "NDIME= 2\nNELEM= 1\n9 0 1 2 3 0\nNPOIN= 4\n0 0 0\n1 0 1\n1 1 2\n0 1 3\nNMARK= 2\n"
        "MARKER_TAG= foil\nMARKER_ELEMS= 3\n3 0 1\n3 1 2\n3 2 3\nMARKER_TAG= far\nMARKER_ELEMS= "
        "1\n3 3 0\n");
    assert_int_equal(m->dim, 2);
    assert_int_equal(m->n_cells, 4);
    assert_memory_equal(m->cell_pts, want, sizeof want);
    assert_string_equal(m->patch_name[m->cell_patch[3]], "far");
    ff_mesh_destroy(&m);
}

static void what_is_wrong_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "the file ends without NDIME=: no SU2 mesh"},
        {"hello\n", "line 1: \"hello\", expected a keyword such as NMARK=: no SU2 mesh"},
        {"NDIME= 4\n", "line 1: NDIME= \"4\", expected 2 or 3"},
        {"NDIME= 3\nNDIME= 2\n", "line 2: NDIME= 2, expected 3 as above"},
        {"NPOIN= 2\n", "line 1: NPOIN= before NDIME="},
        {"NDIME= 3\nNELEM= two\n", "line 2: NELEM= \"two\", expected a whole number"},
        {"NDIME= 3\nNELEM= 2\n5 0 1 2\nNPOIN= 3\n",
         "line 4: \"NPOIN=\", expected element 2 of the 2 that line 2 announces"},
        {"NDIME= 3\nNELEM= 1\n5 0 1 2\n5 0 1 2\n",
         "line 4: \"5\", expected a keyword such as NMARK=: more rows than the count above them says"},
        {"NDIME= 3\nNELEM= 1\n7 0 1 2\n", "line 3: element type \"7\", expected 3, 5"},
        {"NDIME= 3\nNELEM= 1\n9 0 1 2\n", "line 3: element of type 9 with 3 point ids, expected 4"},
        {"NDIME= 3\nNELEM= 1\n5 0 1 2 3 4\n", "line 3: element of type 5 with more than 3 point ids"},
        {"NDIME= 3\nNELEM= 1\n5 0 1 -2\n", "line 3: point id \"-2\""},
        {"NDIME= 3\n" VOLUME "NPOIN= 2\n0 0 0\n1 0 0\nNMARK= 0\n",
         "line 3: point id 4, expected 0 <= id < 2"},
        {"NDIME= 3\n" VOLUME "NPOIN= 2\n0 0 0\nNMARK= 0\n",
         "line 6: \"NMARK=\", expected point 2 of the 2 that line 4 announces"},
        {"NDIME= 3\nNPOIN= 1\n0 0\n", "line 3: point with 2 coordinates, expected 3"},
        {"NDIME= 3\nNPOIN= 1\n0 0 x\n", "line 3: coordinate \"x\""},
        {"NDIME= 2\nNPOIN= 1\n0 0 0.5\n", "line 3: \"0.5\" behind the 2 coordinates"},
        {"NDIME= 3\nNPOIN= 0\nNPOIN= 0\n", "line 3: a second NPOIN=, the first stands in line 2"},
        {"NDIME= 3\nNPOIN= 3\n0 0 0\n",
         "the file ends, expected point 2 of the 3 that line 2 announces: cut?"},
        {"NDIME= 3\n" POINTS MARKERS, "the file ends at line 17 without NELEM=: cut"},
        {"NDIME= 3\n" VOLUME POINTS, "the file ends at line 9 without NMARK=: cut"},
        {"NDIME= 3\n" VOLUME POINTS "NMARK= 2\nMARKER_TAG= a\nMARKER_ELEMS= 1\n5 0 1 2\n",
         "line 10: NMARK= 2, but the file has 1 whole markers: cut?"},
        {"NDIME= 3\n" VOLUME POINTS "NMARK= 1\nMARKER_TAG= a\n",
         "NMARK= 1, but the file has 0 whole markers"},
        {"NDIME= 3\n" VOLUME POINTS "NMARK= 1\nMARKER_TAG= a\nMARKER_TAG= b\n",
         "line 12: MARKER_TAG= behind another"},
        {"NDIME= 3\n" VOLUME POINTS "NMARK= 1\nMARKER_TAG=\n", "line 11: MARKER_TAG= without a name"},
        {"NDIME= 3\n" VOLUME POINTS "NMARK= 1\nMARKER_ELEMS= 1\n",
         "line 11: MARKER_ELEMS= without MARKER_TAG="},
        {"NDIME= 3\n" VOLUME POINTS "NMARK= 1\nMARKER_TAG= a\nMARKER_ELEMS= 2\n5 0 1 2\nMARKER_TAG= b\n",
         "line 14: a keyword, expected row 2 of the 2 of a marker that line 12 announces"},
        {"NDIME= 3\n" VOLUME POINTS "NMARK= 1\nMARKER_TAG= a\nMARKER_ELEMS= 1\n5 0 1 5\n",
         "line 13: point id 5, expected 0 <= id < 5 as NPOIN= says"},
        {"NDIME= 3\n" VOLUME POINTS "NMARK= 1\nMARKER_TAG= a\nMARKER_ELEMS= 1\n3 0 1\n",
         "line 13: marker with an element of type 3, expected 5 (triangle)"},
        {"NDIME= 3\nNZONE= 2\n" VOLUME, "line 3: NELEM= before IZONE=, of a file with NZONE= 2"},
        {"NDIME= 3\nNZONE= 2\nIZONE= 2\n", "line 3: IZONE= 2, expected 1 of NZONE= 2"},
        {"NDIME= 3\nNZONE= 2\nIZONE= 1\n" VOLUME POINTS MARKERS,
         "NZONE= 2, but the file ends behind zone 1: cut?"},
        {"NDIME= 3\nNZONE= 2\nIZONE= 1\n" VOLUME POINTS "IZONE= 2\n",
         "zone 1 ends at line 12 without NMARK="},
        {"NDIME= 3\n" VOLUME "NZONE= 2\n", "line 4: NZONE= behind the first zone"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ff_test_refuse(ff_su2_parse, cases[i][0], cases[i][1]);
    ff_test_refuse_n(ff_su2_parse, "NDIME= 3\n\0", 10, "line 2: a NUL byte");
}

static void prefixes(void **state)
{
    (void)state;
    /* Only the last end of line says nothing; all ids have one digit, so none can be cut. */
    assert_int_equal(ff_test_prefixes(ff_su2_parse, pyramid, strlen(pyramid)), 1);
}

static int no_block_left(void **state)
{
    (void)state;
    return ff_mem_blocks() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(markers_are_patches, no_block_left),
        cmocka_unit_test_teardown(zones_number_their_own_points, no_block_left),
        cmocka_unit_test_teardown(two_dimensions_give_a_curve, no_block_left),
        cmocka_unit_test_teardown(what_is_wrong_is_refused_with_its_line, no_block_left),
        cmocka_unit_test_teardown(prefixes, no_block_left),
    };
    ff_log_set_level(FF_LOG_ERROR); /* warnings about a last line without an end are not of interest here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
