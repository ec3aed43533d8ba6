/* Extended XYZ: columns, cells, frames, and what is refused. */
#include "ff_test_mesh.h"

#include "ff_xyz.h"

static ff_xyz_cell cell;
static int64_t step;

static ff_status parse(ff_bytes *b, ff_mesh **out)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    opts.step = step;
    return ff_xyz_parse(b, &opts, out, &cell);
}

static void expect_points(const char *text, const double *x, int64_t n)
{
    ff_mesh *m = ff_test_parse(parse, text);
    assert_int_equal(m->n_points, n);
    assert_int_equal(m->n_cells, 0);
    for (int64_t i = 0; i < 3 * n; i++) assert_true(m->points[i] == x[i]);
    ff_mesh_destroy(&m);
}

static void positions_in_all_their_columns(void **state)
{
    (void)state;
    const double x[6] = {1, 2, 3, -4, 0.5, 1e-3};
    static const char *const spellings[] = {
        "2\n\n1 2 3\n-4 0.5 1e-3\n",
        "2\r\nany words\r\nSi 1 2 3\r\nO -4 .5 0.001\r\n",
        "\n 2 \nProperties=species:S:1:pos:R:3\nSi 1 2 3\nO -4 .5 0.001",
        "2\nenergy=1.5 properties=id:I:1:forces:R:3:pos:R:3:tag:I:10\n7 0 0 0 1 2 3 9\n8 x y z -4 0.5 1e-3\n",
        "2\nnote=\"Properties=no\" Properties=\"pos:R:3:species:S:1\"\n1 2 3 H\n-4 0.5 1e-3 H\n",
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        expect_points(spellings[i], x, 2);
        assert_false(cell.given);
    }
    expect_points("0\n\n", x, 0);
}

static void cells_are_read(void **state)
{
    (void)state;
    const double x[3] = {1, 2, 3}, rows[9] = {1, 0, 0, 0, 2, 0, 0.5, 0, 3};
    expect_points("1\nLattice=\"1 0 0 0 2 0 0.5 0 3\"\nH 1 2 3\n", x, 1);
    assert_true(cell.given && cell.periodic[0] && cell.periodic[1] && cell.periodic[2]);
    for (int i = 0; i < 9; i++) assert_true(cell.vector[i / 3][i % 3] == rows[i]);
    expect_points("1\npbc=\"T F 1\" a=b lattice={1,0,0,0,2,0,0.5,0,3}\nH 1 2 3\n", x, 1);
    assert_true(cell.given && cell.periodic[0] && !cell.periodic[1] && cell.periodic[2]);
    for (int i = 0; i < 9; i++) assert_true(cell.vector[i / 3][i % 3] == rows[i]);
    expect_points("1\npbc=[False, True, False]\nH 1 2 3\n", x, 1);
    assert_true(!cell.given && !cell.periodic[0] && cell.periodic[1] && !cell.periodic[2]);
}

static void frames_are_chosen(void **state)
{
    (void)state;
    const char *text = "1\nLattice=\"1 0 0 0 1 0 0 0 1\"\nH 1 2 3\n2\n\nH 4 5 6\nH 7 8 9\n";
    const double first[3] = {1, 2, 3}, second[6] = {4, 5, 6, 7, 8, 9};
    step = 0, expect_points(text, first, 1);
    assert_true(cell.given);
    step = 1, expect_points(text, second, 2);
    assert_false(cell.given);
    step = 2, ff_test_refuse(parse, text, "read.step = 2, the file has 2 frames");
    step = 0;
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    ff_test_refuse(parse, "", "is empty");
    ff_test_refuse(parse, "x\n\n", "line 1: \"x\", expected the number of points");
    ff_test_refuse(parse, "-1\n\n", "expected the number of points");
    ff_test_refuse(parse, "3\n", "line 1: the file ends after the number of points");
    ff_test_refuse(parse, "3\n\nH 1 2 3\n", "the file ends after 1 of 3 points");
    ff_test_refuse(parse, "900000000000000000\n\nH 1 2 3\n", "the file ends after 1 of");
    ff_test_refuse(parse, "1\n\nH 1 2\nH 1 2 3\n", "line 3: column 1 is \"H\", expected a number");
    ff_test_refuse(parse, "1\n\nH 1 x 3\n", "line 3: column 3 is \"x\", expected a number");
    ff_test_refuse(parse, "1\n\nH 1 2 3 4\n", "line 3: 5 columns");
    ff_test_refuse(parse, "1\n\nH 1 nan 3\n", "nan");
    ff_test_refuse(parse, "1\nProperties=pos:R:2\nH 1 2\n", "pos has 2 columns");
    ff_test_refuse(parse, "1\nProperties=pos:R\nH 1 2\n", "expected name:type:columns");
    ff_test_refuse(parse, "1\nProperties=a:R:1\nH 1 2\n", "no pos:R:3");
    ff_test_refuse(parse, "1\nProperties=a:S:1:pos:R:3\nH 1 2\n", "3 columns, expected at least 4");
    ff_test_refuse(parse, "1\nLattice=\"1 0 0\"\nH 1 2 3\n", "Lattice has 3 numbers, expected 9");
    ff_test_refuse(parse, "1\npbc=\"T T\"\nH 1 2 3\n", "pbc has 2 flags, expected 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(positions_in_all_their_columns),
                                       cmocka_unit_test(cells_are_read), cmocka_unit_test(frames_are_chosen),
                                       cmocka_unit_test(bad_files_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
