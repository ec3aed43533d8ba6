/* Tests over ranks: an expectation only records; at the end of each test the ranks agree on one verdict, so
 * no rank leaves while another waits in a collective. Never assert between collectives.
 *
 *     static void routes_round_trip(void **state)
 *     {
 *         ff_mt *t = *state;
 *         FF_EXPECT(t, a == b, "row %d: %d, expected %d", i, a, b);
 *         ff_mt_verdict(t);
 *     }
 *     FF_MT_MAIN(tests) */
#ifndef FF_MPI_TEST_H
#define FF_MPI_TEST_H

#include "ff_mem.h"
#include "ff_mpi_comm.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <setjmp.h>

#include <cmocka.h>

typedef struct ff_mt {
    ff_comm *world;
    int rank, size;
    int64_t n_failed; /* of the test that runs, here */
} ff_mt;

#define FF_EXPECT(t, ok, ...)                                                                                \
    do {                                                                                                     \
        if (!(ok) && (t)->n_failed++ < 5) {                                                                  \
            fprintf(stderr, "%s:%d: rank %d of %d: ", __FILE__, __LINE__, (t)->rank, (t)->size);             \
            fprintf(stderr, __VA_ARGS__);                                                                    \
            fprintf(stderr, "\n");                                                                           \
        }                                                                                                    \
    } while (0)

/* Expects FF_OK, else shows the text of the failure. */
#define FF_EXPECT_OK(t, call)                                                                                \
    do {                                                                                                     \
        ff_status st_ = (call);                                                                              \
        FF_EXPECT(t, st_ == FF_OK, "%s: status %d: %s", #call, (int)st_, ff_error_text());                   \
    } while (0)

/* Whether no rank has recorded a failure so far: what later steps of a test may depend on. Collective */
static inline bool ff_mt_good(ff_mt *t)
{
    int64_t sum = t->n_failed;
    return ff_comm_allreduce(t->world, &sum, 1, FF_SUM_I64) == FF_OK && sum == 0;
}

static inline void ff_mt_verdict(ff_mt *t)
{
    bool good = ff_mt_good(t);
    t->n_failed = 0;
    ff_error_clear();
    assert_true(good);
}

static ff_mt ff_mt_state;

static inline int ff_mt_setup(void **state)
{
    *state = &ff_mt_state;
    return 0;
}

#define FF_MT(test) cmocka_unit_test_setup(test, ff_mt_setup)

/* Runs all tests on all ranks; rank 0 prints. Fails if a block of ours is still alive at the end. Collective
 */
#define FF_MT_MAIN(tests)                                                                                    \
    int main(int argc, char **argv)                                                                          \
    {                                                                                                        \
        ff_mt *t = &ff_mt_state;                                                                             \
        if (ff_mpi_start(&argc, &argv, &t->world) != FF_OK) return 1;                                        \
        t->rank = ff_comm_rank(t->world);                                                                    \
        t->size = ff_comm_size(t->world);                                                                    \
        if (t->rank != 0 && freopen("/dev/null", "w", stdout) == NULL) return 1;                             \
        int failed = cmocka_run_group_tests(tests, NULL, NULL);                                              \
        ff_mpi_stop(&t->world);                                                                              \
        if (ff_mem_blocks() != 0) fprintf(stderr, "rank %d: %zu blocks leaked\n", t->rank, ff_mem_blocks()); \
        return failed != 0 || ff_mem_blocks() != 0;                                                          \
    }

#endif
