/* VTKHDF reader: parts, kinds of cells, time steps, and foreign, truncated or contradictory files. */
#include "../ff_test_mesh.h"

#include "ff_h5.h"
#include "ff_vtkhdf.h"

#include <hdf5.h>
#include <math.h>

static const char *const file = "test_vtkhdf.vtkhdf";

#define OK(call)                                                                                             \
    do {                                                                                                     \
        ff_status st_ = (call);                                                                              \
        if (st_ != FF_OK) fail_msg("%s: status %d: %s", #call, (int)st_, ff_error_text());                   \
    } while (0)

#define N(a) ((int64_t)(sizeof(a) / sizeof *(a)))

/* ---- building files ---- */

typedef struct {
    const char *name; /* group of the kind */
    const int64_t *cells, *ids, *off, *conn;
    int64_t n_off, n_conn;
} kind;

static void begin_file(ff_h5 **f, const char *type)
{
    OK(ff_h5_create(ff_comm_self(), file, f));
    OK(ff_h5_group(*f, "/VTKHDF"));
    OK(ff_h5_attr_write(*f, "/VTKHDF", "Version", FF_H5_I64, 2, (int64_t[]){2, 0}));
    if (type != NULL) OK(ff_h5_attr_write_text(*f, "/VTKHDF", "Type", type));
    OK(ff_h5_group(*f, "/VTKHDF/PointData"));
    OK(ff_h5_group(*f, "/VTKHDF/CellData"));
}

static void put_ints(ff_h5 *f, const char *group, const char *name, const int64_t *v, int64_t n)
{
    char path[200];
    (void)snprintf(path, sizeof path, "/VTKHDF/%s%s%s", group, group[0] != 0 ? "/" : "", name);
    OK(ff_h5_write_all(f, path, FF_H5_I64, n, v));
}

static void put_kind(ff_h5 *f, const kind *k, int64_t n_parts)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/VTKHDF/%s", k->name);
    OK(ff_h5_group(f, path));
    put_ints(f, k->name, "NumberOfCells", k->cells, n_parts);
    put_ints(f, k->name, "NumberOfConnectivityIds", k->ids, n_parts);
    put_ints(f, k->name, "Offsets", k->off, k->n_off);
    put_ints(f, k->name, "Connectivity", k->conn, k->n_conn);
}

static void put_points(ff_h5 *f, int64_t n, ff_h5_type t)
{
    double x[300];
    float y[300];
    assert_true(n <= 100);
    for (int64_t i = 0; i < n; i++) { /* on a parabola: no two points equal, no three on a line */
        x[3 * i] = (double)i;
        x[3 * i + 1] = (double)(i * i) / 8;
        x[3 * i + 2] = 0;
    }
    for (int64_t i = 0; i < 3 * n; i++) y[i] = (float)x[i];
    OK(ff_h5_dataset(f, "/VTKHDF/Points", t, 2, (int64_t[]){n, 3}));
    OK(ff_h5_write(f, "/VTKHDF/Points", t, 0, n, t == FF_H5_F32 ? (void *)y : (void *)x));
}

static ff_mesh *read_ok(int64_t step)
{
    ff_read_opts opts = {1.0, step, false};
    ff_mesh *m;
    ff_error_clear();
    OK(ff_vtkhdf_read(file, &opts, &m));
    return m;
}

static void refuse(int64_t step, const char *words)
{
    ff_read_opts opts = {1.0, step, false};
    ff_mesh *m;
    ff_error_clear();
    ff_status st = ff_vtkhdf_read(file, &opts, &m);
    if (st == FF_OK) fail_msg("accepted, expected a message with \"%s\"", words);
    ff_test_refused(st, words);
    assert_null(m);
    assert_int_equal(ff_mem_blocks(), 0);
}

/* Four parts, the first and third without cells; a quad and a triangle in part 1, a triangle in part 3. */
static const int64_t p_cells[] = {0, 2, 0, 1}, p_ids[] = {0, 7, 0, 3}, p_off[] = {0, 0, 4, 7, 0, 0, 3};
static const int64_t p_conn[] = {0, 1, 2, 3, 0, 1, 3, 2, 1, 0}, p_points[] = {2, 4, 0, 3};
static const kind polygons = {"Polygons", p_cells, p_ids, p_off, p_conn, 7, 10};

