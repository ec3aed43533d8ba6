/* Every operation of the MPI row against its definition, with whole messages and with messages cut into
 * pieces. */
#include "ff_mpi_test.h"

#include <math.h>
#include <string.h>

enum { SEED = 20240611 };

/* A word that names who sent it to whom and where it stands. */
static uint32_t word(int from, int to, size_t i)
{
    return (uint32_t)SEED * 2654435761u + (uint32_t)from * 97u + (uint32_t)to * 1009u + (uint32_t)i * 31u;
}

/* Words from rank a to rank b: some pairs have none. */
static size_t n_words(int a, int b)
{
    return (size_t)((a * 5 + b * 3) % 4) * 37;
}

static uint32_t *new_words(ff_mt *t, size_t n)
{
    uint32_t *w = ff_mem_alloc(n, sizeof *w);
    FF_EXPECT(t, w != NULL, "no memory");
    memset(w, 0xee, n * sizeof *w);
    return w;
}

static void reductions(void **state)
{
    ff_mt *t = *state;
    int64_t n = t->size, r = t->rank, top = n - 1;
    int64_t sum[3] = {r, INT64_C(1) << 40, -r}, lo[2] = {r, -r}, hi[2] = {r, -r};
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, sum, 3, FF_SUM_I64));
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, lo, 2, FF_MIN_I64));
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, hi, 2, FF_MAX_I64));
    FF_EXPECT(t, sum[0] == n * top / 2 && sum[1] == n << 40 && sum[2] == -sum[0], "sum of int64");
    FF_EXPECT(t, lo[0] == 0 && lo[1] == -top && hi[0] == top && hi[1] == 0, "min, max of int64");
    double dlo[2] = {(double)r + 0.5, -INFINITY}, dhi[2] = {(double)r + 0.5, -(double)r};
    float flo = (float)r - 0.25f, fhi[3] = {(float)r, INFINITY, -1e-42f};
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, dlo, 2, FF_MIN_F64));
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, dhi, 2, FF_MAX_F64));
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, &flo, 1, FF_MIN_F32));
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, fhi, 3, FF_MAX_F32));
    FF_EXPECT(t, dlo[0] == 0.5 && dlo[1] == -INFINITY && dhi[0] == (double)top + 0.5 && dhi[1] == 0.0,
              "float64");
    FF_EXPECT(t, flo == -0.25f && fhi[0] == (float)top && fhi[1] == INFINITY && fhi[2] == -1e-42f, "float32");
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, NULL, 0, FF_SUM_I64));
    ff_mt_verdict(t);
}

static void broadcast_from_each_root(void **state)
{
    ff_mt *t = *state;
    size_t n = 301;
    uint32_t *w = new_words(t, n);
    for (int root = 0; root < t->size; root++) {
        if (t->rank == root)
            for (size_t i = 0; i < n; i++) w[i] = word(root, 0, i);
        FF_EXPECT_OK(t, ff_comm_bcast(t->world, w, n * sizeof *w, root));
        size_t bad = 0;
        for (size_t i = 0; i < n; i++) bad += w[i] != word(root, 0, i);
        FF_EXPECT(t, bad == 0, "root %d: %zu words differ", root, bad);
    }
    FF_EXPECT_OK(t, ff_comm_barrier(t->world));
    ff_free(w);
    ff_mt_verdict(t);
}

static void gathers(void **state)
{
    ff_mt *t = *state;
    size_t bytes[64], total = 0;
    for (int r = 0; r < t->size; r++) total += (bytes[r] = n_words(r, 1) * 4) / 4;
    uint32_t *all = new_words(t, total + 1), *mine = new_words(t, n_words(t->rank, 1)),
             *each = new_words(t, 64);
    for (size_t i = 0; i < n_words(t->rank, 1); i++) mine[i] = word(t->rank, 1, i);
    FF_EXPECT_OK(t, ff_comm_allgatherv(t->world, mine, bytes[t->rank], all, bytes));
    size_t at = 0, bad = 0;
    for (int r = 0; r < t->size; r++)
        for (size_t i = 0; i < n_words(r, 1); i++) bad += all[at++] != word(r, 1, i);
    FF_EXPECT(t, bad == 0 && all[total] == 0xeeeeeeee, "allgatherv: %zu words differ", bad);
    uint32_t one = word(t->rank, 2, 0);
    FF_EXPECT_OK(t, ff_comm_allgather(t->world, &one, sizeof one, each));
    for (int r = 0; r < t->size; r++) FF_EXPECT(t, each[r] == word(r, 2, 0), "allgather: word of rank %d", r);
    ff_free(all), ff_free(mine), ff_free(each);
    ff_mt_verdict(t);
}

