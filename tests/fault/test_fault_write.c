/* The n-th write, flush or rename of a result fails, n = 1, 2, ... until a run passes; then the n-th
 * allocation. Each failed run returns its code, leaves no file and no memory behind, and does not touch a
 * file that was there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../ff_test_scratch.h"

#include "ff_io.h"
#include "ff_mem.h"
#include "ff_result.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"test_fault.vtkhdf", "test_fault.vtp", "test_fault.h5"};
enum { N_NAMES = 3 };

static const double points[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0.1};
static const int64_t cells[] = {0, 1, 2, 1, 3, 2};
static const int32_t patch[] = {0, 1};
static char *const patches[] = {"a", "b"};

static ff_result result(void)
{
    static const float q[] = {1, 2};
    static const ff_result_field field = {"q.x", 1, FF_H5_F32, q};
    static const ff_result_text text = {"deck", "a: 1\n"};
    return (ff_result){.dim = 3,
                       .n_points = 4,
                       .points = points,
                       .n_cells = 2,
                       .cell_pts = cells,
                       .n_patches = 2,
                       .patch_name = patches,
                       .cell_patch = patch,
                       .n_cell_fields = 1,
                       .cell_field = &field,
                       .n_texts = 1,
                       .text = &text};
}

static bool there(const char *name, const char *ext)
{
    char path[64];
    struct stat s;
    (void)snprintf(path, sizeof path, "%s%s", name, ext);
    return stat(path, &s) == 0;
}

/* Runs with fault n armed by arm; returns whether it fired. */
static bool one_run(const char *name, void (*arm)(int64_t), bool (*hit)(void), int64_t n, ff_status code,
                    bool keep)
{
    ff_result r = result();
    ff_error_clear();
    arm(n);
    ff_status st = ff_result_write(ff_comm_self(), &r, name, keep);
    bool fired = hit();
    arm(0);
    assert_int_equal(ff_mem_blocks(), 0);
    assert_false(there(name, ".tmp"));
    if (st != (fired ? code : FF_OK))
        fail_msg("%s: fault %d: status %d: %s", name, (int)n, (int)st, ff_error_text());
    if (fired) assert_true(ff_error_text()[0] != 0);
    if (fired) assert_int_equal(there(name, ""), keep);
    return fired;
}

static void loop(void (*arm)(int64_t), bool (*hit)(void), ff_status code, int64_t least)
{
    for (int i = 0; i < N_NAMES; i++) {
        int64_t n = 1;
        (void)unlink(names[i]);
        while (one_run(names[i], arm, hit, n, code, false)) n++;
        if (n < least) fail_msg("%s: only %d faults, expected at least %d", names[i], (int)n, (int)least);
        (void)unlink(names[i]);
    }
}

static void nth_write(void **state)
{
    (void)state;
    loop(ff_io_fail_at, ff_io_fault_hit, FF_E_IO, 10);
}

static void nth_allocation(void **state)
{
    (void)state;
    loop(ff_mem_fail_at, ff_mem_fault_hit, FF_E_MEM, 5);
}

static void an_old_file_survives_a_failed_overwrite(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++) {
        FILE *f = fopen(names[i], "wb");
        (void)fputs("old", f);
        (void)fclose(f);
        for (int64_t n = 1;; n++) {
            char word[4] = {0};
            if (!one_run(names[i], ff_io_fail_at, ff_io_fault_hit, n, FF_E_IO, true)) break;
            f = fopen(names[i], "rb");
            assert_int_equal(fread(word, 1, 3, f), 3);
            (void)fclose(f);
            assert_string_equal(word, "old");
        }
        (void)unlink(names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_write),
        cmocka_unit_test(nth_allocation),
        cmocka_unit_test(an_old_file_survives_a_failed_overwrite),
    };
    char scratch[64];
    if (!ff_scratch_make(scratch) || chdir(scratch) != 0) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + (ff_mem_blocks() != 0) + !ff_scratch_remove(scratch);
}
