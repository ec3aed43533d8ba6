/* Files that were cut: every prefix of a small file of every format is refused with one line that names it, or read with
 * a warning, or is the whole surface (blanks and comments at its end were lost). Where a format has neither counts nor
 * an end mark, a prefix may be a complete file; those exceptions are listed with the reason. */
#include "../ff_test_scratch.h"
#include "ff_test_mesh.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

/* Whether the first k of n bytes are a complete file by the rules of their format. */
typedef bool complete(const char *text, size_t k, size_t n);

/* A text STL may hold any number of solids: it may end behind each of them. */
static bool ends_solid(const char *text, size_t k, size_t n)
{
    (void)n;
    while (k > 0 && text[k - 1] == '\n') k--;
    size_t line = k;
    while (line > 0 && text[line - 1] != '\n') line--;
    while (text[line] == ' ') line++;
    return strncmp(text + line, "endsolid", 8) == 0;
}

/* Every line of an OBJ file stands alone. Where vertices come first, as usual, a cut leaves some of them unused, of which
 * there is a warning; but the last faces may use none of their own. */
static bool ends_line(const char *text, size_t k, size_t n)
{
    (void)n;
    return k > 0 && text[k - 1] == '\n';
}

/* Cell types, and each array behind them, may be the last things in a legacy VTK file. */
static bool ends_section(const char *text, size_t k, size_t n)
{
    static const char *const words[] = {"CELL_DATA", "POINT_DATA", "METADATA", "FIELD"};
    while (k < n && isspace((unsigned char)text[k])) k++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n - k > strlen(words[i]) && memcmp(text + k, words[i], strlen(words[i])) == 0) return true;
    return false;
}

/* Fields of a Gmsh file follow its mesh, each in a section of its own. */
static bool ends_mesh(const char *text, size_t k, size_t n)
{
    while (k < n && isspace((unsigned char)text[k])) k++;
    return memmem(text + k, n - k > 13 ? 13 : n - k, "Data", 4) != NULL && text[k] == '$';
}

static const struct {
    const char *format, *path;
    complete *may_end; /* NULL: nowhere */
} rows[] = {
    {"STL", "data/tetra.stl", NULL},
    {"STL", "data/tetra_binary.stl", NULL},
    {"STL", "fuzz/corpus/stl/solids.stl", ends_solid},
    {"OBJ", "data/tetra.obj", ends_line},
    {"PLY", "data/tetra.ply", NULL},
    {"PLY", "data/tetra_le.ply", NULL},
    {"PLY", "data/tetra_be.ply", NULL},
    {"VTK XML", "fuzz/corpus/vtp/text.vtp", NULL},
    {"VTK XML", "fuzz/corpus/vtp/base64.vtp", NULL},
    {"VTK XML", "fuzz/corpus/vtp/raw_zlib_big.vtp", NULL},
    {"VTK XML", "fuzz/corpus/vtp/quad_11.vtu", NULL},
    {"legacy VTK", "fuzz/corpus/vtk/poly_420", ends_section},
    {"legacy VTK", "fuzz/corpus/vtk/tripd_421", ends_section},
    {"legacy VTK", "fuzz/corpus/vtk/quadpd_510", ends_section},
    {"legacy VTK", "fuzz/corpus/vtk/quadpd_511", ends_section},
    {"HDF5", "fuzz/corpus/vtkhdf/lines.vtkhdf", NULL},
    {"HDF5", "fuzz/corpus/vtkhdf/plain.h5", NULL}, /* CGNS in HDF5: io.cgns */
    {"CGNS", "fuzz/corpus/cgns/ngon_adf", NULL},
    {"Gmsh", "data/tetra.msh", NULL},
    {"Gmsh", "data/tetra_22_binary.msh", NULL},
    {"Gmsh", "fuzz/corpus/gmsh/parts.msh", NULL},
    {"Gmsh", "fuzz/corpus/gmsh/fields.msh", ends_mesh},
    {"Nastran", "data/tetra.bdf", NULL},
    {"SU2", "data/tetra.su2", NULL},
    {"SU2", "fuzz/corpus/su2/zones.su2", NULL},
    {"OpenFOAM surface", NULL, NULL}, /* below */
    {"OpenFOAM polyMesh", NULL, NULL},
};

static int log_fd = -1; /* standard error of this process */

static size_t load(const char *path, char *buf, size_t size)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) fail_msg("%s cannot be opened", path);
    size_t n = fread(buf, 1, size, f);
    assert_true(n > 0 && n < size);
    (void)fclose(f);
    buf[n] = 0;
    return n;
}

static bool same_fields(const ff_field_set *a, const ff_field_set *b, int64_t n)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->field[i].name, b->field[i].name) != 0 || a->field[i].n_comp != b->field[i].n_comp ||
            memcmp(a->field[i].value, b->field[i].value, (size_t)(n * a->field[i].n_comp) * sizeof(double)) !=
                0)
            return false;
    return true;
}

/* Reads what; sets *warned. Errors have exit code 2, one line, and name the file. */
static ff_status try_read(const char *what, ff_mesh **m, bool *warned)
{
    struct stat info;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    assert_int_equal(ftruncate(log_fd, 0), 0);
    ff_error_clear();
    ff_status st = ff_mesh_read(what, &opts, m);
    assert_int_equal(fstat(log_fd, &info), 0);
    *warned = info.st_size > 0;
    if (st != FF_OK) ff_test_refused(st, what);
    return st;
}

