/* Results: what is written reads back equal; the layout readers insist on; nothing is overwritten or left
 * behind. */
#include "../ff_test_mesh.h"
#include "../ff_test_scratch.h"

#include "ff_io.h"
#include "ff_points.h"
#include "ff_result.h"

#include <errno.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const char *const names[] = {"test_result.vtkhdf", "test_result.vtp", "test_result.h5"};
enum { N_NAMES = 3 };

#define OK(call)                                                                                             \
    do {                                                                                                     \
        ff_status st_ = (call);                                                                              \
        if (st_ != FF_OK) fail_msg("%s: status %d: %s", #call, (int)st_, ff_error_text());                   \
    } while (0)

static bool there(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

static bool tmp_there(const char *path)
{
    char tmp[256];
    (void)snprintf(tmp, sizeof tmp, "%s.tmp", path);
    return there(tmp);
}

static void clear(void)
{
    for (int i = 0; i < N_NAMES; i++) (void)unlink(names[i]);
}

/* ---- a surface of a quad, a triangle and a pentagon with fields of all types; point 8 is used by no cell
 * ---- */

static double points[27] = {0,   0, 0, 1, 0,   0, 1, 1, 0, 0, 1, 0, 2, 0,
                            0.1, 2, 1, 0, 2.5, 2, 0, 1, 2, 0, 9, 9, 9};
static const int64_t cell_off[] = {0, 4, 7, 12}, cell_pts[] = {0, 1, 2, 3, 1, 4, 2, 2, 4, 5, 6, 7};
static const int32_t cell_patch[] = {1, 0, 1};
static char *const patches[] = {"wing.tip", "body \"<&>\" \xc3\xa4"};
static const float f32[] = {1.5f, -2.5f, 3.25f};
static const double f64[] = {1e-300, 2, 3, 4, 5, 6, 7, 8, 1e300};
static const int32_t i32[] = {-7, 0, INT32_MAX};
static const int64_t i64[] = {1, 2, 3, 4, 5, 6, 7, 8, (int64_t)1 << 52};
static const unsigned char u8[] = {0, 1, 255};

static const ff_result_field cell_fields[] = {{"body.C_p", 1, FF_H5_F32, f32},
                                              {"U/inf", 3, FF_H5_F64, f64},
                                              {"body_C_p", 1, FF_H5_I32, i32},
                                              {"mark", 1, FF_H5_U8, u8}};
static const ff_result_field point_fields[] = {{"id", 1, FF_H5_I64, i64}, {"<q> & \"r\"", 1, FF_H5_F64, f64}};
static const ff_result_text texts[] = {{"deck", "a: 1\nb: [2, 3] # \xc3\xa4\n"}, {"integrals", ""}};

static ff_result surface(void)
{
    return (ff_result){.dim = 3,
                       .n_points = 9,
                       .points = points,
                       .n_cells = 3,
                       .cell_off = cell_off,
                       .cell_pts = cell_pts,
                       .n_patches = 2,
                       .patch_name = patches,
                       .cell_patch = cell_patch,
                       .n_cell_fields = 4,
                       .n_point_fields = 2,
                       .n_texts = 2,
                       .cell_field = cell_fields,
                       .point_field = point_fields,
                       .text = texts};
}

static void expect_field(const ff_field_set *s, const char *name, int n_comp, const double *value, int n)
{
    const ff_field *f = ff_field_set_find(s, name);
    if (f == NULL) fail_msg("no field \"%s\"", name);
    assert_int_equal(f->n_comp, n_comp);
    for (int i = 0; i < n; i++)
        if (f->value[i] != value[i])
            fail_msg("field %s[%d] = %g, expected %g", name, i, f->value[i], value[i]);
}

static void reads_back_equal(void **state)
{
    (void)state;
    ff_result r = surface();
    ff_read_opts opts = FF_READ_OPTS_INIT;
    clear();
    for (int i = 0; i < N_NAMES; i++) {
        ff_mesh *m;
        OK(ff_result_write(ff_comm_self(), &r, names[i], false));
        assert_false(tmp_there(names[i]));
        OK(ff_mesh_read(names[i], &opts, &m));
        assert_int_equal(m->dim, 3);
        assert_int_equal(m->n_points, 9);
        assert_memory_equal(m->points, points, sizeof points);
        assert_false(m->points_float32); /* 0.1 is no float32 */
        assert_int_equal(m->n_cells, 3);
        assert_memory_equal(m->cell_off, cell_off, sizeof cell_off);
        assert_memory_equal(m->cell_pts, cell_pts, sizeof cell_pts);
        assert_int_equal(m->n_patches, 2);
        for (int p = 0; p < 2; p++) assert_string_equal(m->patch_name[p], patches[p]);
        assert_memory_equal(m->cell_patch, cell_patch, sizeof cell_patch);
        assert_int_equal(m->cell_data.n, 4);
        assert_int_equal(m->point_data.n, 2);
        expect_field(&m->cell_data, "body.C_p", 1, (double[]){1.5, -2.5, 3.25}, 3);
        expect_field(&m->cell_data, "U/inf", 3, f64, 9);
        expect_field(&m->cell_data, "body_C_p", 1, (double[]){-7, 0, INT32_MAX}, 3);
        expect_field(&m->cell_data, "mark", 1, (double[]){0, 1, 255}, 3);
        expect_field(&m->point_data, "id", 1, (double[]){1, 2, 3, 4, 5, 6, 7, 8, 4503599627370496.0}, 9);
        expect_field(&m->point_data, "<q> & \"r\"", 1, f64, 9);
        ff_mesh_destroy(&m);
    }
    clear();
}

static void float32_points_stay_float32(void **state)
{
    (void)state;
    ff_result r = surface();
    double keep = points[14];
    points[14] = 0.125;
    for (int i = 0; i < N_NAMES; i++) {
        ff_mesh *m;
        OK(ff_result_write(ff_comm_self(), &r, names[i], true));
        OK(ff_mesh_read(names[i], &(ff_read_opts){2.0, 0, false}, &m));
        assert_true(m->points_float32);
        assert_true(m->points[14] == 0.25);
        ff_mesh_destroy(&m);
    }
    points[14] = keep;
    clear();
}

/* ---- the layout of VTKHDF ---- */

static void expect_ints(ff_h5 *f, const char *name, const int64_t *v, int64_t n)
{
    ff_h5_shape s;
    int64_t have[16];
    OK(ff_h5_shape_of(f, name, &s));
    if (s.kind != FF_H5_INTEGER || s.elem_bytes != 8 || s.rank != 1 || s.dim[0] != n)
        fail_msg("%s: rank %d, %d rows of %d bytes, expected %d int64", name, s.rank, (int)s.dim[0],
                 (int)s.elem_bytes, (int)n);
    OK(ff_h5_read(f, name, FF_H5_I64, 0, n, have));
    for (int64_t i = 0; i < n; i++) assert_int_equal(have[i], v[i]);
}

static void vtkhdf_layout(void **state)
{
    (void)state;
    static const char *const unused[] = {"Vertices", "Lines", "Strips"};
    ff_result r = surface();
    ff_h5 *f;
    char path[64], *text;
    int64_t version[2];
    OK(ff_result_write(ff_comm_self(), &r, names[0], true));
    OK(ff_h5_open(ff_comm_self(), names[0], &f));
    OK(ff_h5_attr_read(f, "/VTKHDF", "Version", FF_H5_I64, 2, version));
    assert_int_equal(version[0], 2);
    assert_int_equal(version[1], 0);
    expect_ints(f, "/VTKHDF/NumberOfPoints", (int64_t[]){9}, 1);
    expect_ints(f, "/VTKHDF/Polygons/NumberOfCells", (int64_t[]){3}, 1);
    expect_ints(f, "/VTKHDF/Polygons/NumberOfConnectivityIds", (int64_t[]){12}, 1);
    expect_ints(f, "/VTKHDF/Polygons/Offsets", cell_off, 4);
    expect_ints(f, "/VTKHDF/Polygons/Connectivity", cell_pts, 12);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "/VTKHDF/%s/Offsets", unused[i]);
        expect_ints(f, path, (int64_t[]){0}, 1);
        (void)snprintf(path, sizeof path, "/VTKHDF/%s/NumberOfCells", unused[i]);
        expect_ints(f, path, (int64_t[]){0}, 1);
        (void)snprintf(path, sizeof path, "/VTKHDF/%s/NumberOfConnectivityIds", unused[i]);
        expect_ints(f, path, (int64_t[]){0}, 1);
        (void)snprintf(path, sizeof path, "/VTKHDF/%s/Connectivity", unused[i]);
        expect_ints(f, path, NULL, 0);
    }
    assert_true(ff_h5_exists(f, "/VTKHDF/CellData/body_C_p") &&
                ff_h5_exists(f, "/VTKHDF/CellData/body_C_p_2"));
    OK(ff_h5_attr_read_text(f, "/VTKHDF/CellData/U_inf", "original_name", &text));
    assert_string_equal(text, "U/inf");
    ff_free(text);
    OK(ff_h5_read_text(f, "/farfield/deck", &text));
    assert_string_equal(text, texts[0].text);
    ff_free(text);
    OK(ff_h5_attr_read_text(f, "/farfield", "version", &text));
    assert_string_equal(text, ff_version());
    ff_free(text);
    OK(ff_h5_close(&f));
    hid_t id = H5Fopen(names[0], H5F_ACC_RDONLY, H5P_DEFAULT),
          a = H5Aopen_by_name(id, "VTKHDF", "Type", H5P_DEFAULT, H5P_DEFAULT);
    hid_t type = H5Aget_type(a);
    assert_true(H5Tis_variable_str(type) == 0);
    assert_int_equal(H5Tget_size(type), 8);
    assert_int_equal(H5Tget_cset(type), H5T_CSET_ASCII);
    (void)H5Tclose(type);
    (void)H5Aclose(a);
    (void)H5Fclose(id);
    FILE *raw = fopen(names[0], "rb");
    unsigned char head[9];
    assert_int_equal(fread(head, 1, 9, raw), 9);
    (void)fclose(raw);
    assert_true(head[8] >= 2 && head[8] <= 3); /* superblock of HDF5 1.8 or 1.10 */
    clear();
}

