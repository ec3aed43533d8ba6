/* OBJ: faces, groups, lines, and what is refused. */
#include "ff_test_mesh.h"

#include "ff_obj.h"

#define SQUARE "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"

static void expect_cells(const char *text, const int64_t *pts, int64_t n_pts, int64_t n_cells)
{
    ff_mesh *m = ff_test_parse(ff_obj_parse, text);
    assert_int_equal(m->n_cells, n_cells);
    assert_memory_equal(m->cell_pts, pts, (size_t)n_pts * sizeof *pts);
    ff_mesh_destroy(&m);
}

static void corners_in_all_their_spellings(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        SQUARE "f 1 2 3 4\n",
        SQUARE "f 1 2 3 4",
        SQUARE "f 1/1 2/2 3/3 4/4\n",
        SQUARE "f 1//1 2//2 3//3 4//4\n",
        SQUARE "f 1/1/1 2/9/9 3/-7/1 4/1/1 # trailing remark\n",
        SQUARE "f -4 -3 -2 -1\n",
        SQUARE "f 1 2 \\\n3\\\n 4\n",
        SQUARE "f 1 2 \\\r\n 3 4 \r\n",
        SQUARE "f 1 2 3 \\ \n\\\n  4\n",
        "f 1 2 3 4\n" SQUARE, /* ids may look ahead */
        "# c:\\\nmtllib c:\\a dir\\\nusemtl m\\\n" SQUARE "s off\nf +1 2 3 4\n",
        "v 0 0 0 1.0\nv 1 0 0 0.5 0.5 0.5\n\tv\t1\t1\t0\nv 0 1 \\\n 0\nvt 0 0\nvn 0 0 1\nvp 1 \\\n 2\n\nf 1 "
        "2 3 4\n",
    };
    const int64_t want[4] = {0, 1, 2, 3};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) expect_cells(spellings[i], want, 4, 1);
}

static void negative_ids_count_from_their_line(void **state)
{
    (void)state;
    const int64_t want[6] = {0, 1, 2, 1, 2, 3};
    expect_cells("v 0 0 0\nv 1 0 0\nv 1 1 0\nf -3 -2 -1\nv 0 1 0\nf -3 -2 -1\n", want, 6, 2);
}

static void groups_and_objects_are_patches(void **state)
{
    (void)state;
    ff_mesh *m =
        ff_test_parse(ff_obj_parse, SQUARE "f 1 2 3\ng empty\no  left wheel \nf 1 2 4\nusemtl red\nf 1 3 4\n"
                                           "g a\ng b\nf 2 3 4\ng left wheel\nf 1 2 3\ng\nf 1 2 3\n");
    static const char *const names[] = {"(default)", "left wheel", "b"};
    const int32_t want[6] = {0, 1, 1, 2, 1, 0};
    assert_int_equal(m->n_patches, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(m->patch_name[i], names[i]);
    assert_memory_equal(m->cell_patch, want, sizeof want);
    ff_mesh_destroy(&m);
}

static void polygons_of_several_sizes(void **state)
{
    (void)state;
    ff_mesh *m = ff_test_parse(ff_obj_parse, SQUARE "f 1 2 3\nf 1 2 3 4\nf 4 3 2\n");
    const int64_t off[4] = {0, 3, 7, 10};
    assert_memory_equal(m->cell_off, off, sizeof off);
    ff_mesh_destroy(&m);
}

static void lines_alone_are_a_curve(void **state)
{
    (void)state;
    ff_mesh *m = ff_test_parse(ff_obj_parse, "v 0 0 5\nv 1 0 5\nv 1 1 5\ng foil\nl 1 2/7 3 1\n");
    const int64_t want[6] = {0, 1, 1, 2, 2, 0};
    assert_int_equal(m->dim, 2);
    assert_int_equal(m->n_cells, 3);
    assert_int_equal(m->n_points, 3);
    assert_memory_equal(m->cell_pts, want, sizeof want);
    assert_string_equal(m->patch_name[0], "foil");
    assert_true(m->points[2] == 0);
    ff_mesh_destroy(&m);
    m = ff_test_parse(ff_obj_parse,
                      SQUARE "l 1 2\ng hull\nf 1 2 3\nl 3 4\n"); /* beside faces they are decoration */
    assert_int_equal(m->dim, 3);
    assert_int_equal(m->n_cells, 1);
    assert_string_equal(m->patch_name[0], "hull");
    ff_mesh_destroy(&m);
    ff_test_refuse(ff_obj_parse, "v 0 0 0\nv 1 0 0\nv 1 1 2\nl 1 2 3\n", "a curve with z from 0 to 2");
}

static void a_file_may_hold_no_face(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "# nothing\n", SQUARE, "g a\n", "\n\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ff_mesh *m = ff_test_parse(ff_obj_parse, texts[i]);
        assert_int_equal(m->n_cells, 0);
        assert_int_equal(m->n_patches, 0);
        ff_mesh_destroy(&m);
    }
}

