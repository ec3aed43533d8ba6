/* Nastran bulk data: three kinds of fields, numbers without E, chains of coordinate systems, and what is refused. */
#include "ff_test_mesh.h"

#include "ff_log.h"
#include "ff_nastran.h"
#include "ff_nastran_card.h"

#include <math.h>

#define SQUARE "GRID,1,,0.,0.,0.\nGRID,2,,1.,0.,0.\nGRID,3,,1.,1.,0.\nGRID,4,,0.,1.,0.\n"

static ff_mesh *parse(const char *text)
{
    return ff_test_parse(ff_nastran_parse, text);
}

static void expect_point(const ff_mesh *m, int64_t p, double x, double y, double z)
{
    const double want[3] = {x, y, z};
    for (int k = 0; k < 3; k++) /* a few roundings of numbers up to 10 */
        if (!(fabs(m->points[3 * p + k] - want[k]) <= 1e-14))
            fail_msg("point %d: %c = %.17g, expected %.17g", (int)p, "xyz"[k], m -> points[3 * p + k],
                     want[k]);
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"7.0", 7},
                {".7E1", 7},
                {"0.7+1", 7},
                {".70+1", 7},
                {"7.E+0", 7},
                {"70.-1", 7},
                {"-1.42569-13", -1.42569e-13},
                {"1.5D-3", 1.5e-3},
                {"1.5d3", 1500},
                {"+2.", 2},
                {"-.5", -.5},
                {"1+2", 100},
                {"0", 0},
                {"-0.", 0}};
    static const char *const bad[] = {"1.5 -3", "1.5--3", "1.5E", "E5",     "nan", "inf", "1.5-3-2",
                                      "1e5-3",  "0x10",   "1.+",  "1.e400", "+",   "-"};
    double x;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!ff_nastran_number(good[i].text, &x) || x != good[i].value)
            fail_msg("\"%s\" gives %g", good[i].text, x);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (ff_nastran_number(bad[i], &x)) fail_msg("\"%s\" gives %g", bad[i], x);
}

/* Point 7 at (1.5, -2e-3, 30) in all spellings. */
static void fields_of_three_kinds(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        "GRID           7             1.5   -2.-3     30.\n",
        "GRID    7               1.5     -.002   3.+1\n",
        "grid    7               1.5     -2.00E-330.\n",
        "GRID           7             1.5   -.002     30.                               +\n",
        "GRID           7             1.5   -.002     30.                                        beyond 80 "
        "columns\n",
        "GRID\t7\t\t1.5\t-.002\t30.\n",
        "GRID           7             1.5   -.002     30. $ comment\r\n",
        "GRID*                  7                             1.5        -2.00D-3+A\n*A                   "
        "30.\n",
        "GRID*                  7                             1.5        -2.00D-3\n*                    "
        "30.\n",
        "GRID   *               7                             1.5           -.002\n$ between\n\n*            "
        "        30.\n",
        "GRID*                  7                             1.5           -.002*G7\n*G7     30.\n",
        "GRID,7,,1.5,-2.-3,30.\n",
        "GRID, 7 ,, 1.5 ,-.002 , 30., , ,\n",
        "GRID,7,,1.5,-.002,30.,,,,+X\n+X,\n",
        "GRID*,7,,1.5,-.002,+A\n*A,30.\n",
        "GRID*,7,,1.5,-.002\n*,30.,,\n",
        "GRID*,7,,1.500000000000000000,-.002\n*       30.\n",
        "GRDSET,,0\nGRID,7,,1.5,-.002,30.\n",
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        ff_mesh *m = parse(spellings[i]);
        assert_int_equal(m->n_points, 1);
        if (m->points[0] != 1.5 || m->points[1] != -0.002 || m->points[2] != 30)
            fail_msg("spelling %d: %g %g %g", (int)i, m->points[0], m->points[1], m->points[2]);
        ff_mesh_destroy(&m);
    }
}

/* Elements of all kinds; numbers of points and elements in any order. */
#define SHELLS                                                                                               \
    "CTRIA3,11,5,30,10,20\n"                                                                                 \
    "CQUAD4        12       5      10      20      30      40\n"                                             \
    "CTRIA6,13,6,10,20,30,50,60,70\n"                                                                        \
    "CQUAD8,14,6,10,20,30,40,50,60,+B\n+B,70,80\n"                                                           \
    "CQUADR*               15               7              10              20\n*                     30    " \
    "          40\n"                                                                                         \
    "CTRIAR,16,,10,20,30\n"
