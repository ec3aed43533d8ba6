/* The lists by which a backend exchanges rows and sums between devices, carried out in host memory: rows of the ids sent
 * arrive at the ids received, sums of all bottoms give the upper nodes of ff_moment_upper to the bit, and targets of
 * ranges that are not late read nothing that is received. */
#include "ff_eval_link.h"
#include "ff_moment.h"
#include "ff_mpi_test.h"
#include "ff_sets.h"

#include <string.h>

enum { TASK = 64, M = 5 };

/* A device row in host memory. */
static ff_status host_exchange(void *ctx, const ff_msg *send, int n_send, const ff_msg *recv, int n_recv,
                               void *stream)
{
    ff_request *req = NULL;
    (void)stream;
    FF_TRY(ff_comm_exchange_begin(ctx, send, n_send, recv, n_recv, &req));
    return ff_comm_exchange_end(ctx, &req);
}

typedef struct setup {
    ff_cloud *cloud;
    ff_let *let;
    int64_t *task;
    uint8_t *remote;
    int64_t n_tasks;
    ff_link link;
    ff_resident_msgs msgs;
} setup;

static ff_status make_tasks(setup *s)
{
    int64_t begin = s->cloud->cut[s->cloud->comm->rank], end = s->cloud->cut[s->cloud->comm->rank + 1];
    FF_TRY(FF_NEW(s->task, end - begin + 2));
    FF_TRY(FF_NEW0(s->remote, end - begin + 2));
    s->task[0] = begin;
    while (s->task[s->n_tasks] < end) {
        int64_t from = s->task[s->n_tasks], to = from + TASK;
        to = to >= end ? end : ff_topo_border(s->cloud->n, s->cloud->leaf_size, to);
        s->task[++s->n_tasks] = to > from ? to : end;
    }
    return FF_OK;
}

static ff_status make(ff_mt *t, ff_set_kind kind, int64_t n, int leaf, setup *s)
{
    const uint8_t need = 1;
    float *x = NULL;
    int64_t begin = ff_set_home(n, t->size, t->rank, 0), end = ff_set_home(n, t->size, t->rank + 1, 0);
    memset(s, 0, sizeof *s);
    FF_TRY(FF_NEW_ALL(t->world, x, 3 * (end - begin) + 1));
    ff_set_fill(kind, begin, end - begin, 3, x);
    ff_status st = ff_cloud_create(t->world, x, end - begin, 3, leaf, &s->cloud);
    ff_free(x);
    FF_TRY(st);
    FF_TRY(ff_let_build(&s->cloud, 1, &need, 1.0, &s->let));
    st = make_tasks(s);
    if (st == FF_OK) st = ff_let_mark(s->let, s->let, 1.0, true, s->task, s->n_tasks, s->remote);
    FF_TRY(ff_agree(t->world, st));
    FF_TRY(ff_let_finish(s->let));
    st = ff_link_make(s->let, true, s->task, s->remote, s->n_tasks, &s->link);
    if (st == FF_OK) st = FF_NEW(s->msgs.send, t->size + 1);
    if (st == FF_OK) st = FF_NEW(s->msgs.recv, t->size + 1);
    return ff_agree(t->world, st);
}

static void drop(setup *s)
{
    ff_link_free(&s->link);
    ff_let_destroy(&s->let);
    ff_cloud_destroy(&s->cloud);
    ff_free(s->task);
    ff_free(s->remote);
    ff_free(s->msgs.send);
    ff_free(s->msgs.recv);
}

/* No empty message, one a peer and direction at most. */
static void check_messages(ff_mt *t, const ff_msg *m, int n)
{
    for (int k = 0; k < n; k++) {
        FF_EXPECT(t, m[k].bytes > 0 && m[k].peer >= 0 && m[k].peer < t->size && m[k].peer != t->rank,
                  "message %d: %zu bytes, peer %d", k, m[k].bytes, m[k].peer);
        for (int i = 0; i < k; i++) FF_EXPECT(t, m[i].peer != m[k].peer, "two messages for %d", m[k].peer);
    }
}