static void parts_become_patches(void **state)
{
    (void)state;
    ff_h5 *f;
    begin_file(&f, "PolyData");
    put_points(f, 9, FF_H5_F32);
    put_ints(f, "", "NumberOfPoints", p_points, 4);
    put_kind(f, &polygons, 4);
    put_ints(f, "CellData", "id", (int64_t[]){10, 11, 12}, 3);
    put_ints(f, "PointData", "n", (int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8}, 9);
    OK(ff_h5_write_text(f, "/VTKHDF/CellData/remark", "text is left out"));
    OK(ff_h5_close(&f));
    ff_mesh *m = read_ok(0);
    static const int64_t pts[] = {2, 3, 4, 5, 2, 3, 5, 8, 7, 6}, off[] = {0, 4, 7, 10};
    assert_int_equal(m->dim, 3);
    assert_int_equal(m->n_points, 9);
    assert_true(m->points_float32);
    assert_int_equal(m->n_cells, 3);
    assert_memory_equal(m->cell_off, off, sizeof off);
    assert_memory_equal(m->cell_pts, pts, sizeof pts);
    assert_int_equal(m->n_patches, 2);
    assert_string_equal(m->patch_name[0], "part 1");
    assert_string_equal(m->patch_name[1], "part 3");
    assert_int_equal(m->cell_patch[1], 0);
    assert_int_equal(m->cell_patch[2], 1);
    assert_int_equal(m->cell_data.n, 1);
    assert_true(m->cell_data.field[0].value[2] == 12);
    assert_true(m->point_data.field[0].value[8] == 8);
    assert_true(m->points[3 * 8 + 1] == 8);
    ff_mesh_destroy(&m);
}

/* Rows of cell data: vertices, lines, polygons, strips of part 0, then those of part 1. */
static void kinds_of_cells_and_their_rows(void **state)
{
    (void)state;
    static const int64_t one[] = {1, 0}, zero_two[] = {0, 2}, five[] = {5, 0}, three[] = {3, 3};
    static const int64_t v_off[] = {0, 1, 0}, s_off[] = {0, 5, 0}, g_cells[] = {1, 1}, g_off[] = {0, 3, 0, 3};
    static const int64_t l_off[] = {0, 0, 2, 4};
    const kind kinds[] = {{"Vertices", one, one, v_off, (int64_t[]){0}, 3, 1},
                          {"Lines", zero_two, (int64_t[]){0, 4}, l_off, (int64_t[]){0, 1, 1, 2}, 4, 4},
                          {"Polygons", g_cells, three, g_off, (int64_t[]){0, 1, 2, 2, 1, 0}, 4, 6},
                          {"Strips", one, five, s_off, (int64_t[]){0, 1, 2, 3, 4}, 3, 5}};
    ff_h5 *f;
    begin_file(&f, "PolyData");
    put_points(f, 8, FF_H5_F64);
    put_ints(f, "", "NumberOfPoints", (int64_t[]){5, 3}, 2);
    for (int k = 0; k < 4; k++) put_kind(f, &kinds[k], 2);
    put_ints(f, "CellData", "row", (int64_t[]){0, 1, 2, 3, 4, 5}, 6);
    OK(ff_h5_close(&f));
    ff_mesh *m = read_ok(0);
    static const double row[] = {1, 2, 2, 2, 5};
    static const int64_t pts[] = {0, 1, 2, 0, 1, 2, 2, 1, 3, 2, 3, 4, 7, 6, 5};
    assert_int_equal(m->n_cells, 5);
    assert_null(m->cell_off);
    assert_memory_equal(m->cell_pts, pts, sizeof pts);
    assert_memory_equal(m->cell_data.field[0].value, row, sizeof row);
    assert_false(m->points_float32);
    ff_mesh_destroy(&m);
}

static void lines_alone_are_a_curve(void **state)
{
    (void)state;
    const kind lines = {
        "Lines", (int64_t[]){1}, (int64_t[]){4}, (int64_t[]){0, 4}, (int64_t[]){0, 1, 2, 0}, 2, 4};
    ff_h5 *f;
    begin_file(&f, "PolyData");
    put_points(f, 3, FF_H5_F64);
    put_ints(f, "", "NumberOfPoints", (int64_t[]){3}, 1);
    put_kind(f, &lines, 1);
    put_ints(f, "CellData", "q", (int64_t[]){7}, 1);
    OK(ff_h5_close(&f));
    ff_mesh *m = read_ok(0);
    static const int64_t pts[] = {0, 1, 1, 2, 2, 0};
    assert_int_equal(m->dim, 2);
    assert_int_equal(m->n_cells, 3);
    assert_memory_equal(m->cell_pts, pts, sizeof pts);
    assert_true(m->cell_data.field[0].value[2] == 7);
    ff_mesh_destroy(&m);
}

