/* STL text and binary, whole and by ranges. */
#include "ff_test_mesh.h"

#include "ff_stl.h"

#include <math.h>
#include <zlib.h>

#define FACET(a)                                                                                             \
    "facet normal 0 0 1\nouter loop\nvertex " a " 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n"

static void text_in_all_its_spellings(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        "solid a\n" FACET("2") "endsolid a\n",
        "solid a\r\nfacet normal 0 0 1\r\n outer loop\r\nvertex 2 0 0\r\nvertex 1 0 0\r\nvertex 0 1 0 "
        "\t\r\nendloop\r\n"
        "endfacet\r\nendsolid\r\n",
        "\n \n\t solid a  \n" FACET("2") "endsolid", /* blanks, blank lines, no newline at the end */
        "# made by hand\n! another\n// and another\nsolid a\n# inside\n" FACET(
            "2.0e+000") "endsolid something else\n",
        "SOLID a\nFACET NORMAL 0 0 1 OUTER LOOP VERTEX 2 0 0 VERTEX 1 0 0 VERTEX 0 1 0 ENDLOOP "
        "ENDFACET\nENDSOLID a\n",
        "solid a\nfacet\nouter loop\nvertex 2 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid "
        "a\n",
        "solid a\nfacet normal nan -nan(ind) x\nouter loop\nvertex 20.0E-001 0 0\nvertex 1 0 0\nvertex 0 1 "
        "0\n"
        "endloop\nendfacet\nendsolid a\n",
        "\xEF\xBB\xBFsolid a\n" FACET("2") "endsolid a\n",
    };
    const double want[9] = {2, 0, 0, 1, 0, 0, 0, 1, 0};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        ff_mesh *m = ff_test_parse(ff_stl_parse, spellings[i]);
        assert_int_equal(m->n_cells, 1);
        assert_int_equal(m->n_points, 3);
        assert_memory_equal(m->points, want, sizeof want);
        assert_int_equal(m->n_patches, 1);
        assert_string_equal(m->patch_name[0], "a");
        assert_false(m->points_float32);
        assert_null(m->cell_off);
        ff_mesh_destroy(&m);
    }
}

static void solids_are_patches_in_file_order(void **state)
{
    (void)state;
    ff_mesh *m = ff_test_parse(
        ff_stl_parse,
        "solid wing left\n" FACET("1")
            FACET("2") "endsolid wing left\nsolid empty\nendsolid empty\n"
                       "solid\n" FACET("3") "endsolid\nsolid wing left \n" FACET("4") "endsolid wing left\n");
    assert_int_equal(m->n_patches, 2);
    assert_string_equal(m->patch_name[0], "wing left");
    assert_string_equal(m->patch_name[1], "solid");
    const int32_t want[4] = {0, 0, 1, 0};
    assert_memory_equal(m->cell_patch, want, sizeof want);
    ff_mesh_destroy(&m);
}

static void a_solid_may_be_empty(void **state)
{
    (void)state;
    unsigned char bin[84];
    ff_mesh *m = ff_test_parse(ff_stl_parse, "solid x\nendsolid x");
    assert_int_equal(m->n_cells, 0);
    assert_int_equal(m->n_patches, 0);
    ff_mesh_destroy(&m);
    size_t n = ff_test_binary_stl(bin, "none", 0);
    assert_int_equal(ff_test_parse_n(ff_stl_parse, bin, n, &m), FF_OK);
    assert_int_equal(m->n_cells, 0);
    ff_mesh_destroy(&m);
}

static void broken_text_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"solid a\n" FACET("1"), "line 8: file ends after 1 whole facets, expected facet or endsolid: cut?"},
        {"solid a\nfacet normal 0 0 1\nouter loop\nvertex 1 0 0\nvertex 1 0",
         "line 5: file ends after 0 whole facets"},
        {"solid a\nfacet normal 0 0 1\nouter loop\nvertex 1 0 0\nendloop",
         "line 5: facet 0: \"endloop\", expected vertex"},
        {"solid a\n" FACET("nan") "endsolid", "line 4: facet 0: \"nan\", expected a finite coordinate"},
        {"solid a\n" FACET("1e999") "endsolid", "expected a finite coordinate"},
        {"solid a\n" FACET("1,5") "endsolid", "line 4: facet 0: \"1,5\", expected a coordinate"},
        {"solid a\n" FACET("1") FACET("x") "endsolid", "line 11: facet 1: \"x\", expected a coordinate"},
        {"solid a\nhello\nendsolid", "line 2: facet 0: \"hello\", expected facet or endsolid"},
        {"solid a\n" FACET("1") "solid b\n", "line 9: facet 1: \"solid\", expected facet or endsolid"},
        {"solid a\nendsolid\nrest\n", "line 3: facet 0: \"rest\", expected solid"},
        {"facet normal 0 0 1\n", "line 1: facet 0: \"facet\", expected solid"},
        {"solid a\nfacet normal 0 0 1\nouter loop\nvertex 1 0 0\nvertex 1 0 0\nvertex 1 0 0\nvertex 1 0 "
         "0\nendloop\n"
         "endfacet\nendsolid\n",
         "line 7: facet 0: \"vertex\", expected endloop"},
        {"solid a\nfacet normal 0 0 1 0 0\nouter loop\n", "line 2: facet 0: \"0\", expected outer loop"},
        {"", "no STL file"},
        {"hello world\n", "no STL file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ff_test_refuse(ff_stl_parse, cases[i][0], cases[i][1]);
    char text[300] = "solid a\n" FACET("1") FACET("1") FACET("1");
    text[250] = 0; /* a NUL byte behind what tells text from binary */
    ff_test_refuse_n(ff_stl_parse, text, 280, "a NUL byte, expected text");
}