static uint64_t content(const setup *s, int32_t id)
{
    const ff_tree *tree = s->let->tree;
    return id < tree->n_held ? (uint64_t)tree->pos[id] * 2 : (uint64_t)tree->id[id - tree->n_held] * 2 + 1;
}

static void check_rows(ff_mt *t, const ff_device_comm *d, setup *s)
{
    uint64_t *send = NULL, *recv = NULL;
    const ff_link *l = &s->link;
    FF_EXPECT_OK(t, FF_NEW(send, l->n_send + 1));
    FF_EXPECT_OK(t, FF_NEW0(recv, l->n_recv + 1));
    if (ff_mt_good(t)) {
        for (int64_t k = 0; k < l->n_send; k++) send[k] = content(s, l->send[k]);
        s->msgs.n_send = s->msgs.n_recv = 0;
        ff_link_rows(l, sizeof *send, send, recv, &s->msgs);
        check_messages(t, s->msgs.send, s->msgs.n_send);
        check_messages(t, s->msgs.recv, s->msgs.n_recv);
        FF_EXPECT_OK(t,
                     d->exchange(d->ctx, s->msgs.send, s->msgs.n_send, s->msgs.recv, s->msgs.n_recv, NULL));
        for (int64_t k = 0; k < l->n_recv; k++)
            FF_EXPECT(t, recv[k] == content(s, l->recv[k]), "row %lld of %lld received", (long long)k,
                      (long long)l->n_recv);
    }
    ff_free(send);
    ff_free(recv);
}

typedef struct upper_rows {
    const ff_link *l;
    double *rows;
} upper_rows;

static void keep_node(void *ctx, int32_t i, const double *sum)
{
    const upper_rows *u = ctx;
    if (u->l->row_of[i] >= 0) memcpy(u->rows + (int64_t)u->l->row_of[i] * M, sum, M * sizeof *sum);
}

static double bottom_value(int64_t b, int c)
{
    return 1.0 / (double)(3 * b + c + 1);
}

static void check_sums(ff_mt *t, const ff_device_comm *d, setup *s)
{
    const ff_let *let = s->let;
    const ff_link *l = &s->link;
    int64_t own = let->own_bottom_begin, n_own = let->own_bottom_end - own;
    double *rows = NULL, *wanted = NULL;
    FF_EXPECT_OK(t, FF_NEW0(rows, (let->n_bottom + l->n_upper) * M + 1));
    FF_EXPECT_OK(t, FF_NEW0(wanted, l->n_upper * M + 1));
    if (ff_mt_good(t)) {
        upper_rows u = {l, wanted};
        ff_moment_ops ops = {M, NULL, keep_node, &u};
        for (int64_t b = own; b < own + n_own; b++)
            for (int c = 0; c < M; c++) rows[b * M + c] = bottom_value(b, c);
        FF_EXPECT_OK(t, ff_moment_upper(let, &ops, rows + own * M));
        s->msgs.n_send = s->msgs.n_recv = 0;
        ff_link_sums(l, M * sizeof *rows, rows, &s->msgs);
        check_messages(t, s->msgs.send, s->msgs.n_send);
        check_messages(t, s->msgs.recv, s->msgs.n_recv);
        FF_EXPECT_OK(t,
                     d->exchange(d->ctx, s->msgs.send, s->msgs.n_send, s->msgs.recv, s->msgs.n_recv, NULL));
        for (int64_t b = 0; b < let->n_bottom; b++)
            FF_EXPECT(t, rows[b * M + 1] == bottom_value(b, 1), "sum of bottom %lld", (long long)b);
        /* within a level from the back: the order there is no matter */
        for (int k = 0; k < l->n_level; k++)
            for (int32_t a = l->level_off[k + 1] - 1; a >= l->level_off[k]; a--)
                for (int c = 0; c < M; c++)
                    rows[(int64_t)l->up[a].to * M + c] = ff_resident_up_value(&l->up[a], rows, M, c);
        FF_EXPECT(t, l->level_off[l->n_level] == l->n_upper, "%d upper nodes in levels, expected %lld",
                  l->level_off[l->n_level], (long long)l->n_upper);
        FF_EXPECT(t, memcmp(rows + let->n_bottom * M, wanted, (size_t)(l->n_upper * M) * sizeof *rows) == 0,
                  "sums of upper nodes differ");
    }
    ff_free(rows);
    ff_free(wanted);
}

