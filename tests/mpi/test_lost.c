/* A rank that does not come to an agreement (an even number of ranks) or a gathering (odd): the others go on within the
 * limit, know that they are lost, and one of them speaks. The late rank comes in the end, so that the program can stop.
 * Before that: one that is late by more than the limit, but by less than the others have worked for, is waited for, and
 * a message that comes after its exchange was given up harms nobody. */
#include "ff_mpi_test.h"
#include "ff_timer.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { LIMIT_S = 1, LATE_S = 4 };
/* The slow rank is late by 0.9 s: 0.6 s above the limit and below what the others have worked. */
static const double short_limit_s = 0.3, work_s = 1.5, slow_s = 2.4;

static ff_status meet(ff_mt *t)
{
    int64_t all[2 * 7], mine[2] = {t->rank, 3};
    if (t->size % 2 == 0) return ff_agree(t->world, FF_OK);
    FF_TRY(ff_comm_allgather(t->world, mine, sizeof mine, all));
    bool good = true;
    for (int r = 0; r < t->size; r++) good = good && all[2 * r] == r && all[2 * r + 1] == 3;
    return good ? FF_OK : ff_fail(FF_E_INTERNAL, "gathered something else");
}

static void work(double seconds)
{
    time_t whole = (time_t)seconds;
    (void)nanosleep(&(struct timespec){.tv_sec = whole, .tv_nsec = (long)(1e9 * (seconds - (double)whole))},
                    NULL);
}

static int64_t slow_rank(ff_mt *t)
{
    ff_comm_limit(t->world, short_limit_s);
    work(t->rank == t->size - 1 ? slow_s : work_s);
    if (meet(t) == FF_OK && !ff_comm_lost(t->world)) return 0;
    fprintf(stderr, "rank %d: a slow rank is taken for a lost one: %s\n", t->rank, ff_error_text());
    ff_mpi_abort(1); /* with a lost rank nothing ends by itself */
    return 1;
}

static int64_t late_rank(ff_mt *t)
{
    (void)nanosleep(&(struct timespec){.tv_sec = LATE_S}, NULL);
    (void)meet(t); /* what this gives depends on what the others still do */
    return 0;
}

static int64_t other_rank(ff_mt *t)
{
    double t0 = ff_now_s();
    ff_comm_limit(t->world, LIMIT_S);
    ff_status st = meet(t);
    double waited_s = ff_now_s() - t0;
    int64_t wrong = st != FF_E_COMM || !ff_comm_lost(t->world);
    wrong += waited_s < LIMIT_S || waited_s > LATE_S - 1;
    wrong += ff_comm_barrier(t->world) != FF_E_COMM; /* at once: nothing is waited for any more */
    wrong += ff_mpi_comm_speaks(t->world) != (t->rank == 0);
    if (wrong != 0)
        fprintf(stderr, "rank %d: status %d after %.2f s: %s\n", t->rank, (int)st, waited_s, ff_error_text());
    return wrong;
}

/* The last rank begins an exchange like the others, but its messages come when they have given it up and use the memory
 * for something else. The communicator is left behind: calls are under way on it. */
static int64_t late_message(ff_mt *t)
{
    enum { N = 1 << 16, TAG = 1 /* of exchanges */ };
    static ff_comm *c; /* never destroyed: that would be a call of all ranks */
    ff_request *req = NULL;
    int last = t->size - 1;
    unsigned char *to = ff_mem_alloc(N, 1);
    if (to == NULL || ff_comm_split(t->world, 0, &c) != FF_OK) return 1;
    ff_comm_limit(c, short_limit_s);
    int64_t wrong = 0;
    if (t->rank == last) {
        memset(to, 1, N);
        wrong += ff_agree(c, FF_OK) != FF_OK; /* what an exchange begins with */
        work(3 * short_limit_s);
        for (int r = 0; r < last; r++)
            wrong += MPI_Send(to, N, MPI_BYTE, r, TAG, ff_mpi_comm_handle(c)) != MPI_SUCCESS;
        ff_free(to);
        return wrong + (ff_comm_barrier(t->world) != FF_OK);
    }
    ff_msg take = {last, to, N};
    wrong += ff_comm_exchange_begin(c, NULL, 0, &take, 1, &req) != FF_OK;
    wrong += ff_comm_exchange_end(c, &req) != FF_E_COMM || !ff_comm_lost(c);
    ff_free(to);
    unsigned char *other = ff_mem_alloc(N, 1);
    if (other == NULL) return 1;
    memset(other, 2, N);
    wrong += ff_comm_barrier(t->world) != FF_OK; /* the messages have come */
    int64_t n_written = 0;
    for (int i = 0; i < N; i++) n_written += other[i] != 2;
    if (n_written > 0)
        fprintf(stderr, "rank %d: %lld bytes written by a late message\n", t->rank, (long long)n_written);
    ff_free(other);
    return wrong + (n_written > 0);
}

int main(int argc, char **argv)
{
    ff_mt t = {0};
    if (ff_mpi_start(&argc, &argv, &t.world) != FF_OK) return 1;
    t.rank = ff_comm_rank(t.world);
    t.size = ff_comm_size(t.world);
    ff_comm_limit(t.world, LIMIT_S);
    int64_t wrong = meet(&t) != FF_OK || ff_comm_lost(t.world); /* all are there */
    if (t.size > 1) wrong += slow_rank(&t);
    ff_comm_limit(t.world, HUGE_VAL);
    wrong += ff_comm_barrier(t.world) != FF_OK;
    if (t.size > 1) wrong += late_message(&t);
    if (t.size > 1) wrong += t.rank == t.size - 1 ? late_rank(&t) : other_rank(&t);
    ff_mpi_stop(&t.world);
    return wrong != 0;
}