/* Any beginning of a file is either the whole of it, up to blanks, or refused. */
static void every_cut_of_a_text_is_refused(void **state)
{
    (void)state;
    static const char text[] = "solid a\n" FACET("1") "endsolid";
    ff_mesh *m;
    for (size_t n = 0; n < sizeof text - 1; n++) ff_test_refuse_n(ff_stl_parse, text, n, "mem: ");
    assert_int_equal(ff_test_parse_n(ff_stl_parse, text, sizeof text - 1, &m), FF_OK);
    ff_mesh_destroy(&m);
}

static void binary_is_told_by_its_size_not_its_header(void **state)
{
    (void)state;
    static unsigned char bin[84 + 50 * 5000];
    static const char *const headers[] = {"", "solid made by a CAD system", "facet", "\n solid x", "ply\n"};
    for (size_t h = 0; h < sizeof headers / sizeof *headers; h++) {
        ff_mesh *m;
        size_t n = ff_test_binary_stl(bin, headers[h], 5000);
        assert_int_equal(ff_test_parse_n(ff_stl_parse, bin, n, &m), FF_OK);
        assert_int_equal(m->n_cells, 5000);
        assert_int_equal(m->n_points, 15000);
        assert_true(m->points_float32);
        assert_true(m->points[9 * 4321] == 4321 && m->points[9 * 4321 + 4] == 1 &&
                    m->points[9 * 4321 + 8] == 1);
        assert_string_equal(m->patch_name[0], "(single)");
        ff_mesh_destroy(&m);
    }
}

static void a_cut_or_miscounted_binary_is_refused(void **state)
{
    (void)state;
    unsigned char bin[84 + 50 * 4];
    static const char *const headers[] = {"cad", "solid cad"};
    for (int h = 0; h < 2; h++) {
        size_t n = ff_test_binary_stl(bin, headers[h], 4);
        for (size_t cut = 84; cut < n; cut += 7)
            ff_test_refuse_n(ff_stl_parse, bin, cut, "header says 4 facets, that is 284 bytes, found ");
        ff_test_refuse_n(ff_stl_parse, bin, 84 + 50 * 3 + 9, "found 243 bytes (3 facets and 9 bytes)");
        bin[80] = 5;
        ff_test_refuse_n(ff_stl_parse, bin, n,
                         "header says 5 facets, that is 334 bytes, found 284 bytes (4 facets");
        bin[80] = 3;
        ff_test_refuse_n(ff_stl_parse, bin, n, "header says 3 facets, that is 234 bytes, found 284 bytes");
        bin[83] = 0x7f; /* two thousand million facets: refused before any memory is taken */
        ff_test_refuse_n(ff_stl_parse, bin, n, "found 284 bytes");
    }
    (void)ff_test_binary_stl(bin, "", 4);
    ff_test_refuse_n(ff_stl_parse, bin, 83, "no STL file");
}

static void coordinates_of_a_binary_are_finite(void **state)
{
    (void)state;
    unsigned char bin[84 + 50 * 4];
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        size_t n = ff_test_binary_stl(bin, "", 4);
        memcpy(bin + 84 + 50 * 2 + 12 + 4 * 7, &bad[i], 4);
        ff_test_refuse_n(ff_stl_parse, bin, n, "mem: facet 2: corner 2: y = ");
        n = ff_test_binary_stl(bin, "", 4);
        memcpy(bin + 84 + 50 * 2, &bad[i], 4); /* a normal, which nobody reads */
        ff_mesh *m;
        assert_int_equal(ff_test_parse_n(ff_stl_parse, bin, n, &m), FF_OK);
        ff_mesh_destroy(&m);
    }
}

