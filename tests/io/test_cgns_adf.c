/* ADF containers: version A as libcgns of Debian writes it, version B and foreign byte order made of it, data in several
 * chunks, links, and damage. */
#include "../ff_test_scratch.h"
#include "ff_cgns_writer.h"

#include "ff_cgns.h"

#define CORPUS FF_SOURCE_DIR "/tests/fuzz/corpus/cgns/"

enum { POINTER = 12, ENTRY = 44, CHUNK = 16 };

static ff_status read_mesh(const char *path, ff_mesh **m)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_error_clear();
    return ff_mesh_read(path, &opts, m);
}

static ff_mesh *must_read(const char *path)
{
    ff_mesh *m;
    if (read_mesh(path, &m) != FF_OK) fail_msg("%s", ff_error_text());
    return m;
}

static size_t load(const char *path, char *buf, size_t size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(buf, 1, size, f);
    assert_true(n > 0 && n < size);
    (void)fclose(f);
    return n;
}

/* ---- another version and byte order ---- */

static int64_t hex(const char *p, int n)
{
    char word[16] = "";
    memcpy(word, p, (size_t)n);
    return strtoll(word, NULL, 16);
}

static void put(char *p, int64_t v, int n, bool big)
{
    for (int i = 0; i < n; i++) p[big ? n - 1 - i : i] = (char)(v >> 8 * i);
}

/* The pointer at p from digits to binary; returns where it leads. */
static int64_t turn_pointer(char *p, bool big)
{
    int64_t block = hex(p, 8), offset = hex(p + 8, 4);
    put(p, block, 8, big);
    put(p + 8, offset, 4, big);
    return 4096 * block + offset;
}

static void reverse(char *p, int64_t bytes, int size)
{
    for (int64_t at = 0; at + size <= bytes; at += size)
        for (int a = 0, b = size - 1; a < b; a++, b--) {
            char c = p[at + a];
            p[at + a] = p[at + b];
            p[at + b] = c;
        }
}

/* A node and all below it: pointers and dimensions binary, numbers of its data in the other order if big. */
static void turn_node(char *file, int64_t at, bool big)
{
    char *node = file + at;
    int64_t children = hex(node + 68, 8), chunks = hex(node + 226, 4);
    int64_t table = turn_pointer(node + 84, big), data = turn_pointer(node + 230, big);
    for (int i = 0; i < 12; i++) put(node + 130 + 8 * i, hex(node + 130 + 8 * i, 8), 8, big);
    assert_true(chunks <= 1);
    if (chunks == 1) {
        int64_t end = turn_pointer(file + data + 4, big);
        int size = node[97] == '4' || node[97] == '8' ? node[97] - '0' : 1;
        if (big) reverse(file + data + CHUNK, end - data - CHUNK, size);
    }
    if (children > 0) (void)turn_pointer(file + table + 4, big);
    for (int64_t i = 0; i < children; i++)
        turn_node(file, turn_pointer(file + table + CHUNK + i * ENTRY + 32, big), big);
}

static void versions_and_byte_orders(void **state)
{
    (void)state;
    static const char *const names[] = {"sections_adf", "structured_adf", "ngon_adf"};
    static char file[1 << 16];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int big = 0; big < 2; big++) {
            char path[1024];
            (void)snprintf(path, sizeof path, CORPUS "%s", names[k]);
            ff_mesh *want = must_read(path);
            size_t n = load(path, file, sizeof file);
            file[25] = 'B';
            file[100] = big ? 'B' : 'L';
            int64_t root = turn_pointer(file + 134, big);
            for (int at = 146; at < 182; at += POINTER) (void)turn_pointer(file + at, big);
            turn_node(file, root, big);
            ff_test_write("b.cgns", file, n);
            ff_mesh *m = must_read("b.cgns");
            assert_true(ff_test_same_mesh(m, want));
            ff_mesh_destroy(&m);
            ff_mesh_destroy(&want);
            file[25] = 'C';
            ff_test_write("b.cgns", file, n);
            ff_test_refused(read_mesh("b.cgns", &m), "ADF of version C");
        }
    assert_int_equal(unlink("b.cgns"), 0);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* ---- what libcgns writes ---- */

#ifdef FF_HAVE_CGNS

static const int two[3] = {2, 1, 1};
static const int quads[] = {1, 7, 10, 4, 3, 6, 12, 9};

/* The connectivity is first made for one element and then for two: the rest goes into a second chunk. */
static void data_in_several_chunks(void **state)
{
    (void)state;
    writer w;
    place z = w_zone(&w, w_base(&w, w_open(&w, W_ADF, "c.cgns"), "Base", 3, 3), "Zone", false, 3, two, 0);
    place s = w_node(&w, z, "skin", "Elements_t", "I4", 1, (int[]){2}, (int[]){7, 0});
    (void)w_ints(&w, s, "ElementRange", "IndexRange_t", 2, 0, (int[]){1, 2});
    place c = w_ints(&w, s, "ElementConnectivity", "DataArray_t", 4, 0, quads);
    (void)w_empty(&w, s, "behind it", "UserDefinedData_t"); /* so that the first chunk cannot grow */
    for (cgsize_t n = 6; n <= 8; n++) {
        assert_int_equal(cgio_set_dimensions(w.cgio, c.id, "I4", 1, &n), 0);
        assert_int_equal(cgio_write_all_data(w.cgio, c.id, quads), 0);
        (void)w_empty(&w, s, n == 6 ? "a" : n == 7 ? "b" : "c", "UserDefinedData_t");
    }
    w_close(&w);
    static char file[1 << 17];
    size_t n = load("c.cgns", file, sizeof file);
    assert_non_null(memmem(file, n, "DCtb", 4)); /* there is a table of chunks */
    ff_mesh *m = must_read("c.cgns");
    assert_int_equal(m->n_cells, 2);
    for (int i = 0; i < 8; i++) assert_int_equal(m->cell_pts[i], quads[i] - 1);
    ff_mesh_destroy(&m);
    assert_int_equal(unlink("c.cgns"), 0);
}

