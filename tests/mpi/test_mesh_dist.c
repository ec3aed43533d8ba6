/* Meshes and results over ranks: each rank's share is what one rank reads, whatever the format, the number of
 * ranks and of cells; results are equal files; a failure on one rank is everybody's. */
#include "ff_mpi_test.h"

#include "../ff_test_scratch.h"

#include "ff_io.h"
#include "ff_mesh_dist.h"
#include "ff_mpi_io.h"
#include "ff_points.h"
#include "ff_result.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const ff_read_opts opts = {0.5, 0, false};

static char scratch[64];

/* Goes into a folder of this run. */
static void begin(void **state)
{
    ff_mt *t = *state;
    FF_EXPECT(t, t->rank != 0 || ff_scratch_make(scratch), "no folder for files");
    FF_EXPECT_OK(t, ff_comm_bcast(t->world, scratch, sizeof scratch, 0));
    FF_EXPECT(t, chdir(scratch) == 0, "%s cannot be entered", scratch);
    ff_mt_verdict(t);
}

static void put_file(ff_mt *t, const char *path, const void *data, size_t n)
{
    if (t->rank == 0) {
        FILE *f = fopen(path, "wb");
        FF_EXPECT(t, f != NULL && fwrite(data, 1, n, f) == n, "%s cannot be written", path);
        if (f != NULL) (void)fclose(f);
    }
    FF_EXPECT_OK(t, ff_comm_barrier(t->world));
}

static void drop_file(ff_mt *t, const char *path)
{
    FF_EXPECT_OK(t, ff_comm_barrier(t->world));
    if (t->rank == 0) (void)unlink(path);
}

/* ---- shares against the whole ---- */

static void same_fields(ff_mt *t, const ff_field_set *a, const ff_field_set *b, int64_t row_a, int64_t row_b)
{
    FF_EXPECT(t, a->n == b->n, "%d fields, expected %d", a->n, b->n);
    for (int i = 0; i < a->n && i < b->n; i++) {
        int n = a->field[i].n_comp;
        FF_EXPECT(t, strcmp(a->field[i].name, b->field[i].name) == 0 && n == b->field[i].n_comp, "field %d",
                  i);
        FF_EXPECT(t,
                  memcmp(a->field[i].value + row_a * n, b->field[i].value + row_b * n,
                         (size_t)n * sizeof(double)) == 0,
                  "field %s, row %lld", a->field[i].name, (long long)row_b);
    }
}

/* Point numbers ascend, their coordinates and fields are the file's; used counts the points some cell here
 * uses. */
static void check_points(ff_mt *t, const ff_mesh *m, const ff_mesh *whole)
{
    for (int64_t i = 0; i < m->n_points; i++) {
        int64_t gid = m->point_gid != NULL ? m->point_gid[i] : i;
        FF_EXPECT(t, gid >= 0 && gid < whole->n_points, "point number %lld", (long long)gid);
        FF_EXPECT(t, i == 0 || m->point_gid == NULL || gid > m->point_gid[i - 1],
                  "point numbers do not ascend");
        if (gid < 0 || gid >= whole->n_points) return;
        FF_EXPECT(t, memcmp(m->points + 3 * i, whole->points + 3 * gid, 24) == 0, "point %lld",
                  (long long)gid);
        same_fields(t, &m->point_data, &whole->point_data, i, gid);
    }
}

static void check_cell(ff_mt *t, const ff_mesh *m, int64_t c, const ff_mesh *whole, int64_t w)
{
    int64_t n, n_whole, at = ff_mesh_cell(m, c, &n), at_whole = ff_mesh_cell(whole, w, &n_whole);
    FF_EXPECT(t, n == n_whole, "cell %lld has %lld points", (long long)w, (long long)n);
    for (int64_t i = 0; i < n && i < n_whole; i++) {
        int64_t id = m->cell_pts[at + i];
        FF_EXPECT(t, id >= 0 && id < m->n_points, "cell %lld: local id %lld", (long long)w, (long long)id);
        if (id < 0 || id >= m->n_points) continue;
        int64_t gid = m->point_gid != NULL ? m->point_gid[id] : id;
        FF_EXPECT(t, gid == whole->cell_pts[at_whole + i], "cell %lld: point %lld", (long long)w,
                  (long long)gid);
    }
    int patch = m->cell_patch != NULL ? m->cell_patch[c] : 0,
        patch_whole = whole->cell_patch != NULL ? whole->cell_patch[w] : 0;
    FF_EXPECT(t, patch == patch_whole, "cell %lld: patch %d", (long long)w, patch);
    same_fields(t, &m->cell_data, &whole->cell_data, c, w);
}