/* ---- curves, clouds, nothing ---- */

static void curves_and_clouds(void **state)
{
    (void)state;
    static const int64_t edges[] = {0, 1, 1, 2, 2, 0};
    static const double q[] = {5, 6, 7};
    const ff_result_field field = {"q", 1, FF_H5_F64, q};
    for (int i = 0; i < N_NAMES; i++) {
        ff_mesh *m;
        ff_result r = {.dim = 2,
                       .n_points = 3,
                       .points = points,
                       .n_cells = 3,
                       .cell_pts = edges,
                       .n_cell_fields = 1,
                       .cell_field = &field};
        OK(ff_result_write(ff_comm_self(), &r, names[i], true));
        OK(ff_mesh_read(names[i], &(ff_read_opts)FF_READ_OPTS_INIT, &m));
        assert_int_equal(m->dim, 2);
        assert_int_equal(m->n_cells, 3);
        assert_memory_equal(m->cell_pts, edges, sizeof edges);
        expect_field(&m->cell_data, "q", 1, q, 3);
        ff_mesh_destroy(&m);
        r = (ff_result){
            .dim = 0, .n_points = 3, .points = points, .n_point_fields = 1, .point_field = &field};
        OK(ff_result_write(ff_comm_self(), &r, names[i], true));
        OK(ff_points_read(names[i], &(ff_read_opts)FF_READ_OPTS_INIT, &m));
        assert_int_equal(m->n_points, 3);
        assert_int_equal(m->n_cells, 0);
        assert_memory_equal(m->points, points, 9 * sizeof *points);
        expect_field(&m->point_data, "q", 1, q, 3);
        ff_mesh_destroy(&m);
        r = (ff_result){.dim = 3};
        OK(ff_result_write(ff_comm_self(), &r, names[i], true));
        OK(ff_mesh_read(names[i], &(ff_read_opts)FF_READ_OPTS_INIT, &m));
        assert_int_equal(m->n_points, 0);
        assert_int_equal(m->n_cells, 0);
        ff_mesh_destroy(&m);
    }
    clear();
}