/* Cuts file (n bytes, text) at every byte, from its end on, and reads what (the file, or the folder it lies in). */
static void cut_file(const char *what, const char *file, const char *text, size_t n, complete *may_end)
{
    ff_mesh *whole, *m;
    bool warned, expected;
    int refused = 0, same = 0, with_warning = 0, silent = 0;
    if (try_read(what, &whole, &expected) != FF_OK) fail_msg("refused: %s", ff_error_text());
    for (size_t k = n; k-- > 0;) {
        assert_int_equal(truncate(file, (off_t)k), 0);
        if (try_read(what, &m, &warned) != FF_OK) {
            refused++;
            continue;
        }
        bool equal = ff_test_same_mesh(m, whole) &&
                     same_fields(&m->cell_data, &whole->cell_data, m->n_cells) &&
                     same_fields(&m->point_data, &whole->point_data, m->n_points);
        ff_mesh_destroy(&m);
        if (equal) same++;
        if (!equal && warned && !expected) with_warning++;
        if (equal || (warned && !expected)) continue;
        if (may_end == NULL || !may_end(text, k, n))
            fail_msg("%s: %zu of %zu bytes are taken for a whole file", file, k, n);
        silent++;
    }
    printf("%s: %zu prefixes: %d refused, %d whole surfaces, %d with a warning, %d complete files\n", what, n,
           refused, same, with_warning, silent);
    assert_true(refused > 0);
    ff_mesh_destroy(&whole);
}

/* The file rows[i].path under its own name in this folder: names count where the content does not tell. */
static void every_format_is_cut(void **state)
{
    (void)state;
    static char text[1 << 16];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[1024];
        if (rows[i].path == NULL) continue;
        (void)snprintf(path, sizeof path, FF_SOURCE_DIR "/tests/%s", rows[i].path);
        const char *name = strrchr(path, '/') + 1;
        size_t n = load(path, text, sizeof text);
        ff_test_write(name, text, n);
        cut_file(name, name, text, n, rows[i].may_end);
        assert_int_equal(unlink(name), 0);
        assert_int_equal(ff_mem_blocks(), 0);
    }
}

static void every_format_has_a_row(void **state)
{
    (void)state;
    int n = 0;
    for (const char *format; (format = ff_mesh_format(n)) != NULL; n++) {
        bool found = false;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) found |= strcmp(rows[i].format, format) == 0;
        if (!found) fail_msg("the format %s is in no row of this test", format);
    }
    assert_true(n >= 12);
}

static void compressed_text_is_cut(void **state)
{
    (void)state;
    static char text[1 << 16];
    static const char name[] = "tetra.obj.gz";
    size_t n = load(FF_SOURCE_DIR "/tests/data/tetra.obj", text, sizeof text);
    gzFile gz = gzopen(name, "wb");
    assert_int_equal(gzwrite(gz, text, (unsigned)n), (int)n);
    assert_int_equal(gzclose(gz), Z_OK);
    n = load(name, text, sizeof text);
    cut_file(name, name, text, n, NULL);
    assert_int_equal(unlink(name), 0);
}

static void openfoam_surface_is_cut(void **state)
{
    (void)state;
    static const char text[] = "2\n(\nfloor wall\nroof wall\n)\n\n"
                               "4\n(\n(0 0 0)\n(1 0 0)\n(0 1 0)\n(0 0 1)\n)\n\n"
                               "2\n(\n((0 2 1) 0)\n((0 1 3) 1)\n)\n";
    ff_test_write("a.ftr", text, sizeof text - 1);
    cut_file("a.ftr", "a.ftr", text, sizeof text - 1, NULL);
    assert_int_equal(unlink("a.ftr"), 0);
}

/* Each file of the folder in turn, the others whole. */
static void openfoam_mesh_is_cut(void **state)
{
    (void)state;
    static const char *const names[] = {"boundary", "faces", "neighbour", "owner", "points"};
    enum { N = sizeof names / sizeof *names };
    static char text[N][1 << 14];
    size_t n[N];
    char path[1024];
    assert_int_equal(mkdir("mesh", 0777), 0);
    assert_int_equal(chdir("mesh"), 0);
    for (int i = 0; i < N; i++) {
        (void)snprintf(path, sizeof path, FF_SOURCE_DIR "/tests/data/polyMesh/%s", names[i]);
        n[i] = load(path, text[i], sizeof text[i]);
        ff_test_write(names[i], text[i], n[i]);
    }
    for (int i = 0; i < N; i++) {
        cut_file("../mesh", names[i], text[i], n[i], NULL);
        ff_test_write(names[i], text[i], n[i]);
    }
    for (int i = 0; i < N; i++) assert_int_equal(unlink(names[i]), 0);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(rmdir("mesh"), 0);
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_has_a_row), cmocka_unit_test(every_format_is_cut),
        cmocka_unit_test(compressed_text_is_cut), cmocka_unit_test(openfoam_surface_is_cut),
        cmocka_unit_test(openfoam_mesh_is_cut),
    };
    char folder[64];
    int terminal = dup(2);
    if (!ff_scratch_make(folder) || chdir(folder) != 0) return 1;
    log_fd = memfd_create("log", 0);
    if (terminal < 0 || log_fd < 0 || dup2(log_fd, 2) < 0 || fcntl(2, F_SETFL, O_APPEND) != 0) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)dup2(terminal, 2);
    return failed != 0 || !ff_scratch_remove(folder);
}
