/* PLY: text and both binary orders, fields, and rows that contradict the header. */
#include "ff_test_mesh.h"

#include "ff_ply.h"

#include <math.h>

#define VERTEX3 "element vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
#define FACE(n) "element face " n "\nproperty list uchar int vertex_indices\n"
#define HEAD    "ply\nformat ascii 1.0\n" VERTEX3 FACE("1") "end_header\n"
#define ROWS    "0 0 0\n1 0 0\n0.1 1 0\n"

static void text_in_all_its_spellings(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        HEAD ROWS "3 0 1 2\n",
        HEAD ROWS "3 0 1 2",
        HEAD "\n" ROWS "\n 3 0\t1 2 \r\n\n",
        "ply\r\nformat ascii 1.0\r\ncomment made\r\nobj_info by hand\r\n" VERTEX3 FACE(
            "1") "end_header\r\n" ROWS "3 0 1 2\r\n",
        "ply\nformat ascii 1.0\n" FACE("1") VERTEX3 "end_header\n3 0 1 2\n" ROWS, /* faces first */
        "ply\nformat ascii 1.0\nelement vertex 3\nproperty float64 z\nproperty int16 y\nproperty double "
        "x\n" FACE("1") "end_header\n0 0 0\n0 0 1\n0 1 0.1\n3 0 1 2\n",
        "ply\nformat ascii 1.0\nelement camera 2\nproperty list uint8 float32 view\nproperty int8 id\n"
        "element nothing 1000000000000\n" VERTEX3 "element face 1\nproperty list uint uint vertex_index\n"
        "end_header\n2 0.5 0.5 1\n0 7\n" ROWS "3 0 1 2\n",
    };
    const double want[9] = {0, 0, 0, 1, 0, 0, 0.1, 1, 0};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        ff_mesh *m = ff_test_parse(ff_ply_parse, spellings[i]);
        assert_int_equal(m->n_cells, 1);
        assert_memory_equal(m->points, want,
                            sizeof want); /* text keeps the digits of the file, not float32 */
        assert_memory_equal(m->cell_pts, ((const int64_t[]){0, 1, 2}), 3 * sizeof(int64_t));
        assert_string_equal(m->patch_name[0], "(single)");
        assert_int_equal(m->cell_data.n + m->point_data.n, 0);
        assert_false(m->points_float32);
        ff_mesh_destroy(&m);
    }
}

static void scalars_become_fields(void **state)
{
    (void)state;
    ff_mesh *m = ff_test_parse(
        ff_ply_parse,
        "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty uchar red\nproperty float y\n"
        "property float z\nproperty float quality\nelement face 2\nproperty float pressure\n"
        "property list uchar int vertex_indices\nproperty list uchar float texcoord\nproperty int region\n"
        "end_header\n0 1 0 0 0.5\n1 2 0 0 0.25\n0 3 1 0 nan\n"
        "7.5 3 0 1 2 2 0.1 0.2 -3\n-8 4 0 1 2 0 0 4\n");
    const double red[3] = {1, 2, 3}, pressure[2] = {7.5, -8}, region[2] = {-3, 4};
    assert_int_equal(m->point_data.n, 2);
    assert_int_equal(m->cell_data.n, 2);
    assert_memory_equal(ff_field_set_find(&m->point_data, "red")->value, red, sizeof red);
    assert_true(isnan(ff_field_set_find(&m->point_data, "quality")->value[2])); /* fields may hold gaps */
    assert_memory_equal(ff_field_set_find(&m->cell_data, "pressure")->value, pressure, sizeof pressure);
    assert_memory_equal(ff_field_set_find(&m->cell_data, "region")->value, region, sizeof region);
    assert_int_equal(m->cell_off[2], 7);
    ff_mesh_destroy(&m);
}

static void put(unsigned char **p, const void *value, int n, bool big)
{
    for (int i = 0; i < n; i++) *(*p)++ = ((const unsigned char *)value)[big ? n - 1 - i : i];
}

/* Three vertices (float x, double y, short z, ushort tag), one face (uchar count, int corners, char mark). */
static size_t binary_file(unsigned char *buf, bool big)
{
    static const float x[3] = {0, 1.5F, -2.25F};
    static const double y[3] = {0.1, 1e-3, 1e10};
    static const int16_t z[3] = {0, -300, 300};
    static const uint16_t tag[3] = {0, 65535, 258};
    static const int32_t ids[3] = {2, 0, 1};
    int8_t mark = -5;
    uint8_t count = 3;
    int n = sprintf(
        (char *)buf,
        "ply\nformat binary_%s_endian 1.0\nelement vertex 3\nproperty float x\nproperty double y\n"
        "property short z\nproperty ushort tag\nelement face 1\nproperty list uchar int vertex_indices\n"
        "property char mark\nend_header\n",
        big ? "big" : "little");
    unsigned char *p = buf + n;
    for (int i = 0; i < 3; i++)
        put(&p, &x[i], 4, big), put(&p, &y[i], 8, big), put(&p, &z[i], 2, big), put(&p, &tag[i], 2, big);
    put(&p, &count, 1, big);
    for (int i = 0; i < 3; i++) put(&p, &ids[i], 4, big);
    put(&p, &mark, 1, big);
    return (size_t)(p - buf);
}