/* Every point of the file is on some rank, points of no cell on one. */
static void check_union(ff_mt *t, const ff_mesh *m, const ff_mesh *whole)
{
    int64_t *held = ff_mem_alloc0((size_t)whole->n_points, sizeof *held);
    unsigned char *used = ff_mem_alloc0((size_t)whole->n_points, 1);
    int64_t n_ids = whole->cell_off != NULL ? whole->cell_off[whole->n_cells] : whole->dim * whole->n_cells;
    for (int64_t i = 0; i < n_ids; i++) used[whole->cell_pts[i]] = 1;
    for (int64_t i = 0; i < m->n_points; i++) held[m->point_gid != NULL ? m->point_gid[i] : i]++;
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, held, whole->n_points, FF_SUM_I64));
    for (int64_t i = 0; i < whole->n_points; i++)
        FF_EXPECT(t, used[i] ? held[i] >= 1 : held[i] == 1, "point %lld is on %lld ranks", (long long)i,
                  (long long)held[i]);
    ff_free(held);
    ff_free(used);
}

static void check_share(ff_mt *t, const ff_mesh *m, const ff_mesh *whole)
{
    int64_t begin = ff_share_begin(whole->n_cells, t->rank, t->size),
            end = ff_share_begin(whole->n_cells, t->rank + 1, t->size);
    FF_EXPECT(t, m->dim == whole->dim && m->points_float32 == whole->points_float32, "dim %d", m->dim);
    FF_EXPECT(t, m->cell_begin == begin && m->n_cells == end - begin, "cells %lld + %lld",
              (long long)m->cell_begin, (long long)m->n_cells);
    FF_EXPECT(t, m->n_cells_global == whole->n_cells, "%lld cells in all", (long long)m->n_cells_global);
    FF_EXPECT(t, t->size == 1 || (m->point_gid != NULL && m->n_points_global == whole->n_points),
              "%lld points in all", (long long)m->n_points_global);
    FF_EXPECT(t, m->n_patches == whole->n_patches, "%d patches, expected %d", m->n_patches, whole->n_patches);
    for (int p = 0; p < m->n_patches && p < whole->n_patches; p++)
        FF_EXPECT(t, strcmp(m->patch_name[p], whole->patch_name[p]) == 0, "patch %s", m->patch_name[p]);
    check_points(t, m, whole);
    for (int64_t c = 0; c < m->n_cells && m->n_cells == end - begin; c++)
        check_cell(t, m, c, whole, begin + c);
}

static void compare(ff_mt *t, const char *path)
{
    ff_mesh *m = NULL, *whole = NULL;
    FF_EXPECT_OK(t, ff_mesh_read(path, &opts, &whole));
    FF_EXPECT_OK(t, ff_mesh_read_dist(t->world, path, &opts, &m));
    if (ff_mt_good(t)) {
        check_share(t, m, whole);
        check_union(t, m, whole);
    }
    ff_mesh_destroy(&m);
    ff_mesh_destroy(&whole);
}

/* ---- files ---- */

static void binary_stl(void **state)
{
    ff_mt *t = *state;
    static const int counts[] = {1, 2, 5, 40};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        unsigned char data[84 + 50 * 40] = "solid in name only";
        uint32_t n = (uint32_t)counts[k];
        memcpy(data + 80, &n, 4);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 3; j < 12; j++) {
                float x = (float)((i * 7 + j * j) % 23) + (float)j / 8;
                memcpy(data + 84 + 50 * i + 4 * j, &x, 4);
            }
        const char *path = "a.stl";
        put_file(t, path, data, 84 + 50 * n);
        compare(t, path);
        drop_file(t, path);
    }
    ff_mt_verdict(t);
}