static void all_to_all(void **state)
{
    ff_mt *t = *state;
    size_t to[64], from[64], n_to = 0, n_from = 0, at = 0, bad = 0;
    for (int r = 0; r < t->size; r++)
        n_to += (to[r] = n_words(t->rank, r) * 4) / 4, n_from += n_words(r, t->rank);
    FF_EXPECT_OK(t, ff_comm_alltoall_counts(t->world, to, from));
    uint32_t *send = new_words(t, n_to), *recv = new_words(t, n_from + 1);
    for (int r = 0; r < t->size; r++) {
        FF_EXPECT(t, from[r] == n_words(r, t->rank) * 4, "count from rank %d", r);
        for (size_t i = 0; i < n_words(t->rank, r); i++) send[at++] = word(t->rank, r, i);
    }
    FF_EXPECT_OK(t, ff_comm_alltoallv(t->world, send, to, recv, from));
    at = 0;
    for (int r = 0; r < t->size; r++)
        for (size_t i = 0; i < n_words(r, t->rank); i++) bad += recv[at++] != word(r, t->rank, i);
    FF_EXPECT(t, bad == 0 && recv[n_from] == 0xeeeeeeee, "alltoallv: %zu words differ", bad);
    ff_free(send), ff_free(recv);
    ff_mt_verdict(t);
}

/* Two exchanges in flight at once, ended in the opposite order; each rank also sends to itself. */
static void sparse_exchanges(void **state)
{
    ff_mt *t = *state;
    ff_msg send[2][64], recv[2][64];
    ff_request *req[2] = {NULL, NULL};
    for (int e = 0; e < 2; e++) {
        for (int r = 0; r < t->size; r++) {
            size_t n_to = n_words(t->rank, r + e), n_from = n_words(r, t->rank + e);
            uint32_t *w = new_words(t, n_to);
            for (size_t i = 0; i < n_to; i++) w[i] = word(t->rank, r + e * 64, i);
            send[e][r] = (ff_msg){r, w, n_to * 4};
            recv[e][r] = (ff_msg){r, new_words(t, n_from), n_from * 4};
        }
        FF_EXPECT_OK(t, ff_comm_exchange_begin(t->world, send[e], t->size, recv[e], t->size, &req[e]));
    }
    for (int e = 1; e >= 0; e--) {
        FF_EXPECT_OK(t, ff_comm_exchange_end(t->world, &req[e]));
        FF_EXPECT(t, req[e] == NULL, "request is not NULL after its end");
        for (int r = 0; r < t->size; r++) {
            const uint32_t *w = recv[e][r].buf;
            size_t bad = 0;
            for (size_t i = 0; i < recv[e][r].bytes / 4; i++) bad += w[i] != word(r, t->rank + e * 64, i);
            FF_EXPECT(t, bad == 0, "exchange %d: %zu words from rank %d differ", e, bad, r);
            ff_free(send[e][r].buf), ff_free(recv[e][r].buf);
        }
    }
    FF_EXPECT_OK(t, ff_comm_exchange_begin(t->world, NULL, 0, NULL, 0, &req[0]));
    FF_EXPECT_OK(t, ff_comm_exchange_end(t->world, &req[0]));
    ff_mt_verdict(t);
}

static void ranks_agree_on_the_lowest_failure(void **state)
{
    ff_mt *t = *state;
    FF_EXPECT_OK(t, ff_agree(t->world, FF_OK));
    ff_status mine = FF_OK;
    int low = t->size / 2;
    if (t->rank >= low) mine = ff_fail(t->rank == low ? FF_E_INPUT : FF_E_MEM, "text of rank %d", t->rank);
    ff_status st = ff_agree(t->world, mine);
    char want[64];
    (void)snprintf(want, sizeof want, "text of rank %d", low);
    FF_EXPECT(t, st == FF_E_INPUT, "status %d, expected FF_E_INPUT", (int)st);
    FF_EXPECT(t, strcmp(ff_error_text(), want) == 0, "text '%s', expected '%s'", ff_error_text(), want);
    ff_mt_verdict(t);
}

