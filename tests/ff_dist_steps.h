/* Every step of the distribution once, for tests that make the n-th allocation fail. */
#ifndef FF_DIST_STEPS_H
#define FF_DIST_STEPS_H

#include "ff_let.h"
#include "ff_mem.h"
#include "ff_sets.h"

typedef enum ff_dist_phase {
    FF_DIST_CLOUD,
    FF_DIST_BALANCE,
    FF_DIST_RECUT,
    FF_DIST_BUILD,
    FF_DIST_MARK,
    FF_DIST_FINISH,
    FF_DIST_ROWS,
    FF_DIST_FIGURES,
    FF_DIST_PHASES
} ff_dist_phase;

typedef struct ff_dist_steps {
    ff_dist_phase fail_phase; /* the fail_at-th allocation from the start of this phase fails; 0: none */
    int64_t fail_at;
    ff_cloud *cloud[2];
    ff_let *let[2];
    ff_let_transfer *transfer[2];
    char *node_rows, *point_rows, *home_rows, *own_rows;
} ff_dist_steps;

static inline void ff_dist_phase_begin(const ff_dist_steps *s, ff_dist_phase phase)
{
    if (s->fail_at > 0 && phase == s->fail_phase) ff_mem_fail_at(s->fail_at);
}

static const uint8_t ff_dist_need[4] = {1, 1, 1, 0};
static const int64_t ff_dist_weight[4] = {1, 2, 3, 0};

static inline ff_status ff_dist_steps_marks(ff_comm *comm, ff_dist_steps *s)
{
    ff_status st = FF_OK;
    for (int p = 0; p < 4 && st == FF_OK; p++)
        if (ff_dist_need[p]) st = ff_let_mark(s->let[p / 2], s->let[p % 2], 1.0, true, NULL, 0, NULL);
    return ff_agree(comm, st);
}

static inline ff_status ff_dist_steps_rows(ff_comm *comm, ff_dist_steps *s)
{
    int64_t nodes = s->let[0]->tree->n_nodes, points = s->let[0]->tree->n_held;
    ff_status st = FF_NEW0(s->node_rows, nodes * 8);
    if (st == FF_OK) st = FF_NEW0(s->point_rows, points * 8);
    if (st == FF_OK) st = FF_NEW0(s->home_rows, s->cloud[0]->n_home * 8);
    if (st == FF_OK) st = FF_NEW0(s->own_rows, s->cloud[0]->n_own * 8);
    return ff_agree(comm, st);
}

static inline ff_status ff_dist_steps_setup(ff_comm *comm, int rank, int size, ff_dist_steps *s)
{
    float x[2][120 * 3];
    ff_dist_phase_begin(s, FF_DIST_CLOUD);
    for (int k = 0; k < 2; k++) {
        int64_t n = k == 0 ? 120 : 50, begin = ff_set_home(n, size, rank, 0),
                end = ff_set_home(n, size, rank + 1, 0);
        ff_set_fill(k == 0 ? FF_SET_CLUSTERS : FF_SET_SPHERE, begin, end - begin, 3, x[k]);
        FF_TRY(ff_cloud_create(comm, x[k], end - begin, 3, 4, &s->cloud[k]));
    }
    ff_dist_phase_begin(s, FF_DIST_BALANCE);
    FF_TRY(ff_let_balance(s->cloud, 2, ff_dist_need, ff_dist_weight, 1.0, true));
    ff_dist_phase_begin(s, FF_DIST_RECUT);
    FF_TRY(ff_cloud_recut(s->cloud[1], s->cloud[1]->cut));
    ff_dist_phase_begin(s, FF_DIST_BUILD);
    FF_TRY(ff_let_build(s->cloud, 2, ff_dist_need, 1.0, s->let));
    ff_dist_phase_begin(s, FF_DIST_MARK);
    FF_TRY(ff_dist_steps_marks(comm, s));
    ff_dist_phase_begin(s, FF_DIST_FINISH);
    for (int k = 0; k < 2; k++) FF_TRY(ff_let_finish(s->let[k]));
    ff_dist_phase_begin(s, FF_DIST_ROWS);
    return ff_dist_steps_rows(comm, s);
}

/* Runs all steps; the status is the same on all ranks. Collective. */
static inline ff_status ff_dist_steps_run(ff_comm *comm, ff_dist_steps *s)
{
    ff_status st = FF_OK;
    ff_dist_row row;
    FF_GO(ff_dist_steps_setup(comm, ff_comm_rank(comm), ff_comm_size(comm), s));
    FF_GO(ff_cloud_to_own(s->cloud[0], 8, s->home_rows, s->own_rows));
    FF_GO(ff_cloud_to_home(s->cloud[0], 8, s->own_rows, s->home_rows));
    FF_GO(ff_let_push_begin(s->let[0], 8, s->node_rows, 8, s->point_rows, &s->transfer[0]));
    FF_GO(ff_let_push_begin(s->let[0], 0, NULL, 4, s->point_rows, &s->transfer[1]));
    ff_dist_phase_begin(s, FF_DIST_FIGURES);
    FF_GO(ff_agree(comm, ff_let_figures(s->let, 2, ff_dist_need, ff_dist_weight, 1.0, true, &row)));
done:
    for (int k = 0; k < 2; k++) { /* what was begun is ended on all ranks alike */
        ff_status end = ff_let_push_end(&s->transfer[k]);
        if (st == FF_OK) st = end;
    }
    return st;
}

static inline void ff_dist_steps_drop(ff_dist_steps *s)
{
    for (int k = 0; k < 2; k++) ff_let_destroy(&s->let[k]), ff_cloud_destroy(&s->cloud[k]);
    ff_free(s->node_rows), ff_free(s->point_rows), ff_free(s->home_rows), ff_free(s->own_rows);
}

#endif