static void binary_of_both_orders(void **state)
{
    (void)state;
    unsigned char buf[1024];
    const double want[9] = {0, 0.1, 0, 1.5, 1e-3, -300, -2.25, 1e10, 300};
    for (int big = 0; big < 2; big++) {
        ff_mesh *m;
        size_t n = binary_file(buf, big != 0);
        assert_int_equal(ff_test_parse_n(ff_ply_parse, buf, n, &m), FF_OK);
        assert_memory_equal(m->points, want, sizeof want);
        assert_memory_equal(m->cell_pts, ((const int64_t[]){2, 0, 1}), 3 * sizeof(int64_t));
        assert_true(ff_field_set_find(&m->point_data, "tag")->value[1] == 65535);
        assert_true(ff_field_set_find(&m->point_data, "tag")->value[2] == 258);
        assert_true(ff_field_set_find(&m->cell_data, "mark")->value[0] == -5);
        assert_false(m->points_float32); /* y is double */
        ff_mesh_destroy(&m);
    }
}

static void a_cut_or_long_binary_is_refused(void **state)
{
    (void)state;
    unsigned char buf[1024];
    size_t n = binary_file(buf, false), head = n - 62;
    ff_mesh *m;
    for (size_t cut = 0; cut < n; cut++)
        ff_test_refuse_n(ff_ply_parse, buf, cut,
                         cut < head     ? "mem: "
                         : cut < n - 14 ? "of vertex: the file ends, expected 3 rows"
                                        : "row 0 of face: the file ends, expected 1 rows");
    buf[n] = 7;
    ff_test_refuse_n(ff_ply_parse, buf, n + 1, "data behind the last row");
    buf[n] = '\n'; /* some writers end the file like a text */
    assert_int_equal(ff_test_parse_n(ff_ply_parse, buf, n + 1, &m), FF_OK);
    ff_mesh_destroy(&m);
    const float nan = NAN;
    memcpy(buf + head + 16, &nan, 4);
    ff_test_refuse_n(ff_ply_parse, buf, n, "mem: row 1 of vertex: x = nan");
    n = binary_file(buf, false);
    buf[n - 13] = 3;
    ff_test_refuse_n(ff_ply_parse, buf, n, "mem: row 0 of face: corner 3, expected a vertex 0 <= id < 3");
    buf[n - 14] = 2;
    ff_test_refuse_n(ff_ply_parse, buf, n, "mem: row 0 of face: face with 2 corners");
}

static void float32_coordinates_are_noted(void **state)
{
    (void)state;
    static const char head[] = "ply\nformat binary_little_endian 1.0\n" VERTEX3 FACE("0") "end_header\n";
    unsigned char buf[sizeof head + 36] = {0};
    ff_mesh *m;
    memcpy(buf, head, sizeof head - 1);
    memset(buf + sizeof head - 1, 0, 36);
    assert_int_equal(ff_test_parse_n(ff_ply_parse, buf, sizeof head - 1 + 36, &m), FF_OK);
    assert_true(m->points_float32);
    assert_int_equal(m->n_points, 3);
    assert_int_equal(m->n_cells, 0);
    ff_mesh_destroy(&m);
}

