/* ff_mesh_read: the reader follows the content, then the name; what is no mesh is refused in one clear line.
 */
#include "ff_test_mesh.h"

#include <sys/stat.h>
#include <zlib.h>

#define EMPTY_PLY                                                                                            \
    "ply\nformat ascii 1.0\nelement vertex 0\nproperty int x\nproperty int y\nproperty int z\nend_header\n"
#define DATA FF_SOURCE_DIR "/tests/data/"

static ff_mesh *read_file(const char *path)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh *m = NULL;
    ff_error_clear();
    if (ff_mesh_read(path, &opts, &m) != FF_OK) fail_msg("refused: %s", ff_error_text());
    return m;
}

static void refuse(const char *path, const char *words)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh *m = NULL;
    ff_error_clear();
    ff_test_refused(ff_mesh_read(path, &opts, &m), words);
    assert_null(m);
    if (strstr(ff_error_text(), path) != ff_error_text())
        fail_msg("\"%s\" does not begin with the path", ff_error_text());
}

static void refuse_content(const char *name, const char *content, const char *words)
{
    ff_test_write(name, content, strlen(content));
    refuse(name, words);
}

/* tests/data holds the same tetrahedron in each format. */
static void one_body_in_every_format(void **state)
{
    (void)state;
    static const char *const files[] = {
        "tetra.stl",    "tetra_binary.stl", "tetra.obj",           "tetra.ply", "tetra_le.ply",
        "tetra_be.ply", "tetra.msh",        "tetra_22_binary.msh", "tetra.su2", "tetra.bdf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        ff_mesh_stats s;
        (void)snprintf(path, sizeof path, DATA "%s", files[i]);
        ff_mesh *m = read_file(path);
        assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
        if (s.cells != 4 || !s.closed || s.points - s.duplicate_points != 4 || s.misoriented_edges != 0)
            fail_msg("%s: %lld cells, %lld distinct points, closed %d", path, (long long)s.cells,
                     (long long)(s.points - s.duplicate_points), s.closed);
        assert_true(s.volume > 1.0 / 6 - 1e-15 && s.volume < 1.0 / 6 + 1e-15); /* rounding of four terms */
        ff_mesh_destroy(&m);
    }
}

static void content_beats_the_name(void **state)
{
    (void)state;
    static const char *const texts[] = {"solid a\nendsolid a\n", EMPTY_PLY, "# an OBJ by its name only\n",
                                        "v 0 0 0\n"};
    static const char *const names[] = {"read_a.obj", "read_a.stl", "read_a.obj", "read_a"};
    for (int i = 0; i < 4; i++) {
        ff_test_write(names[i], texts[i], strlen(texts[i]));
        ff_mesh *m = read_file(names[i]);
        assert_int_equal(m->n_cells, 0);
        ff_mesh_destroy(&m);
    }
    unsigned char bin[84 + 150];
    ff_test_write("read_a.obj", bin, ff_test_binary_stl(bin, "v 1 2 3", 3));
    ff_mesh *m = read_file("read_a.obj");
    assert_int_equal(m->n_cells, 3);
    ff_mesh_destroy(&m);
    gzFile f = gzopen("read_a.bin", "wb"); /* compressed, without a name that says so */
    assert_int_equal(gzputs(f, "solid a\nendsolid a\n"), 19);
    assert_int_equal(gzclose(f), Z_OK);
    m = read_file("read_a.bin");
    ff_mesh_destroy(&m);
}

/* Names that say nothing, or something else: comments before the first word of SU2, bulk data by its entries. */
static void volume_formats_are_told_by_content(void **state)
{
    (void)state;
    static const char *const names[] = {"tetra.msh", "tetra_22_binary.msh", "tetra.su2", "tetra.bdf"};
    static const char *const wrong[] = {"read_d.su2", "read_d", "read_d.cgns", "read_d.txt"};
    for (int i = 0; i < 4; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, DATA "%s", names[i]);
        FILE *f = fopen(path, "rb");
        static char bytes[1 << 16];
        assert_non_null(f);
        size_t n = fread(bytes, 1, sizeof bytes, f);
        (void)fclose(f);
        ff_test_write(wrong[i], bytes, n);
        ff_mesh *m = read_file(wrong[i]);
        assert_int_equal(m->n_cells, 4);
        ff_mesh_destroy(&m);
        gzFile z = gzopen("read_d.gz", "wb");
        assert_int_equal(gzwrite(z, bytes, (unsigned)n), (int)n);
        assert_int_equal(gzclose(z), Z_OK);
        m = read_file("read_d.gz");
        assert_int_equal(m->n_cells, 4);
        ff_mesh_destroy(&m);
    }
    refuse_content("read_d.msh", "anything\n", "expected the head of a section of a Gmsh file");
    refuse_content("read_d.su2", "anything\n", "no SU2 mesh");
    refuse_content("read_d.nas", "anything\n", "no Nastran bulk data");
}

static void scale_reaches_the_reader(void **state)
{
    (void)state;
    ff_read_opts opts = {0.001, 0, false};
    ff_mesh *m = NULL;
    ff_mesh_stats s;
    assert_int_equal(ff_mesh_read(DATA "tetra.obj", &opts, &m), FF_OK);
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    assert_true(s.hi[0] == 0.001);
    ff_mesh_destroy(&m);
    opts.scale = 0;
    ff_error_clear();
    ff_test_refused(ff_mesh_read(DATA "tetra.obj", &opts, &m), "scale = 0");
}

static void what_is_no_mesh_is_named(void **state)
{
    (void)state;
    refuse("no/such/file.stl", "No such file");
    (void)mkdir("read_folder", 0755);
    refuse("read_folder", "is a folder");
    refuse_content("read_b.stl", "", "is empty");
    refuse_content("read_b.stl.part", "solid a\nendsolid\n", "an unfinished download (.part)");
    refuse("absent.OBJ.PART", "an unfinished download");
    refuse_content("read_b.stl", "<!DOCTYPE html>\n<html></html>\n", "an HTML page");
    refuse_content("read_b.obj", "\n <HTML><body>404</body></html>\n", "an HTML page");
    refuse_content("read_b.obj", "version https://git-lfs.github.com/spec/v1\noid\n", "a Git LFS pointer");
    refuse_content("read_b.stl", "PK\x03\x04zip", "a ZIP archive");
    refuse_content("read_b.vtkhdf", "no HDF5 at all", "not HDF5");
    refuse_content("read_b.txt", "hello\n", "no known mesh format; supported: STL, OBJ, PLY, VTP");
    refuse_content("read_b.stl", "hello\n", "no STL file");
    refuse_content("read_b.ply", "hello\n", "no PLY file");
    refuse_content("read_b.obj", "hello\n", "expected a statement of OBJ");
}

static void formats_not_read_yet_are_named(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"read_c.step", "ISO-10303-21;\n", "STEP (CAD) is not read yet"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_content(cases[i][0], cases[i][1], cases[i][2]);
}

static int no_block_left(void **state)
{
    (void)state;
    return ff_mem_blocks() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_body_in_every_format, no_block_left),
        cmocka_unit_test_teardown(content_beats_the_name, no_block_left),
        cmocka_unit_test_teardown(volume_formats_are_told_by_content, no_block_left),
        cmocka_unit_test_teardown(scale_reaches_the_reader, no_block_left),
        cmocka_unit_test_teardown(what_is_no_mesh_is_named, no_block_left),
        cmocka_unit_test_teardown(formats_not_read_yet_are_named, no_block_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