/* Step 0: parts of 0 and 1 triangles; step 1: parts of 0 and 2 triangles; step 2 shows step 1's cells again.
 */
static void temporal_file(bool named_offsets)
{
    static const int64_t cells[] = {0, 1, 0, 2, 0, 2}, ids[] = {0, 3, 0, 6, 0, 6};
    static const int64_t off[] = {0, 0, 3, 0, 0, 3, 6}, conn[] = {0, 1, 2, 2, 1, 0, 0, 1, 3};
    const kind k = {"Polygons", cells, ids, off, conn, 7, 9};
    ff_h5 *f;
    begin_file(&f, "PolyData");
    put_points(f, 11, FF_H5_F64);
    put_ints(f, "", "NumberOfPoints", (int64_t[]){0, 3, 0, 4, 0, 4}, 6);
    put_kind(f, &k, 6);
    put_ints(f, "CellData", "c", (int64_t[]){1, 20, 21, 30, 31}, 5);
    OK(ff_h5_group(f, "/VTKHDF/Steps"));
    OK(ff_h5_attr_write_scalar(f, "/VTKHDF/Steps", "NSteps", FF_H5_I64, &(int64_t){3}));
    put_ints(f, "Steps", "PartOffsets", (int64_t[]){0, 2, 4}, 3);
    put_ints(f, "Steps", "NumberOfParts", (int64_t[]){2, 2, 2}, 3);
    put_ints(f, "Steps", "PointOffsets", (int64_t[]){0, 3, 7}, 3);
    static const int64_t four[] = {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0},
                         at[] = {0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0};
    OK(ff_h5_dataset(f, "/VTKHDF/Steps/CellOffsets", FF_H5_I64, 2, (int64_t[]){3, 4}));
    OK(ff_h5_write(f, "/VTKHDF/Steps/CellOffsets", FF_H5_I64, 0, 3, four));
    OK(ff_h5_dataset(f, "/VTKHDF/Steps/ConnectivityIdOffsets", FF_H5_I64, 2, (int64_t[]){3, 4}));
    OK(ff_h5_write(f, "/VTKHDF/Steps/ConnectivityIdOffsets", FF_H5_I64, 0, 3, at));
    OK(ff_h5_group(f, "/VTKHDF/Steps/CellDataOffsets"));
    if (named_offsets) put_ints(f, "Steps/CellDataOffsets", "c", (int64_t[]){0, 1, 3}, 3);
    OK(ff_h5_close(&f));
}

static void time_steps(void **state)
{
    (void)state;
    static const double first_x[] = {0, 3, 7}, c[2][3] = {{1, 20, 20}, {1, 20, 30}};
    static const int64_t pts[] = {2, 1, 0, 0, 1, 3};
    for (int named = 0; named < 2; named++) {
        temporal_file(named);
        for (int64_t s = 0; s < 3; s++) {
            ff_mesh *m = read_ok(s);
            assert_int_equal(m->n_cells, s == 0 ? 1 : 2);
            assert_int_equal(m->n_points, s == 0 ? 3 : 4);
            if (s > 0) assert_memory_equal(m->cell_pts, pts, sizeof pts);
            assert_true(m->points[0] == first_x[s]);
            assert_true(m->cell_data.field[0].value[0] == c[named][s]);
            ff_mesh_destroy(&m);
        }
        refuse(3, "expected 0 <= step < 3");
        refuse(-1, "step = -1");
    }
}

static void type_may_be_of_variable_length(void **state)
{
    (void)state;
    ff_h5 *f;
    begin_file(&f, NULL);
    put_points(f, 9, FF_H5_F32);
    put_ints(f, "", "NumberOfPoints", p_points, 4);
    put_kind(f, &polygons, 4);
    OK(ff_h5_close(&f));
    refuse(0, "attribute Type is missing");
    for (int utf8 = 0; utf8 < 2; utf8++) {
        const char *text = utf8 ? "PolyData" : "ImageData";
        hid_t id = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT), type = H5Tcopy(H5T_C_S1),
              space = H5Screate(H5S_SCALAR);
        (void)H5Tset_size(type, H5T_VARIABLE);
        (void)H5Tset_cset(type, utf8 ? H5T_CSET_UTF8 : H5T_CSET_ASCII);
        (void)H5Adelete_by_name(id, "/VTKHDF", "Type", H5P_DEFAULT);
        hid_t a =
            H5Acreate_by_name(id, "/VTKHDF", "Type", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        assert_true(H5Awrite(a, type, &text) >= 0);
        (void)H5Aclose(a);
        (void)H5Sclose(space);
        (void)H5Tclose(type);
        (void)H5Fclose(id);
        if (!utf8) refuse(0, "Type \"ImageData\", expected PolyData");
    }
    ff_mesh *m = read_ok(0);
    ff_mesh_destroy(&m);
}