static void tables_of_points(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *words; /* words: of the refusal, NULL if good */
        int dim, n;
    } rows[] = {
        {"test_points.csv", "x,y,z\r\n1,2,3\r\n\r\n4, 5 ,6\n", NULL, 3, 2},
        {"test_points.csv", "\"x\";\"y\"\n1;2\n4;5e0\n-1;.5", NULL, 2, 3},
        {"test_points.txt", "# comment\n  1 2\t3 # here too\n", NULL, 3, 1},
        {"test_points.txt", "", NULL, 3, 0},
        {"test_points.txt", "1 2 3\n4 5\n", "line 2: 2 columns, expected 3", 0, 0},
        {"test_points.txt", "1 2 3 4\n", "line 1: 4 columns", 0, 0},
        {"test_points.txt", "1\n", "line 1: 1 columns", 0, 0},
        {"test_points.txt", "x y\nx y\n1 2\n", "line 2", 0, 0},
        {"test_points.txt", "1 2 3\nx y z\n", "line 2", 0, 0},
        {"test_points.txt", "1 2 z\n", "column 3 is \"z\"", 0, 0},
        {"test_points.txt", "1 nan 2\n", "finite", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ff_mesh *m;
        FILE *f = fopen(rows[i].name, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(rows[i].text, 1, strlen(rows[i].text), f), strlen(rows[i].text));
        (void)fclose(f);
        ff_error_clear();
        ff_status st = ff_points_read(rows[i].name, &(ff_read_opts){10.0, 0, false}, &m);
        (void)unlink(rows[i].name);
        if (rows[i].words != NULL) {
            ff_test_refused(st, rows[i].words);
            assert_null(m);
            continue;
        }
        OK(st);
        assert_int_equal(m->n_points, rows[i].n);
        if (rows[i].n > 0) assert_int_equal(m->dim, rows[i].dim);
        if (rows[i].n > 0)
            assert_true(m->points[0] == 10 && m->points[1] == 20 &&
                        m->points[2] == (rows[i].dim == 3 ? 30 : 0));
        ff_mesh_destroy(&m);
    }
}