static void text_formats(void **state)
{
    ff_mt *t = *state;
    static const char obj[] =
        "v 9 9 9\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\ng one\nf 2 3 4 5\ng two\nf 2 3 6\nf 3 4 6\n"
        "g one\nf 4 5 6\nf 2 6 5\nv 8 8 8\n";
    static const char curve[] = "v 0 0 0\nv 1 0 0\nv 1 1 0\nl 1 2 3 1\n";
    static const char empty[] = "<VTKFile type='PolyData'><PolyData><Piece "
                                "NumberOfPoints='2'><PointData><DataArray type='Float32' Name='q'>5 6"
                                "</DataArray></PointData><Points><DataArray type='Float32' "
                                "NumberOfComponents='3'>0 0 0 1 2 3</DataArray></Points>"
                                "</Piece></PolyData></VTKFile>";
    static const char msh[] =
        "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n5\n9 0 0 0\n7 1 0 0\n5 1 1 0\n3 0 1 0\n"
        "1 0 0 1\n$EndNodes\n$Elements\n4\n1 3 2 1 1 9 7 5 3\n2 2 2 2 1 9 7 1\n3 2 2 2 1 7 5 1\n"
        "4 2 2 1 1 5 3 1\n$EndElements\n";
    static const char su2[] = "NDIME= 2\nNELEM= 0\nNPOIN= 4\n0 0\n1 0\n1 1\n0 1\nNMARK= 2\nMARKER_TAG= a\n"
                              "MARKER_ELEMS= 2\n3 0 1\n3 2 3\nMARKER_TAG= b\nMARKER_ELEMS= 1\n3 1 2\n";
    static const char bdf[] =
        "BEGIN BULK\nGRID,7,3,1.,0.,0.\nGRID,5,3,1.,90.,0.\nGRID,3,,0.,0.,1.\nGRID,1,,4.,0.,1.\n"
        "CORD2C,3,,0.,0.,0.,0.,0.,1.\n,1.,1.,0.\nCTRIA3,1,2,7,5,3\nCTRIA3,2,1,5,3,1\nENDDATA\n";
    static const char nothing[] = "<VTKFile type='PolyData'><PolyData></PolyData></VTKFile>";
    const struct {
        const char *name, *text;
    } files[] = {{"a.obj", obj}, {"b.obj", curve}, {"c.vtp", empty}, {"d.vtp", nothing},
                 {"e.msh", msh}, {"f.su2", su2},   {"g.bdf", bdf}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = files[i].name;
        put_file(t, path, files[i].text, strlen(files[i].text));
        compare(t, path);
        drop_file(t, path);
    }
    ff_mt_verdict(t);
}

/* Three parts, the second without cells, polygons of three sizes, a field of each kind, two unused points. */
/* Two OpenFOAM cells, CGNS zones (HDF5, which all ranks could open, and ADF): rank 0 reads them. */
static void solver_formats(void **state)
{
    ff_mt *t = *state;
    static const char *const paths[] = {
        "data/polyMesh",
        "fuzz/corpus/cgns/sections_hdf5",
        "fuzz/corpus/cgns/structured_hdf5",
        "fuzz/corpus/cgns/sections_adf",
        "fuzz/corpus/cgns/ngon_adf",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char path[1024];
        (void)snprintf(path, sizeof path, FF_SOURCE_DIR "/tests/%s", paths[i]);
        compare(t, path);
    }
    ff_mt_verdict(t);
}