/* An MPI error comes back as a status with MPI's own text: a rank that does not exist. */
static void errors_come_back(void **state)
{
    ff_mt *t = *state;
    char byte = 0;
    ff_status st = ff_comm_bcast(t->world, &byte, 1, t->size);
    FF_EXPECT(t, st == FF_E_COMM, "status %d, expected FF_E_COMM", (int)st);
    FF_EXPECT(t, strstr(ff_error_text(), "MPI_Bcast") != NULL, "text '%s' does not name MPI_Bcast",
              ff_error_text());
    ff_mt_verdict(t);
}

static void bad_arguments(void **state)
{
    ff_mt *t = *state;
    ff_comm *c = t->world;
    FF_EXPECT(t, ff_mpi_comm_create(MPI_COMM_NULL, &c) == FF_E_ARG && c == NULL, "MPI_COMM_NULL is accepted");
    ff_mt_verdict(t);
}

/* A row on a part of the ranks, in reversed order. */
static void part_of_the_world(void **state)
{
    ff_mt *t = *state;
    MPI_Comm half = MPI_COMM_NULL;
    ff_comm *c = NULL;
    FF_EXPECT(t, MPI_Comm_split(MPI_COMM_WORLD, t->rank % 2, -t->rank, &half) == MPI_SUCCESS, "split");
    FF_EXPECT_OK(t, ff_mpi_comm_create(half, &c));
    (void)MPI_Comm_free(&half); /* the row has its own duplicate */
    int64_t n = 1, want = (t->size + 1 - t->rank % 2) / 2, low = t->rank;
    FF_EXPECT_OK(t, ff_comm_allreduce(c, &n, 1, FF_SUM_I64));
    FF_EXPECT_OK(t, ff_comm_bcast(c, &low, sizeof low, ff_comm_size(c) - 1));
    FF_EXPECT(t, n == want && ff_comm_size(c) == want && low == t->rank % 2, "half has %d ranks", (int)n);
    ff_mpi_comm_destroy(&c);
    FF_EXPECT(t, c == NULL, "destroy leaves a pointer");
    ff_mt_verdict(t);
}

/* Groups of at most two neighbours: ranks inside in their order, sums stay inside. */
static void split_into_groups(void **state)
{
    ff_mt *t = *state;
    ff_comm *group = NULL;
    FF_EXPECT_OK(t, ff_comm_split(t->world, t->rank / 2, &group));
    if (!ff_mt_good(t)) {
        ff_mt_verdict(t);
        return;
    }
    int64_t sum = t->rank, first = t->rank - t->rank % 2;
    int want = first + 1 < t->size ? 2 : 1;
    FF_EXPECT_OK(t, ff_comm_allreduce(group, &sum, 1, FF_SUM_I64));
    FF_EXPECT(t, ff_comm_size(group) == want && ff_comm_rank(group) == t->rank % 2, "group of %d",
              ff_comm_size(group));
    FF_EXPECT(t, sum == (want == 2 ? 2 * first + 1 : first), "sum %lld", (long long)sum);
    ff_comm_destroy(&group);
    ff_mt_verdict(t);
}

static int small_pieces(void **state)
{
    ff_mpi_comm_set_piece(ff_mt_state.world, 24);
    return ff_mt_setup(state);
}

static int whole_messages(void **state)
{
    (void)state;
    ff_mpi_comm_set_piece(ff_mt_state.world, 1 << 30);
    return 0;
}

#define CUT(test)                                                                                            \
    {                                                                                                        \
#test " in pieces of 24 bytes", test, small_pieces, whole_messages, NULL                             \
    }
static const struct CMUnitTest tests[] = {
    FF_MT(reductions),
    FF_MT(broadcast_from_each_root),
    FF_MT(gathers),
    FF_MT(all_to_all),
    FF_MT(sparse_exchanges),
    FF_MT(ranks_agree_on_the_lowest_failure),
    FF_MT(errors_come_back),
    FF_MT(bad_arguments),
    FF_MT(part_of_the_world),
    FF_MT(split_into_groups),
    CUT(reductions),
    CUT(broadcast_from_each_root),
    CUT(gathers),
    CUT(all_to_all),
    CUT(sparse_exchanges),
};
FF_MT_MAIN(tests)