/* ---- refusals and failures ---- */

static void targets_are_checked_first(void **state)
{
    (void)state;
    ff_comm *self = ff_comm_self();
    ff_result r = surface();
    clear();
    FILE *f = fopen(names[1], "wb");
    (void)fputs("precious", f);
    (void)fclose(f);
    ff_error_clear();
    ff_test_refused(ff_result_check_path(self, names[1], false), "exists already");
    ff_error_clear();
    ff_test_refused(ff_result_write(self, &r, names[1], false), "exists already");
    char word[9] = {0};
    f = fopen(names[1], "rb");
    assert_int_equal(fread(word, 1, 8, f), 8);
    (void)fclose(f);
    assert_string_equal(word, "precious");
    OK(ff_result_check_path(self, names[1], true));
    ff_error_clear();
    ff_test_refused(ff_result_check_path(self, "result.vtu", false), ".vtkhdf, .vtp or .h5");
    ff_error_clear();
    ff_test_refused(ff_result_check_path(self, "result", false), ".vtkhdf, .vtp or .h5");
    ff_error_clear();
    ff_test_refused(ff_result_check_path(self, "no/such/folder/a.vtp", false), "does not exist");
    assert_int_equal(mkdir("test_result_folder.vtp", 0755), 0);
    ff_error_clear();
    ff_test_refused(ff_result_check_path(self, "test_result_folder.vtp", true), "is a folder");
    assert_int_equal(rmdir("test_result_folder.vtp"), 0);
    if (geteuid() != 0) { /* root may write anywhere */
        assert_int_equal(mkdir("test_result_locked", 0500), 0);
        ff_error_clear();
        assert_int_equal(ff_result_check_path(self, "test_result_locked/a.vtp", false), FF_E_IO);
        assert_int_equal(rmdir("test_result_locked"), 0);
    }
    clear();
    ff_error_clear();
}