static void what_is_wrong_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {SQUARE "f 0 1 2\n", "line 5: vertex id 0"},
        {SQUARE "f 1 2 5\n", "line 5: vertex id 5, but the file has 4 vertices"},
        {SQUARE "f 1 2 9\nf 1 2 7\n", "line 5: vertex id 9"},
        {SQUARE "f 1 2 -5\n", "line 5: vertex id -5, but only 4 vertices stand before"},
        {"v 0 0 0\nf -1 -1 -2\nv 0 0 0\n", "line 2: vertex id -2, but only 1 vertices"},
        {SQUARE "f 1 2\n", "line 5: face with 2 corners"},
        {SQUARE "f\n", "line 5: face with 0 corners"},
        {SQUARE "l 1\n", "line 5: line with 1 points"},
        {SQUARE "f 1 2 x\n", "line 5: corner \"x\", expected a vertex id"},
        {SQUARE "f 1 2 /3\n", "line 5: corner \"/3\""},
        {SQUARE "f 1 2 3.5\n", "line 5: corner \"3.5\""},
        {SQUARE "f 1 2 99999999999999999999\n", "line 5: corner"},
        {SQUARE "f 1 2 \\\n 0\n", "line 6: vertex id 0"},
        {SQUARE "f 1 2 3 \\", "line 5: file ends behind"},
        {"v 0 0\n", "line 1: v with 2 coordinates"},
        {"v 0 0 abc\n", "line 1: v: \"abc\", expected a number"},
        {"v 0 nan 0\n", "line 1: v: y = nan"},
        {"v 0 0 -inf\n", "line 1: v: z = "},
        {"<html>\n", "line 1: \"<html>\", expected a statement of OBJ"},
        {"Not found\n", "line 1: \"Not\", expected a statement of OBJ"},
        {SQUARE "0.5 1 2\n", "line 5: \"0.5\", expected a statement of OBJ"},
        {SQUARE "f 1 2 3\nv 1 \x01\x02 3\n", "line 6: v: \"??\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ff_test_refuse(ff_obj_parse, cases[i][0], cases[i][1]);
    ff_test_refuse_n(ff_obj_parse, "v 0 0 0\nv\0 1", 11, "line 2: a NUL byte");
}

static void unknown_statements_are_let_pass(void **state)
{
    (void)state;
    const int64_t want[3] = {0, 1, 2};
    expect_cells(SQUARE "vendor_colour 1 2 \\\n 3\nf 1 2 3\n", want, 3, 1);
}

static int no_block_left(void **state)
{
    (void)state;
    return ff_mem_blocks() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(corners_in_all_their_spellings, no_block_left),
        cmocka_unit_test_teardown(negative_ids_count_from_their_line, no_block_left),
        cmocka_unit_test_teardown(groups_and_objects_are_patches, no_block_left),
        cmocka_unit_test_teardown(polygons_of_several_sizes, no_block_left),
        cmocka_unit_test_teardown(lines_alone_are_a_curve, no_block_left),
        cmocka_unit_test_teardown(a_file_may_hold_no_face, no_block_left),
        cmocka_unit_test_teardown(what_is_wrong_is_refused_with_its_line, no_block_left),
        cmocka_unit_test_teardown(unknown_statements_are_let_pass, no_block_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