/* ---- contradictions ---- */

/* The file of four parts with one array replaced. */
static void broken(const char *name, const int64_t *v, int64_t n, const char *words)
{
    ff_h5 *f;
    kind k = polygons;
    const int64_t *points = p_points;
    int64_t n_counts = 4;
    if (strcmp(name, "NumberOfPoints") == 0) points = v;
    if (strcmp(name, "NumberOfCells") == 0) k.cells = v;
    if (strcmp(name, "NumberOfConnectivityIds") == 0) k.ids = v;
    if (strcmp(name, "Offsets") == 0) k.off = v, k.n_off = n;
    if (strcmp(name, "Connectivity") == 0) k.conn = v, k.n_conn = n;
    if (strcmp(name, "short") == 0) n_counts = n;
    begin_file(&f, "PolyData");
    put_points(f, 9, FF_H5_F32);
    put_ints(f, "", "NumberOfPoints", points, 4);
    put_kind(f, &k, n_counts);
    if (strcmp(name, "CellData") == 0) put_ints(f, "CellData", "x", v, n);
    if (strcmp(name, "PointData") == 0) put_ints(f, "PointData", "x", v, n);
    OK(ff_h5_close(&f));
    refuse(0, words);
}
#define BROKEN(name, words, ...) broken(name, (int64_t[]){__VA_ARGS__}, N(((int64_t[]){__VA_ARGS__})), words)

static void contradictions_are_refused(void **state)
{
    (void)state;
    BROKEN("NumberOfPoints", "Points has 9 rows", 2, 4, 1, 3);
    BROKEN("NumberOfPoints", "NumberOfPoints[2] = -1", 2, 4, -1, 4);
    BROKEN("NumberOfPoints", "point id 3", 3, 3, 0, 3);
    BROKEN("NumberOfCells", "Offsets", 0, 3, 0, 1);
    BROKEN("NumberOfCells", "Offsets", 1, 2, 0, 1);
    BROKEN("NumberOfCells", "NumberOfCells[1] = -2", 0, -2, 0, 1);
    BROKEN("NumberOfCells", "NumberOfCells[0]", INT64_MAX, 2, 0, 1);
    BROKEN("NumberOfCells", "Offsets has 7 rows", 1ll << 36, 2, 0, 1);
    BROKEN("NumberOfConnectivityIds", "Connectivity has 10 rows", 0, 8, 0, 3);
    BROKEN("NumberOfConnectivityIds", "part 1", 0, 8, 0, 2);
    BROKEN("NumberOfConnectivityIds", "part 1", 0, 6, 0, 3);
    BROKEN("NumberOfConnectivityIds", "NumberOfConnectivityIds[3]", 0, 7, 0, -3);
    BROKEN("Offsets", "part 1", 0, 1, 4, 7, 0, 0, 3);
    BROKEN("Offsets", "cell 0 ends at 8", 0, 0, 8, 7, 0, 0, 3);
    BROKEN("Offsets", "cell 0 ends at -1", 0, 0, -1, 7, 0, 0, 3);
    BROKEN("Offsets", "part 3", 0, 0, 4, 7, 0, 0, 4);
    BROKEN("Offsets", "cell 0 has 1 points", 0, 0, 1, 7, 0, 0, 3);
    BROKEN("Offsets", "rows", 0, 0, 4);
    BROKEN("Connectivity", "point id 4", 0, 1, 2, 3, 0, 1, 4, 2, 1, 0);
    BROKEN("Connectivity", "point id -1", 0, 1, 2, 3, 0, 1, 3, 2, 1, -1);
    BROKEN("Connectivity", "point id 9223372036854775807", INT64_MAX, 1, 2, 3, 0, 1, 3, 2, 1, 0);
    BROKEN("Connectivity", "rows", 0, 1, 2, 3, 0);
    BROKEN("short", "expected at least 4", 0, 0);
    BROKEN("CellData", "expected 3 rows", 1, 2);
    BROKEN("PointData", "expected 9 rows", 1, 2);
}