/* Coordinates of zone B are those of zone A, in this file or in another one. */
static void links_are_followed(void **state)
{
    (void)state;
    for (int outside = 0; outside < 2; outside++) {
        writer w;
        ff_mesh *m;
        double id;
        if (outside) {
            place base = w_base(&w, w_open(&w, W_ADF, "a.cgns"), "Base", 3, 3);
            (void)w_zone(&w, base, "A", false, 3, two, 5);
            w_close(&w);
        }
        place base = w_base(&w, w_open(&w, W_ADF, "l.cgns"), "Base", 3, 3);
        if (!outside)
            (void)w_section(&w, w_zone(&w, base, "A", false, 3, two, 0), "skin", 7, 1, 2, quads, 8, NULL);
        place z = w_ints(&w, base, "B", "Zone_t", 1, 3, (int[]){12, 2, 0});
        (void)w_text(&w, z, "ZoneType", "ZoneType_t", "Unstructured");
        assert_int_equal(cgio_create_link(w.cgio, z.id, "GridCoordinates", outside ? "a.cgns" : "",
                                          "/Base/A/GridCoordinates", &id),
                         0);
        if (outside) (void)w_section(&w, z, "skin", 7, 1, 2, quads, 8, NULL);
        if (!outside) assert_int_equal(cgio_create_link(w.cgio, z.id, "skin", "", "/Base/A/skin", &id), 0);
        w_close(&w);
        m = must_read("l.cgns");
        assert_int_equal(m->n_cells, outside ? 2 : 4);
        assert_int_equal(m->n_points, outside ? 12 : 24);
        assert_true(m->points[0] == (outside ? 5 : 0));
        ff_mesh_destroy(&m);
        if (outside) {
            assert_int_equal(unlink("a.cgns"), 0);
            ff_test_refused(read_mesh("l.cgns", &m), "a.cgns: cannot be opened");
        }
        assert_int_equal(unlink("l.cgns"), 0);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

static void bad_links_are_refused(void **state)
{
    (void)state;
    static const char *const to[] = {"/Base/Zone/nowhere", "/Base/Zone/GridCoordinates"};
    for (int k = 0; k < 2; k++) {
        writer w;
        ff_mesh *m;
        double id;
        place base = w_base(&w, w_open(&w, W_ADF, "l.cgns"), "Base", 3, 3);
        place z = w_ints(&w, base, "Zone", "Zone_t", 1, 3, (int[]){12, 2, 0});
        (void)w_text(&w, z, "ZoneType", "ZoneType_t", "Unstructured");
        assert_int_equal(cgio_create_link(w.cgio, z.id, "GridCoordinates", "", to[k], &id), 0);
        w_close(&w);
        ff_test_refused(read_mesh("l.cgns", &m), k == 0 ? "which is not there" : "links lead in a circle");
        assert_int_equal(unlink("l.cgns"), 0);
    }
}

#else

static void data_in_several_chunks(void **state)
{
    (void)state;
    skip(); /* no libcgns to write with */
}
static void links_are_followed(void **state)
{
    (void)state;
    skip();
}
static void bad_links_are_refused(void **state)
{
    (void)state;
    skip();
}

#endif

/* Every byte of the structure in turn is made a z: refused, or read to the same or another mesh, but never a crash. */
static void damage_is_survived(void **state)
{
    (void)state;
    static char file[1 << 16];
    int refused = 0;
    size_t n = load(CORPUS "ngon_adf", file, sizeof file);
    for (size_t at = 0; at < n; at++) {
        ff_mesh *m;
        char was = file[at];
        file[at] = 'z';
        ff_test_write("d.cgns", file, n);
        file[at] = was;
        ff_status st = read_mesh("d.cgns", &m);
        refused += st != FF_OK;
        if (st != FF_OK) ff_test_refused(st, "d.cgns: ");
        ff_mesh_destroy(&m);
    }
    print_message("%d of %zu damaged files refused\n", refused, n);
    assert_true(refused > 1000);
    assert_int_equal(unlink("d.cgns"), 0);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_and_byte_orders), cmocka_unit_test(data_in_several_chunks),
        cmocka_unit_test(links_are_followed),       cmocka_unit_test(bad_links_are_refused),
        cmocka_unit_test(damage_is_survived),
    };
    char folder[64];
    if (!ff_scratch_make(folder) || chdir(folder) != 0) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || !ff_scratch_remove(folder);
}