/* A limit on the size of files stands for a full disk: the write fails in the middle. */
static void full_disk(void **state)
{
    (void)state;
    enum { N = 20000 };
    struct rlimit was, limit;
    double *many = ff_mem_alloc(3 * N, sizeof *many);
    for (int i = 0; i < 3 * N; i++) many[i] = 1.0 / (i + 1);
    ff_result r = {.dim = 0, .n_points = N, .points = many};
    clear();
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = was;
    for (int i = 0; i < N_NAMES; i++)
        for (rlim_t bytes = 100; bytes < 500000; bytes *= 7) {
            ff_error_clear();
            limit.rlim_cur = bytes;
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
            ff_status st = ff_result_write(ff_comm_self(), &r, names[i], false);
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
            if (st != FF_E_IO)
                fail_msg("%s, %d bytes: status %d: %s", names[i], (int)bytes, (int)st, ff_error_text());
            assert_int_equal(ff_exit_code(st), 1);
            assert_false(there(names[i]) || tmp_there(names[i]));
        }
    for (int i = 0; i < N_NAMES; i++)
        OK(ff_result_write(ff_comm_self(), &r, names[i], false)); /* and all is well again */
    ff_free(many);
    clear();
    ff_error_clear();
}

/* HDF5 loses some of its own memory when it cannot close a file; ours is counted by ff_mem_blocks. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5\n";
}

/* Results ask for room first; other HDF5 files meet the full disk while writing, which must not end the program. */
static void full_disk_under_hdf5(void **state)
{
    (void)state;
    enum { N = 100000 };
    static const double zeros[N];
    struct rlimit was, limit;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = was;
    for (rlim_t bytes = 10; bytes < 8 * N; bytes *= 3) {
        ff_h5 *f;
        ff_error_clear();
        limit.rlim_cur = bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        ff_status st = ff_h5_create(ff_comm_self(), "test_full.h5", &f);
        if (st == FF_OK) st = ff_h5_write_all(f, "/a", FF_H5_F64, N, zeros);
        if (st == FF_OK) st = ff_h5_attr_write_text(f, "/", "b", "text");
        ff_status closed = ff_h5_close(&f);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        assert_int_equal(st != FF_OK ? st : closed, FF_E_IO);
        assert_non_null(strstr(ff_error_text(), "test_full.h5"));
        assert_null(strchr(ff_error_text(), '\n'));
        (void)unlink("test_full.h5");
    }
    ff_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back_equal), cmocka_unit_test(float32_points_stay_float32),
        cmocka_unit_test(vtkhdf_layout),    cmocka_unit_test(curves_and_clouds),
        cmocka_unit_test(tables_of_points), cmocka_unit_test(targets_are_checked_first),
        cmocka_unit_test(full_disk),        cmocka_unit_test(full_disk_under_hdf5),
    };
    char scratch[64];
    if (!ff_scratch_make(scratch) || chdir(scratch) != 0) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + (ff_mem_blocks() != 0) + !ff_scratch_remove(scratch);
}
