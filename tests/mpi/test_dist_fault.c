/* The n-th allocation of one rank fails, in each phase of the distribution: all ranks come back with its code and
 * text, none hangs, nothing leaks. Walks allocate again and again: from the 8th on every fifth is tried, other ones on
 * another number of ranks. */
#include "ff_mpi_test.h"

#include "ff_dist_steps.h"

#include <string.h>

/* Whether the fault was met. Collective. */
static bool one_run(ff_mt *t, int victim, int phase, int64_t n)
{
    ff_dist_steps s = {.fail_phase = (ff_dist_phase)phase, .fail_at = t->rank == victim ? n : 0};
    size_t before = ff_mem_blocks();
    ff_status st = ff_dist_steps_run(t->world, &s);
    int64_t hit = t->rank == victim && ff_mem_fault_hit();
    ff_mem_fail_at(0);
    ff_dist_steps_drop(&s);
    (void)ff_comm_allreduce(t->world, &hit, 1, FF_MAX_I64);
    FF_EXPECT(t, st == (hit != 0 ? FF_E_MEM : FF_OK), "phase %d allocation %lld of rank %d: status %d: %s",
              phase, (long long)n, victim, (int)st, ff_error_text());
    FF_EXPECT(t, hit == 0 || strstr(ff_error_text(), "injected") != NULL,
              "phase %d allocation %lld of rank %d: '%s'", phase, (long long)n, victim, ff_error_text());
    FF_EXPECT(t, ff_mem_blocks() == before, "phase %d allocation %lld of rank %d: %zu blocks leaked", phase,
              (long long)n, victim, ff_mem_blocks() - before);
    ff_error_clear();
    return hit != 0;
}

/* Later phases follow the one that fails, so a run that passes has met none in it: the fault is then spent in a later
 * phase, which is as good; the loop ends when none is met at all or at the phase's own share. */
static void one_rank_without_memory(ff_mt *t, int victim)
{
    static const int64_t share[FF_DIST_PHASES] = {60, 100, 30, 70, 100, 60, 60, 60};
    for (int phase = 0; phase < FF_DIST_PHASES; phase++) {
        int64_t n = 1, runs = 0;
        for (; n < share[phase] && one_run(t, victim, phase, n); n += n < 8    ? 1
                                                                      : n == 8 ? t->size % 5 + 1
                                                                               : 5)
            runs++;
        FF_EXPECT(t, runs > 3, "phase %d: %lld allocations", phase, (long long)runs);
    }
    FF_EXPECT(t, !one_run(t, victim, 0, 1000000), "an allocation fails without a fault");
}

static void failures_are_agreed(void **state)
{
    ff_mt *t = *state;
    one_rank_without_memory(t, t->size - 1);
    if (t->size == 3) one_rank_without_memory(t, 0);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {
    FF_MT(failures_are_agreed),
};
FF_MT_MAIN(tests)