#define GRIDS                                                                                                \
    "GRID,40,,0.,1.,0.\nGRID,10,,0.,0.,0.\nGRID,20,,1.,0.,0.\nGRID,30,,1.,1.,0.\nGRID,50,,.5,0.,0.\n"        \
    "GRID,60,,1.,.5,0.\nGRID,70,,.5,1.,0.\nGRID,80,,0.,.5,0.\n"
static const char deck[] =
    "ASSIGN OUTPUT2='x.op2'\nSOL 101\nTITLE = one, two\nCEND\nSET 1 = 1,2,3,4,5,6,7,8,9,10,11,12,13,14\n"
    "GRID of the plot, never, a, point\nSUBCASE 1\n  SUBTITLE=a\nbegin "
    "bulk\nPSHELL,5,1,1.\nCORD2R,3,,0.,0.,0.,0.,0.,1.,+\n+,1.,0.,0.\n" SHELLS
    "MAT1,1,2.1+5,,.3\nCONTINUED, 1,2\n" GRIDS "FORCE,1,10,,1.,0.,0.,1.\nENDDATA\nGRID,1,9,not,read,\n";

static void shells_and_properties(void **state)
{
    (void)state;
    static const char *const names[] = {"PID 5", "PID 6", "PID 7", "PID 16"};
    static const int32_t patch[6] = {0, 0, 1, 1, 2, 3};
    static const int64_t off[7] = {0, 3, 7, 10, 14, 18, 21};
    static const int64_t pts[21] = {3, 1, 2, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
    ff_mesh *m = parse(deck);
    assert_int_equal(m->n_points, 8);
    assert_int_equal(m->n_cells, 6);
    assert_int_equal(m->n_patches, 4);
    for (int p = 0; p < 4; p++) assert_string_equal(m->patch_name[p], names[p]);
    assert_memory_equal(m->cell_patch, patch, sizeof patch);
    assert_memory_equal(m->cell_off, off, sizeof off);
    assert_memory_equal(m->cell_pts, pts, sizeof pts);
    ff_mesh_destroy(&m);
    m = parse(GRIDS SHELLS); /* a part of a deck, without sections */
    assert_int_equal(m->n_cells, 6);
    ff_mesh_destroy(&m);
    m = parse("GRID,1,,0.,0.,0.\nGRID,2,,1.,0.,0.\nGRID,2,,1.,0.,0.\n"); /* twice the same is allowed */
    assert_int_equal(m->n_points, 3);
    ff_mesh_destroy(&m);
}

/* Each system by itself, with hand-made results. */
static void coordinate_systems(void **state)
{
    (void)state;
    static const double h = 0.70710678118654752440;
    ff_mesh *m = parse(
        "CORD2R,1,,10.,0.,0.,10.,0.,1.\n,10.,1.,0.\n" /* x of the system is y, y is -x, origin (10, 0, 0) */
        "CORD2C         2       0      0.      0.      0.      0.      0.      1.+C2\n"
        "+C2           1.      0.      0.\n"
        "CORD2S*                3                              0.              0.*A\n"
        "*A                    0.              0.              0.              1.*B\n"
        "*B                    1.              0.              0.\n"
        "GRID,1,1,1.,2.,3.\nGRID,2,2,2.,90.,5.\nGRID,3,2,2.,-45.,0.\nGRID,4,3,2.,90.,90.\n"
        "GRID,5,3,2.,0.,17.\nGRID,6,3,1.,90.,45.\nGRID,7,0,1.,2.,3.\n");
    expect_point(m, 0, 8, 1, 3);
    expect_point(m, 1, 0, 2, 5);
    expect_point(m, 2, 2 * h, -2 * h, 0);
    expect_point(m, 3, 0, 2, 0);
    expect_point(m, 4, 0, 0, 2);
    expect_point(m, 5, h, h, 0);
    expect_point(m, 6, 1, 2, 3);
    ff_mesh_destroy(&m);
}

/* A rectangular system in a cylindrical one in a rectangular one, defined backwards; CORD1 by points that are
 * themselves given in another system; two systems in one CORD1 entry; GRDSET for points without a system. */
static void chains_of_systems(void **state)
{
    (void)state;
    ff_mesh *m =
        parse("GRDSET,,30\n"
              /* 30: origin (r 1, 90 degrees, z 0) of 20, z axis up, x towards the axis' point (2, 90, 0) */
              "CORD2R,30,20,1.,90.,0.,1.,90.,1.\n,2.,90.,0.\n"
              /* 20: cylindrical, in 10 */
              "CORD2C,20,10,0.,0.,0.,0.,0.,1.\n,1.,0.,0.\n"
              /* 10: moved by (5, 0, 0), axes as the basic system */
              "CORD2R,10,0,5.,0.,0.,5.,0.,1.\n,6.,0.,0.\n"
              "GRID,1,,1.,0.,0.\n"  /* (5, 1, 0) + x of 30 = (0, 1, 0) */
              "GRID,2,0,1.,2.,3.\n" /* GRDSET does not change a system that is given */
              "GRID,3,10,0.,0.,0.\nGRID,4,10,0.,0.,1.\nGRID,5,20,1.,90.,0.\n" /* A, B, C of 40 and 41 */
              "CORD1R,40,3,4,5,41,3,5,4\n"
              "CORD1C,42,3,4,5\n"
              "GRID,6,40,1.,0.,0.\n"    /* x of 40 is +y */
              "GRID,7,41,1.,2.,3.\n"    /* z of 41 is +y, x is +z, y = z cross x = y cross z = +x */
              "GRID,8,42,2.,90.,7.\n"); /* 90 degrees from +y: -x */
    expect_point(m, 0, 5, 2, 0);
    expect_point(m, 1, 1, 2, 3);
    expect_point(m, 2, 5, 0, 0);
    expect_point(m, 4, 5, 1, 0);
    expect_point(m, 5, 5, 1, 0);
    expect_point(m, 6, 7, 3, 1);
    expect_point(m, 7, 3, 0, 7);
    ff_mesh_destroy(&m);
}

#define Z_UP "0.,0.,0.,0.,0.,1.\n,1.,0.,0.\n"

static void what_is_wrong_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "no GRID entry: no Nastran bulk data"},
        {"hello\n", "no GRID entry"},
        {"SOL 101\nCEND\n", "the file ends at line 2 without BEGIN BULK: cut?"},
        {"BEGIN BULK\n" SQUARE, "the file ends at line 5 without ENDDATA: cut?"},
        {"BEGIN BULK\nBEGIN BULK SUPER=1\n", "line 2: BEGIN: a second one: superelements are not read"},
        {"$\nINCLUDE 'wing.bdf'\n", "line 2: INCLUDE: files named in a file are not read ('wing.bdf')"},
        {"include'a.bdf'\n", "line 1: INCLUDE: files named in a file are not read ('a.bdf')"},
        {"GRID,1,,0.,0.,abc\n", "line 1: GRID: X3 = \"abc\", expected a number"},
        {"GRID,1,,0.,nan,1.\n", "line 1: GRID: X2 = \"nan\""},
        {"GRID,,,0.,0.,1.\n", "line 1: GRID: ID is blank"},
        {"GRID,1.5,,0.,0.,1.\n", "line 1: GRID: ID = \"1.5\", expected a whole number"},
        {"GRID,0,,0.,0.,1.\n", "ID = 0, expected 1 or more"},
        {"GRID,1,-1,0.,0.,1.\n", "CP = -1, expected 0 or more"},
        {"GRID           1       x      0.      0.      1.\n", "line 1: GRID: CP = \"x\""},
        {"GRID*                  1                              0.              0.+A\n",
         "GRID: continuation \"+A\" does not follow"},
        {"GRID*                  1                              0.              0.+A\n*B                    "
         "1.\n",
         "line 2: continuation \"*B\" behind a line that goes on in \"+A\"; put the lines in order"},
        {"GRID,1,7,0.,0.,1.\n", "GRID 1: coordinate system 7 is not defined"},
        {"GRDSET,,7\nGRID,1,,0.,0.,1.\n", "GRID 1: coordinate system 7 is not defined"},
        {"GRDSET,,1\nGRDSET,,1\n", "line 2: GRDSET: a second one"},
        {"GRID,1,,0.,0.,1.\nGRID,1,,0.,0.,2.\n", "GRID 1 stands there twice, with different places"},
        {"GRID,1,,0.,0.,0.,,,,+,9\n", "line 1: more than 10 free fields in a line"},
        {"GRID,1,,0.,0.,1234567890123456789012345678901234567890\n",
         "has 40 characters, expected at most 31"},
        {"GRID,1,,0.,0.,0.\n=,*1,=,=,=,=\n", "line 2: replication"},
        {SQUARE "CTRIA3,1,1,1,2,9\n", "line 5: element 1 uses GRID 9, which is not there"},
        {SQUARE "CTRIA3,1,1,1,2\n", "line 5: CTRIA3: G3 is blank"},
        {SQUARE "CQUAD4,1,1,1,2,3,-4\n", "CQUAD4: G4 = -4, expected 1 or more"},
        {SQUARE "CQUAD4,,1,1,2,3,4\n", "CQUAD4: EID is blank"},
        {SQUARE "CTRIA3,1,0,1,2,3\n", "EID = 1, PID = 0, expected 1 or more"},
        {"GRID,1,2,0.,0.,0.\nCORD2R,2,3," Z_UP "CORD2C,3,4," Z_UP "CORD2S,4,2," Z_UP,
         "line 6: coordinate system 4: is defined by itself, through system 2"},
        {"GRID,1,2,0.,0.,0.\nCORD2R,2,2," Z_UP, "line 2: coordinate system 2: is defined by itself"},
        {"GRID,1,5,0.,0.,0.\nGRID,2,,0.,0.,1.\nGRID,3,,1.,0.,0.\nCORD1R,5,1,2,3\n",
         "line 4: coordinate system 5: is defined by itself, through system 5"},
        {SQUARE "CORD1R,5,1,2,9\n", "line 5: coordinate system 5: no GRID 9"},
        {SQUARE "CORD2R,5,9," Z_UP, "coordinate system 5: is defined in a system that is not defined, 9"},
        {SQUARE "CORD2R,5,," Z_UP "CORD2R,5,," Z_UP, "coordinate system 5: is defined already in line 5"},
        {SQUARE "CORD2R,5,,0.,0.,0.,0.,0.,1.\n", "CORD2R: C1, C2 and C3 are missing"},
        {SQUARE "CORD2R,5,,0.,0.,0.,0.,0.,1.\n,0.,0.,2.\n", "three places A, B and C are on one line"},
        {SQUARE "CORD2R,5,,0.,0.,0.,0.,0.,0.\n,1.,0.,0.\n", "three places A, B and C are on one line"},
        {SQUARE "CORD2R,0,," Z_UP, "CID = 0, expected 1 or more"},
        {SQUARE "CORD1R,5,1,,3\n", "CORD1R: G2A is blank"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ff_test_refuse(ff_nastran_parse, cases[i][0], cases[i][1]);
    ff_test_refuse_n(ff_nastran_parse, "GRID,1\n\0", 8, "line 2: a NUL byte");
}