static void put_parts(ff_mt *t, const char *path)
{
    static const int64_t points[] = {6, 1, 5}, cells[] = {4, 0, 3}, ids[] = {14, 0, 9}, zeros[3] = {0};
    static const int64_t off[] = {0, 3, 7, 10, 14, 0, 0, 3, 6, 9};
    static const int64_t conn[] = {0, 1, 2, 3, 4, 0, 1, 5, 4, 3, 2, 3, 4, 5, 0, 1, 2, 2, 1, 3, 3, 1, 0};
    static const char *const unused[] = {"Vertices", "Lines", "Strips"};
    double x[36], q[14];
    char at[64];
    ff_h5 *f = NULL;
    for (int i = 0; i < 36; i++) x[i] = (i * i % 17) / 4.0;
    for (int i = 0; i < 14; i++) q[i] = i + 0.5;
    FF_EXPECT_OK(t, ff_h5_create(ff_comm_self(), path, &f));
    if (f == NULL) return;
    FF_EXPECT_OK(t, ff_h5_group(f, "/VTKHDF/PointData"));
    FF_EXPECT_OK(t, ff_h5_group(f, "/VTKHDF/CellData"));
    FF_EXPECT_OK(t, ff_h5_attr_write_text(f, "/VTKHDF", "Type", "PolyData"));
    FF_EXPECT_OK(t, ff_h5_write_all(f, "/VTKHDF/NumberOfPoints", FF_H5_I64, 3, points));
    FF_EXPECT_OK(t, ff_h5_dataset(f, "/VTKHDF/Points", FF_H5_F64, 2, (int64_t[]){12, 3}));
    FF_EXPECT_OK(t, ff_h5_write(f, "/VTKHDF/Points", FF_H5_F64, 0, 12, x));
    FF_EXPECT_OK(t, ff_h5_group(f, "/VTKHDF/Polygons"));
    FF_EXPECT_OK(t, ff_h5_write_all(f, "/VTKHDF/Polygons/NumberOfCells", FF_H5_I64, 3, cells));
    FF_EXPECT_OK(t, ff_h5_write_all(f, "/VTKHDF/Polygons/NumberOfConnectivityIds", FF_H5_I64, 3, ids));
    FF_EXPECT_OK(t, ff_h5_write_all(f, "/VTKHDF/Polygons/Offsets", FF_H5_I64, 10, off));
    FF_EXPECT_OK(t, ff_h5_write_all(f, "/VTKHDF/Polygons/Connectivity", FF_H5_I64, 23, conn));
    for (int k = 0; k < 3; k++) {
        (void)snprintf(at, sizeof at, "/VTKHDF/%s", unused[k]);
        FF_EXPECT_OK(t, ff_h5_group(f, at));
        (void)snprintf(at, sizeof at, "/VTKHDF/%s/NumberOfCells", unused[k]);
        FF_EXPECT_OK(t, ff_h5_write_all(f, at, FF_H5_I64, 3, zeros));
        (void)snprintf(at, sizeof at, "/VTKHDF/%s/NumberOfConnectivityIds", unused[k]);
        FF_EXPECT_OK(t, ff_h5_write_all(f, at, FF_H5_I64, 3, zeros));
    }
    FF_EXPECT_OK(t, ff_h5_dataset(f, "/VTKHDF/CellData/u", FF_H5_F64, 2, (int64_t[]){7, 2}));
    FF_EXPECT_OK(t, ff_h5_write(f, "/VTKHDF/CellData/u", FF_H5_F64, 0, 7, q));
    FF_EXPECT_OK(t, ff_h5_dataset(f, "/VTKHDF/PointData/q", FF_H5_F32, 1, (int64_t[]){12}));
    FF_EXPECT_OK(t, ff_h5_write(f, "/VTKHDF/PointData/q", FF_H5_F32, 0, 12,
                                (float[12]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    FF_EXPECT_OK(t, ff_h5_close(&f));
}

static void vtkhdf_parts(void **state)
{
    ff_mt *t = *state;
    const char *path = "parts.vtkhdf";
    for (int hook = 0; hook < 2; hook++) { /* through rank 0, then shared by MPI-IO */
        if (t->rank == 0) put_parts(t, path);
        FF_EXPECT_OK(t, ff_comm_barrier(t->world));
        if (hook) FF_EXPECT_OK(t, ff_mpi_io_install(ff_mpi_comm_handle(t->world)));
        FF_EXPECT(t, ff_h5_can_share(t->world) == (hook && t->size > 1), "hook");
        compare(t, path);
        drop_file(t, path);
    }
    ff_mt_verdict(t); /* the hook stays for the tests that follow */
}

/* ---- results ---- */

static const char *const result_names[] = {"r.vtkhdf", "r.vtp", "r.h5"};

static int64_t bytes_of(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? (int64_t)s.st_size : -1;
}

/* Same bytes; sizes may differ for HDF5, whose inner order differs between one rank and several. */
static bool same_file(const char *a, const char *b)
{
    static char x[1 << 16], y[1 << 16];
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    size_t n = f != NULL ? fread(x, 1, sizeof x, f) : 0, m = g != NULL ? fread(y, 1, sizeof y, g) : 1;
    if (f != NULL) (void)fclose(f);
    if (g != NULL) (void)fclose(g);
    return n == m && memcmp(x, y, n) == 0;
}

static void same_mesh(ff_mt *t, const ff_mesh *a, const ff_mesh *b)
{
    FF_EXPECT(t, a->n_points == b->n_points && a->n_cells == b->n_cells && a->n_patches == b->n_patches,
              "counts");
    if (!(a->n_points == b->n_points && a->n_cells == b->n_cells)) return;
    check_points(t, a, b);
    for (int64_t c = 0; c < a->n_cells; c++) check_cell(t, a, c, b, c);
}

/* What all ranks write together is what one rank writes from the whole mesh. */
static void results_do_not_know_the_ranks(void **state)
{
    ff_mt *t = *state;
    static const ff_result_text texts[2] = {{"deck", "a: 1\n"}, {"integrals", "{}"}};
    const char *in = "in.vtkhdf";
    if (t->rank == 0) put_parts(t, in);
    FF_EXPECT_OK(t, ff_comm_barrier(t->world));
    ff_mesh *m = NULL, *whole = NULL, *a = NULL, *b = NULL;
    FF_EXPECT_OK(t, ff_mesh_read(in, &opts, &whole));
    FF_EXPECT_OK(t, ff_mesh_read_dist(t->world, in, &opts, &m));
    for (int i = 0; i < 3 && ff_mt_good(t); i++) {
        const char *out = result_names[i];
        char alone[64];
        (void)snprintf(alone, sizeof alone, "alone_%s", result_names[i]);
        FF_EXPECT_OK(t, ff_result_write_mesh(t->world, m, texts, 2, out, true));
        if (t->rank == 0) FF_EXPECT_OK(t, ff_result_write_mesh(ff_comm_self(), whole, texts, 2, alone, true));
        if (t->rank == 0 && i == 1) FF_EXPECT(t, same_file(out, alone), "%s differs from one rank's", out);
        FF_EXPECT_OK(t, ff_comm_barrier(t->world));
        FF_EXPECT_OK(t, ff_mesh_read(out, &(ff_read_opts)FF_READ_OPTS_INIT, &a));
        if (t->rank == 0) FF_EXPECT_OK(t, ff_mesh_read(alone, &(ff_read_opts)FF_READ_OPTS_INIT, &b));
        if (a != NULL) same_mesh(t, a, t->rank == 0 && b != NULL ? b : a);
        if (t->rank == 0 && a != NULL)
            FF_EXPECT(t, a->n_patches == 2 && strcmp(a->patch_name[1], "part 2") == 0, "patches");
        ff_mesh_destroy(&a);
        ff_mesh_destroy(&b);
        compare(t, out);
        drop_file(t, out);
        if (t->rank == 0) (void)unlink(alone);
    }
    drop_file(t, in);
    ff_mesh_destroy(&m);
    ff_mesh_destroy(&whole);
    ff_mt_verdict(t);
}

/* A cloud: rank r holds r % 3 points, no numbers given; read back in shares. */
static void clouds(void **state)
{
    ff_mt *t = *state;
    double x[6], q[2];
    int64_t n = t->rank % 3, before = 0, all = 0;
    for (int r = 0; r < t->size; r++) {
        if (r < t->rank) before += r % 3;
        all += r % 3;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++) x[3 * i + k] = (double)((before + i) * 3 + k);
        q[i] = (double)(before + i);
    }
    const ff_result_field field = {"q", 1, FF_H5_F64, q};
    ff_result r = {.dim = 0, .n_points = n, .points = x, .n_point_fields = 1, .point_field = &field};
    for (int i = 0; i < 3; i++) {
        const char *path = result_names[i];
        ff_mesh *m = NULL;
        FF_EXPECT_OK(t, ff_result_write(t->world, &r, path, true));
        FF_EXPECT_OK(t, ff_points_read_dist(t->world, path, &opts, &m));
        if (ff_mt_good(t)) {
            int64_t first = ff_share_begin(all, t->rank, t->size);
            FF_EXPECT(t, m->n_points == ff_share_begin(all, t->rank + 1, t->size) - first, "%lld points",
                      (long long)m->n_points);
            for (int64_t p = 0; p < m->n_points; p++) {
                FF_EXPECT(t, m->points[3 * p + 1] == 0.5 * (double)((first + p) * 3 + 1), "point %lld",
                          (long long)p);
                FF_EXPECT(t, m->point_data.field[0].value[p] == (double)(first + p), "value %lld",
                          (long long)p);
            }
        }
        ff_mesh_destroy(&m);
        drop_file(t, path);
    }
    ff_mt_verdict(t);
}

/* ---- failures ---- */

/* Bad files and targets: one code and one text on all ranks, nothing written. */
static void refusals_are_agreed(void **state)
{
    ff_mt *t = *state;
    static const char *const bad[] = {"no_such_file.stl", "text.obj", "cut.vtkhdf", "half.stl.part",
                                      "nan.vtp"};
    static const char nan_vtp[] =
        "<VTKFile type='PolyData'><PolyData><Piece NumberOfPoints='1'><Points><DataArray type='Float32' "
        "NumberOfComponents='3'>0 nan 0</DataArray></Points></Piece></PolyData></VTKFile>";
    for (int i = 0; i < 5; i++) {
        const char *path = bad[i];
        if (i == 1) put_file(t, path, "v 0 0 0\nf 1 2 3\n", 16);
        if (i == 2) put_file(t, path, "\x89HDF\r\n\x1a\n\0\0\0", 11);
        if (i == 3) put_file(t, path, "solid", 5);
        if (i == 4) put_file(t, path, nan_vtp, strlen(nan_vtp));
        ff_mesh *m = NULL;
        ff_error_clear();
        ff_status st = ff_mesh_read_dist(t->world, path, &opts, &m);
        FF_EXPECT(t, ff_exit_code(st) == 2 && m == NULL, "%s: status %d", path, (int)st);
        FF_EXPECT(t, strstr(ff_error_text(), path) != NULL, "%s: text \"%s\"", path, ff_error_text());
        drop_file(t, path);
    }
    ff_error_clear();
    const char *out = "old.vtp";
    put_file(t, out, "old", 3);
    FF_EXPECT(t, ff_result_check_path(t->world, out, false) == FF_E_INPUT, "an old file is refused");
    FF_EXPECT(t, strstr(ff_error_text(), "exists already") != NULL, "text \"%s\"", ff_error_text());
    drop_file(t, out);
    ff_mt_verdict(t);
}

/* The n-th write step, or allocation, fails on the last rank only: all ranks learn it, no file is left. */
static void faults_on_one_rank(void **state)
{
    ff_mt *t = *state;
    const char *in = "fault_in.vtkhdf";
    if (t->rank == 0) put_parts(t, in);
    FF_EXPECT_OK(t, ff_comm_barrier(t->world));
    for (int what = 0; what < 2; what++)
        for (int i = 0; i < 3; i++) {
            const char *out = result_names[i];
            for (int64_t n = 1; n < 400 && ff_mt_good(t); n += 1 + n / 4) {
                ff_mesh *m = NULL;
                bool last = t->rank == t->size - 1;
                size_t blocks = ff_mem_blocks();
                ff_error_clear();
                if (last && what == 0) ff_io_fail_at(n);
                if (last && what == 1) ff_mem_fail_at(n);
                ff_status st = ff_mesh_read_dist(t->world, in, &opts, &m);
                if (st == FF_OK) st = ff_result_write_mesh(t->world, m, NULL, 0, out, true);
                int64_t hit = ff_io_fault_hit() || ff_mem_fault_hit();
                ff_io_fail_at(0);
                ff_mem_fail_at(0);
                ff_mesh_destroy(&m);
                FF_EXPECT(t, ff_mem_blocks() == blocks, "%s: fault %d of kind %d leaks", out, (int)n, what);
                FF_EXPECT_OK(t, ff_comm_allreduce(t->world, &hit, 1, FF_MAX_I64));
                ff_status want = !hit ? FF_OK : what == 0 ? FF_E_IO : FF_E_MEM;
                FF_EXPECT(t, st == want, "%s: fault %d: status %d: %s", out, (int)n, (int)st,
                          ff_error_text());
                if (hit) FF_EXPECT(t, bytes_of(out) < 0, "%s: fault %d left a file", out, (int)n);
                drop_file(t, out);
                if (!hit) break;
            }
        }
    drop_file(t, in);
    ff_mt_verdict(t);
}

/* A limit on the size of files stands for a full disk: nobody hangs, nothing is left. */
static void full_disk(void **state)
{
    ff_mt *t = *state;
    enum { N = 5000 };
    double *x = ff_mem_alloc(3 * N, sizeof *x);
    for (int i = 0; i < 3 * N; i++) x[i] = 1.0 / (i + 1);
    const ff_result r = {.dim = 0, .n_points = N, .points = x};
    struct rlimit was, limit;
    (void)signal(SIGXFSZ, SIG_IGN);
    FF_EXPECT(t, getrlimit(RLIMIT_FSIZE, &was) == 0, "limit");
    limit = was;
    for (int i = 0; i < 3; i++)
        for (rlim_t bytes = 100; bytes < 100000; bytes *= 30) {
            ff_error_clear();
            limit.rlim_cur = bytes;
            FF_EXPECT(t, setrlimit(RLIMIT_FSIZE, &limit) == 0, "limit");
            ff_status st = ff_result_write(t->world, &r, result_names[i], true);
            FF_EXPECT(t, setrlimit(RLIMIT_FSIZE, &was) == 0, "limit");
            FF_EXPECT(t, st == FF_E_IO, "%s: status %d: %s", result_names[i], (int)st, ff_error_text());
            FF_EXPECT(t, bytes_of(result_names[i]) < 0, "%s is left", result_names[i]);
            FF_EXPECT_OK(t, ff_comm_barrier(t->world));
        }
    ff_free(x);
    ff_mt_verdict(t);
}

/* Removes the hook while MPI is still there, and the folder. */
static void end(void **state)
{
    ff_mt *t = *state;
    ff_mpi_io_remove();
    FF_EXPECT_OK(t, ff_comm_barrier(t->world));
    if (t->rank == 0) FF_EXPECT(t, ff_scratch_remove(scratch), "%s: a file is left", scratch);
    FF_EXPECT(t, !ff_h5_can_share(t->world), "hook");
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {FF_MT(begin),
                                          FF_MT(binary_stl),
                                          FF_MT(text_formats),
                                          FF_MT(solver_formats),
                                          FF_MT(vtkhdf_parts),
                                          FF_MT(results_do_not_know_the_ranks),
                                          FF_MT(clouds),
                                          FF_MT(refusals_are_agreed),
                                          FF_MT(faults_on_one_rank),
                                          FF_MT(full_disk),
                                          FF_MT(end)};
FF_MT_MAIN(tests)