static void write_gz(const char *path, const void *data, size_t n)
{
    gzFile f = gzopen(path, "wb1");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, data, (unsigned)n), n);
    assert_int_equal(gzclose(f), Z_OK);
}

/* Of a compressed file the size is not known beforehand. */
static void gzip_of_both_kinds(void **state)
{
    (void)state;
    static unsigned char bin[84 + 50 * 9000];
    ff_read_opts opts = {0.5, 0, false};
    ff_mesh *m = NULL;
    size_t n = ff_test_binary_stl(bin, "solid", 9000);
    write_gz("stl_a.stl.gz", bin, n);
    assert_int_equal(ff_stl_read("stl_a.stl.gz", &opts, &m), FF_OK);
    assert_int_equal(m->n_cells, 9000);
    assert_true(m->points[9 * 8999] == 0.5 * 8999);
    ff_mesh_destroy(&m);
    write_gz("stl_a.stl.gz", bin, n - 1);
    ff_error_clear();
    ff_test_refused(ff_stl_read("stl_a.stl.gz", &opts, &m),
                    "header says 9000 facets, found 8999 facets and 49 bytes");
    assert_null(m);
    bin[80]--;
    write_gz("stl_a.stl.gz", bin, n);
    ff_error_clear();
    ff_test_refused(ff_stl_read("stl_a.stl.gz", &opts, &m), "header says 8999 facets, but the file goes on");
    static const char text[] = "solid a\n" FACET("2") "endsolid a\n";
    write_gz("stl_a.stl.gz", text, sizeof text - 1);
    assert_int_equal(ff_stl_read("stl_a.stl.gz", &opts, &m), FF_OK);
    assert_true(m->points[0] == 1);
    ff_mesh_destroy(&m);
}

static void ranges_put_together_are_the_whole(void **state)
{
    (void)state;
    static unsigned char bin[84 + 50 * 10007];
    ff_read_opts opts = {2, 0, false};
    ff_mesh *whole = NULL, *part = NULL;
    bool binary;
    int64_t n;
    ff_test_write("stl_b.stl", bin, ff_test_binary_stl(bin, "solid", 10007));
    assert_int_equal(ff_stl_probe("stl_b.stl", &binary, &n), FF_OK);
    assert_true(binary);
    assert_int_equal(n, 10007);
    assert_int_equal(ff_stl_read("stl_b.stl", &opts, &whole), FF_OK);
    for (int64_t r = 0; r < 7; r++) {
        int64_t begin = n * r / 7, end = n * (r + 1) / 7;
        assert_int_equal(ff_stl_read_range("stl_b.stl", &opts, begin, end, &part), FF_OK);
        assert_int_equal(part->n_cells, end - begin);
        assert_int_equal(part->cell_begin, begin);
        assert_int_equal(part->n_cells_global, n);
        assert_memory_equal(part->points, whole->points + 9 * begin,
                            (size_t)(9 * part->n_cells) * sizeof(double));
        ff_mesh_destroy(&part);
    }
    assert_int_equal(ff_stl_read_range("stl_b.stl", &opts, n, n, &part), FF_OK);
    assert_int_equal(part->n_cells, 0);
    assert_int_equal(part->n_patches, 1);
    ff_mesh_destroy(&part);
    ff_error_clear();
    ff_test_refused(ff_stl_read_range("stl_b.stl", &opts, 0, n + 1, &part), "facets 0 to 10008 of 10007");
    ff_mesh_destroy(&whole);
    ff_test_write("stl_b.stl", "solid\nendsolid\n", 15);
    assert_int_equal(ff_stl_probe("stl_b.stl", &binary, &n), FF_OK);
    assert_false(binary);
    ff_error_clear();
    ff_test_refused(ff_stl_read_range("stl_b.stl", &opts, 0, 0, &part), "no binary STL");
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
        cmocka_unit_test_teardown(solids_are_patches_in_file_order, no_block_left),
        cmocka_unit_test_teardown(a_solid_may_be_empty, no_block_left),
        cmocka_unit_test_teardown(broken_text_is_refused_with_its_line, no_block_left),
        cmocka_unit_test_teardown(every_cut_of_a_text_is_refused, no_block_left),
        cmocka_unit_test_teardown(binary_is_told_by_its_size_not_its_header, no_block_left),
        cmocka_unit_test_teardown(a_cut_or_miscounted_binary_is_refused, no_block_left),
        cmocka_unit_test_teardown(coordinates_of_a_binary_are_finite, no_block_left),
        cmocka_unit_test_teardown(gzip_of_both_kinds, no_block_left),
        cmocka_unit_test_teardown(ranges_put_together_are_the_whole, no_block_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
