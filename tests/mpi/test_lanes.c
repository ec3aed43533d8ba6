/* A step of several samples goes by lanes on any number of ranks, since whole evaluations of a backend round otherwise: one
 * lane where a group of ranks has each sample, and the losses and weights of one rank to the bit. */
#include "ff_lanes_case.h"
#include "ff_mpi_test.h"

static void groups_of_ranks_use_a_lane(void **state)
{
    ff_mt *t = *state;
    outcome alone = {.m = NULL}, together = {.m = NULL};
    FF_EXPECT_OK(t, train(ff_comm_self(), true, 0, &alone));
    FF_EXPECT_OK(t, train(t->world, true, 0, &together));
    FF_EXPECT(t, n_lanes == 1, "%d lanes were made, expected one", n_lanes);
    FF_EXPECT(t, together.m != NULL && same(&alone, &together), "losses or weights differ from one rank's");
    ff_model_destroy(&alone.m);
    ff_model_destroy(&together.m);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {FF_MT(groups_of_ranks_use_a_lane)};
FF_MT_MAIN(tests)