static void rows_that_contradict_the_header(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {HEAD ROWS "3 0 1\n", "line 13: row 0 of face: the line ends early, expected vertex_indices"},
        {HEAD ROWS "3 0 1 2 9\n", "line 13: row 0 of face: \"9\" where the line should end"},
        {HEAD ROWS "4 0 1 2\n", "line 13: row 0 of face: the line ends early"},
        {HEAD ROWS "2 0 1\n", "line 13: row 0 of face: face with 2 corners"},
        {HEAD ROWS "-3 0 1 2\n", "line 13: row 0 of face: list vertex_indices of length -3"},
        {HEAD ROWS "2.5 0 1 2\n", "line 13: row 0 of face: list vertex_indices of length 2.5"},
        {HEAD ROWS "3 0 1 3\n", "line 13: row 0 of face: corner 3, expected a vertex 0 <= id < 3"},
        {HEAD ROWS "3 0 -1 2\n", "line 13: row 0 of face: corner -1"},
        {HEAD ROWS "3 0 1.5 2\n", "line 13: row 0 of face: corner 1.5"},
        {HEAD ROWS "3 0 1 nan\n", "line 13: row 0 of face: corner nan"},
        {HEAD ROWS "3 0 x 2\n", "line 13: row 0 of face: vertex_indices = \"x\", expected a number"},
        {HEAD "0 0 0\n1 0\n", "line 11: row 1 of vertex: the line ends early, expected z"},
        {HEAD "0 0 0\n1 0 0 0\n", "line 11: row 1 of vertex: \"0\" where the line should end"},
        {HEAD "0 0 0\n1 0 inf\n", "line 11: row 1 of vertex: z = inf"},
        {HEAD ROWS, "line 12: row 0 of face: the file ends, expected 1 rows"},
        {HEAD ROWS "3 0 1 2\n3 0 1 2\n", "line 14: more rows than the header declares"},
        {HEAD "0 0 0\n1 0 0\n3 0 1 2\n", "line 12: row 2 of vertex: \"2\" where the line should end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ff_test_refuse(ff_ply_parse, cases[i][0], cases[i][1]);
}

static void headers_that_make_no_sense(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "line 0: file ends inside the PLY header"},
        {"plyx\n", "line 1: no PLY file"},
        {"ply\nformat ascii 1.0\n", "line 2: file ends inside the PLY header"},
        {"ply\nend_header\n", "line 2: PLY header without a format line"},
        {"ply\nformat ascii 2.0\n", "line 2: format line"},
        {"ply\nformat\n", "line 2: format line"},
        {"ply\nformat utf8 1.0\n", "line 2: format \"utf8\""},
        {"ply\nproperty float x\n", "line 2: property before any element"},
        {"ply\nelement vertex\n", "line 2: element vertex: \"\", expected a row count"},
        {"ply\nelement vertex -1\n", "line 2: element vertex: \"-1\""},
        {"ply\nelement a 1\nelement a 1\n", "line 3: element a occurs twice"},
        {"ply\nelement a 1\nproperty int b\nproperty int b\n", "line 4: property b occurs twice"},
        {"ply\nelement a 1\nproperty real b\n", "line 3: property type \"real\""},
        {"ply\nelement a 1\nproperty list float int b\n", "line 3: list length of a floating-point type"},
        {"ply\nelement a 1\nproperty int\n", "line 3: line ends early, expected a property name"},
        {"ply\nhello\n", "line 2: \"hello\", expected format"},
        {"ply\nformat ascii 1.0\nend_header\n", "PLY header without an element vertex"},
        {"ply\nformat ascii 1.0\nelement vertex 0\nproperty float x\nproperty float y\nend_header\n",
         "without scalar z"},
        {"ply\nformat ascii 1.0\n" VERTEX3 "element face 1\nproperty int a\nend_header\n" ROWS,
         "without a list vertex_ind"},
        {"ply\nformat ascii 1.0\n" VERTEX3
         "element face 1\nproperty list uchar float vertex_indices\nend_header\n" ROWS,
         "vertex_indices of a floating-point type"},
        {"ply\nformat ascii 1.0\n" VERTEX3
         "element tristrips 1\nproperty list int int vertex_indices\nend_header\n",
         "PLY with triangle strips"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ff_test_refuse(ff_ply_parse, cases[i][0], cases[i][1]);
}

static void a_header_may_promise_too_much(void **state)
{
    (void)state;
    static const char head[] =
        "ply\nformat binary_little_endian 1.0\nelement vertex 900000000000000000\n"
        "property float x\nproperty float y\nproperty float z\nend_header\n123456789012";
    size_t peak = ff_mem_peak();
    ff_test_refuse_n(ff_ply_parse, head, sizeof head - 1,
                     "row 1 of vertex: the file ends, expected 900000000000000000");
    assert_true(ff_mem_peak() <= peak + (1 << 20)); /* memory follows what is there, not what is promised */
}

static int no_block_left(void **state)
{
    (void)state;
    return ff_mem_blocks() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(text_in_all_its_spellings, no_block_left),
        cmocka_unit_test_teardown(scalars_become_fields, no_block_left),
        cmocka_unit_test_teardown(binary_of_both_orders, no_block_left),
        cmocka_unit_test_teardown(a_cut_or_long_binary_is_refused, no_block_left),
        cmocka_unit_test_teardown(float32_coordinates_are_noted, no_block_left),
        cmocka_unit_test_teardown(rows_that_contradict_the_header, no_block_left),
        cmocka_unit_test_teardown(headers_that_make_no_sense, no_block_left),
        cmocka_unit_test_teardown(a_header_may_promise_too_much, no_block_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