/* A chain of 3000 systems is followed without a deep stack; its last system is its first, moved by their number. */
static void long_chains(void **state)
{
    (void)state;
    enum { N = 3000, LINE = 96 };
    char *text = malloc((N + 2) * (size_t)LINE);
    size_t n = 0;
    assert_non_null(text);
    n += (size_t)snprintf(text + n, LINE, "GRID,1,%d,0.,0.,0.\n", N);
    for (int i = N; i >= 1; i--)
        n += (size_t)snprintf(text + n, LINE, "CORD2R,%d,%d,1.,0.,0.,1.,0.,1.\n,2.,0.,0.\n", i, i - 1);
    ff_mesh *m = parse(text);
    expect_point(m, 0, N, 0, 0);
    ff_mesh_destroy(&m);
    free(text);
}

static void prefixes(void **state)
{
    (void)state;
    const char *behind =
        strstr(deck, "GRID,1,9"); /* what follows ENDDATA says nothing, nor does its end of line */
    assert_int_equal(ff_test_prefixes(ff_nastran_parse, deck, strlen(deck)), (int)strlen(behind) + 1);
}

static int no_block_left(void **state)
{
    (void)state;
    return ff_mem_blocks() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(numbers, no_block_left),
        cmocka_unit_test_teardown(fields_of_three_kinds, no_block_left),
        cmocka_unit_test_teardown(shells_and_properties, no_block_left),
        cmocka_unit_test_teardown(coordinate_systems, no_block_left),
        cmocka_unit_test_teardown(chains_of_systems, no_block_left),
        cmocka_unit_test_teardown(what_is_wrong_is_refused_with_its_line, no_block_left),
        cmocka_unit_test_teardown(long_chains, no_block_left),
        cmocka_unit_test_teardown(prefixes, no_block_left),
    };
    ff_log_set_level(FF_LOG_ERROR); /* warnings about a missing ENDDATA are not of interest here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