static void check_ranges(ff_mt *t, const setup *s)
{
    const ff_link *l = &s->link;
    int64_t early = 0, all_early = 0;
    FF_EXPECT(t, l->n_range >= 1 && l->n_range <= 2 * FF_LINK_EARLY + 1, "%d ranges", l->n_range);
    FF_EXPECT(t, l->range[0] == s->task[0] && l->range[l->n_range] == s->task[s->n_tasks], "ends of ranges");
    for (int q = 0; q < l->n_range; q++) {
        FF_EXPECT(t, l->range[q] <= l->range[q + 1], "range %d", q);
        FF_EXPECT(t, q == 0 || !(l->late[q] && l->late[q - 1]), "late ranges %d and %d are not one", q - 1,
                  q);
        if (!l->late[q]) early += l->range[q + 1] - l->range[q];
        for (int64_t k = 0; k < s->n_tasks; k++) {
            bool inside = s->task[k] < l->range[q + 1] && s->task[k + 1] > l->range[q];
            FF_EXPECT(t, !inside || l->late[q] || !s->remote[k], "task %lld of range %d reads rows received",
                      (long long)k, q);
        }
    }
    for (int64_t k = 0; k < s->n_tasks; k++) all_early += s->remote[k] ? 0 : s->task[k + 1] - s->task[k];
    FF_EXPECT(t, all_early == 0 || early > 0, "%lld targets need nothing, none is early",
              (long long)all_early);
}

static void lists_carried_out_in_host_memory(void **state)
{
    static const struct {
        ff_set_kind kind;
        int64_t n;
        int leaf;
    } sets[] = {{FF_SET_SPHERE, 6000, 1},
                {FF_SET_CLUSTERS, 3000, 4},
                {FF_SET_SPHERE, 40, 2},
                {FF_SET_SPHERE, 3, 1},
                {FF_SET_SPHERE, 0, 1}};
    ff_mt *t = *state;
    ff_device_comm row = {"host memory", t->world, t->world, 0, host_exchange, NULL};
    printf("seed %d\n", (int)FF_SET_SEED);
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        setup s;
        FF_EXPECT_OK(t, make(t, sets[k].kind, sets[k].n, sets[k].leaf, &s));
        if (ff_mt_good(t)) {
            check_rows(t, &row, &s);
            check_sums(t, &row, &s);
            check_ranges(t, &s);
        }
        drop(&s);
    }
    ff_mt_verdict(t);
}

static void ranges_of_made_up_tasks(void **state)
{
    static const int64_t task[] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130};
    static const uint8_t none[12] = {0}, all[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                         some[12] = {0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    ff_mt *t = *state;
    int64_t range[2 * FF_LINK_EARLY + 2];
    uint8_t late[2 * FF_LINK_EARLY + 1];
    int n = ff_link_ranges(task, none, 12, range, late);
    FF_EXPECT(t, n == 1 && !late[0] && range[0] == 10 && range[1] == 130, "nothing remote: %d ranges", n);
    n = ff_link_ranges(task, all, 12, range, late);
    FF_EXPECT(t, n == 1 && late[0] && range[0] == 10 && range[1] == 130, "all remote: %d ranges", n);
    n = ff_link_ranges(task, none, 0, range, late);
    FF_EXPECT(t, n == 1 && late[0] && range[0] == 10 && range[1] == 10, "no targets: %d ranges", n);
    n = ff_link_ranges(task, some, 12, range,
                       late); /* [30, 50) is the longest; then the first of equal ones */
    static const int64_t wanted[] = {10, 20, 30, 50, 60, 70, 80, 90, 130};
    FF_EXPECT(t, n == 8, "%d ranges, expected 8", n);
    for (int q = 0; q < n && n == 8; q++)
        FF_EXPECT(t, range[q] == wanted[q] && late[q] == q % 2, "range %d: from %lld, late %d", q,
                  (long long)range[q], late[q]);
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {FF_MT(ranges_of_made_up_tasks),
                                          FF_MT(lists_carried_out_in_host_memory)};
FF_MT_MAIN(tests)