static void foreign_files_are_refused(void **state)
{
    (void)state;
    ff_h5 *f;
    (void)unlink(file);
    refuse(0, "No such file");
    OK(ff_h5_create(ff_comm_self(), file, &f));
    OK(ff_h5_close(&f));
    refuse(0, "without group /VTKHDF");
    OK(ff_h5_create(ff_comm_self(), file, &f));
    OK(ff_h5_group(f, "/CGNSLibraryVersion"));
    OK(ff_h5_close(&f));
    refuse(0, "CGNS");
    begin_file(&f, "PolyData");
    OK(ff_h5_close(&f));
    refuse(0, "NumberOfPoints is missing");
    begin_file(&f, "PolyData");
    put_ints(f, "", "NumberOfPoints", p_points, 4);
    OK(ff_h5_write_text(f, "/VTKHDF/Points", "none"));
    OK(ff_h5_close(&f));
    refuse(0, "Points has 1 rows of 1");
    static const unsigned char adf[] = {0xc0, 0xa8, 0xa3, 0xa9, 'A', 'D', 'F', ' ', 'D',
                                        'a',  't',  'a',  'b',  'a', 's', 'e', ' '};
    FILE *raw = fopen(file, "wb");
    assert_non_null(raw);
    assert_int_equal(fwrite(adf, 1, sizeof adf, raw), sizeof adf);
    (void)fclose(raw);
    refuse(0, "ADF");
}

static void write_bytes(const char *data, size_t n)
{
    FILE *raw = fopen(file, "wb");
    assert_non_null(raw);
    assert_int_equal(fwrite(data, 1, n, raw), n);
    (void)fclose(raw);
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    static char data[1 << 16];
    temporal_file(true);
    FILE *raw = fopen(file, "rb");
    size_t n = fread(data, 1, sizeof data, raw);
    (void)fclose(raw);
    assert_true(n > 2000 && n < sizeof data);
    write_bytes(data, 0);
    refuse(0, "empty");
    for (size_t cut = 5; cut < n; cut += 97) {
        write_bytes(data, cut);
        refuse(0, cut < 8 ? "signature" : "cannot be opened");
    }
    write_bytes(data, n - 1);
    refuse(0, "truncated");
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    temporal_file(true);
    for (int64_t n = 1;; n++) {
        ff_read_opts opts = {1.0, 1, false};
        ff_mesh *m;
        ff_error_clear();
        ff_mem_fail_at(n);
        ff_status st = ff_vtkhdf_read(file, &opts, &m);
        bool hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        ff_mesh_destroy(&m);
        assert_int_equal(ff_mem_blocks(), 0);
        if (!hit) {
            OK(st);
            assert_true(n > 20);
            break;
        }
        if (st != FF_E_MEM) fail_msg("allocation %d: status %d: %s", (int)n, (int)st, ff_error_text());
    }
}

static void real_file(void **state)
{
    (void)state;
    const char *path = FF_SOURCE_DIR "/../shared/meshes/warping_spheres.vtkhdf";
    if (access(path, R_OK) != 0) {
        print_message("skipped: %s is not here\n", path);
        return;
    }
    static const double area[] = {4320.42062846,
                                  4440.97681788}; /* step 0: expected.csv; step 57: VTK 9.7.2 */
    for (int i = 0; i < 2; i++) {
        ff_read_opts opts = {1.0, i == 0 ? 0 : 57, false};
        ff_mesh *m;
        OK(ff_vtkhdf_read(path, &opts, &m));
        assert_int_equal(m->n_points, 1684);
        assert_int_equal(m->n_cells, 3360);
        assert_int_equal(m->n_patches, 2);
        assert_string_equal(m->patch_name[1], "part 1");
        double sum = 0, *each = ff_mem_alloc((size_t)m->n_cells, sizeof *each);
        ff_mesh_cell_areas(m, each);
        for (int64_t c = 0; c < m->n_cells; c++) sum += each[c];
        ff_free(each);
        assert_true(fabs(sum - area[i]) < 1e-9 * sum); /* both sum float32 coordinates in double */
        ff_mesh_destroy(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_become_patches),           cmocka_unit_test(kinds_of_cells_and_their_rows),
        cmocka_unit_test(lines_alone_are_a_curve),        cmocka_unit_test(time_steps),
        cmocka_unit_test(type_may_be_of_variable_length), cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(foreign_files_are_refused),      cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(every_allocation_may_fail),      cmocka_unit_test(real_file),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(file);
    return failed + (ff_mem_blocks() != 0);
}
