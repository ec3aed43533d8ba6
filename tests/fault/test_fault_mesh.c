/* The n-th allocation fails, n = 1, 2, ... until a run passes: each failing run says so and leaves nothing
 * behind. */
#include "ff_test_mesh.h"

#include "ff_stl.h"

#include <zlib.h>

#define DATA FF_SOURCE_DIR "/tests/data/"

typedef struct fault_case {
    const char *path;
    bool work;  /* also triangulate and measure */
    bool range; /* of a binary STL: read a range of it instead */
} fault_case;

static ff_status run(const fault_case *c)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh *m = NULL, *t = NULL;
    int64_t *parent = NULL;
    ff_mesh_stats s;
    ff_status st = c->range ? ff_stl_read_range(c->path, &opts, 1, 3, &m) : ff_mesh_read(c->path, &opts, &m);
    if (st == FF_OK && c->work) st = ff_mesh_triangulate(m, &t, &parent);
    if (st == FF_OK && c->work) st = ff_mesh_measure(t, &s);
    if (st != FF_OK && !c->work) assert_null(m);
    ff_mesh_destroy(&m);
    ff_mesh_destroy(&t);
    ff_free(parent);
    return st;
}

static void every_allocation_may_fail(const fault_case *c)
{
    size_t blocks = ff_mem_blocks();
    for (int64_t n = 1;; n++) {
        ff_error_clear();
        ff_mem_fail_at(n);
        ff_status st = run(c);
        bool hit = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        assert_int_equal(ff_mem_blocks(), blocks);
        if (!hit) {
            assert_int_equal(st, FF_OK);
            assert_true(n > 5);
            print_message("%s: %lld allocations\n", c->path, (long long)n - 1);
            return;
        }
        if (st != FF_E_MEM || strstr(ff_error_text(), "injected") == NULL)
            fail_msg("%s: allocation %lld: status %d, \"%s\"", c->path, (long long)n, (int)st,
                     ff_error_text());
    }
}

static void readers(void **state)
{
    (void)state;
    static const char *const files[] = {
        "tetra.stl",    "tetra_binary.stl", "tetra.obj",           "tetra.ply", "tetra_le.ply",
        "tetra_be.ply", "tetra.msh",        "tetra_22_binary.msh", "tetra.su2", "tetra.bdf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, DATA "%s", files[i]);
        every_allocation_may_fail(&(fault_case){path, false, false});
    }
    every_allocation_may_fail(&(fault_case){DATA "tetra_binary.stl", false, true});
}

/* Many patches, polygons of several sizes, a concave one, lines, a continued line, compressed. */
static void large_and_odd_files(void **state)
{
    (void)state;
    gzFile f = gzopen("fault.obj.gz", "wb");
    assert_non_null(f);
    for (int i = 0; i < 100; i++)
        assert_true(gzprintf(f, "v %d 0 0\nv %d 1 0\nv %d.2 0.1 0\nv %d 0 1\n", i, i, i, i) > 0);
    for (int i = 0; i < 100; i++)
        assert_true(gzprintf(f, "g patch %d\nf %d %d %d\nf %d %d \\\n %d %d\nl 1 2\n", i % 40, 4 * i + 1,
                             4 * i + 2, 4 * i + 3, 4 * i + 1, 4 * i + 4, 4 * i + 3, 4 * i + 2) > 0);
    assert_int_equal(gzclose(f), Z_OK);
    every_allocation_may_fail(&(fault_case){"fault.obj.gz", false, false});
    every_allocation_may_fail(&(fault_case){"fault.obj.gz", true, false});
}

static void fields_of_a_triangulated_mesh(void **state)
{
    (void)state;
    static const char ply[] =
        "ply\nformat ascii 1.0\nelement vertex 5\nproperty float x\nproperty float y\nproperty float z\n"
        "property float p\nelement face 2\nproperty list uchar int vertex_indices\nproperty float q\n"
        "end_header\n0 0 0 1\n4 0 0 1\n1 1 0 1\n0 4 0 1\n4 4 0 1\n4 0 1 2 3 7\n3 1 4 3 8\n";
    ff_test_write("fault.ply", ply, sizeof ply - 1);
    every_allocation_may_fail(&(fault_case){"fault.ply", true, false});
}

/* The boundary of volumes, which needs a table of faces. */
static void boundary_of_volumes(void **state)
{
    (void)state;
    static const char msh[] =
        "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n5\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n"
        "5 1 1 1\n$EndNodes\n$Elements\n2\n1 4 2 0 1 1 2 3 4\n2 4 2 0 2 2 3 4 5\n$EndElements\n";
    ff_test_write("fault.msh", msh, sizeof msh - 1);
    every_allocation_may_fail(&(fault_case){"fault.msh", true, false});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(readers), cmocka_unit_test(large_and_odd_files),
                                       cmocka_unit_test(fields_of_a_triangulated_mesh),
                                       cmocka_unit_test(boundary_of_volumes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
