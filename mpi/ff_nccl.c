#include "ff_nccl.h"

#include "ff_mem.h"
#include "ff_timer.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* What is used of nccl.h (its binary interface has been stable since 2.4). */
typedef void *nccl_comm;
typedef struct nccl_id {
    char bytes[128];
} nccl_id;
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_UINT8 = 1 };

/* ncclConfig_t as of 2.14: a library takes size and version at their word and fills in what came later. */
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, unused;
} nccl_config;
#define NCCL_CONFIG                                                                                          \
    {                                                                                                        \
        sizeof(nccl_config), 0xcafebeefu, 21400, 0, INT_MIN                                                  \
    }

typedef struct nccl_lib {
    void *handle;
    int (*get_version)(int *);
    int (*get_id)(nccl_id *);
    int (*init_rank)(nccl_comm *, int, nccl_id, int, nccl_config *);
    int (*send)(const void *, size_t, int, int, nccl_comm, void *);
    int (*recv)(void *, size_t, int, int, nccl_comm, void *);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*async_error)(nccl_comm, int *);
    int (*give_up)(nccl_comm);
    int (*finalize)(nccl_comm);
    int (*destroy)(nccl_comm);
    const char *(*error_text)(int);
} nccl_lib;

struct ff_nccl {
    nccl_comm comm;
    ff_comm *ranks; /* borrowed */
    double deadline_s, sleep_s;
    int64_t sleep_in; /* exchanges until this rank sleeps; 0: never */
    ff_device_comm row;
};

static nccl_lib lib;
static const char *missing; /* why the library cannot be used, NULL: it can, or was not looked for */

/* A function pointer from an object pointer, as POSIX has it. */
#define TAKE(member, name) (*(void **)&lib.member = dlsym(lib.handle, name)) != NULL

static bool open_library(void)
{
    static bool tried;
    if (tried) return missing == NULL;
    tried = true;
    lib.handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (lib.handle == NULL) {
        missing = "libnccl.so.2 is not found; install NCCL or add its folder to LD_LIBRARY_PATH";
        return false;
    }
    bool all = TAKE(get_version, "ncclGetVersion") && TAKE(get_id, "ncclGetUniqueId") &&
               TAKE(init_rank, "ncclCommInitRankConfig") && TAKE(send, "ncclSend") &&
               TAKE(recv, "ncclRecv") && TAKE(group_start, "ncclGroupStart") &&
               TAKE(group_end, "ncclGroupEnd") && TAKE(async_error, "ncclCommGetAsyncError") &&
               TAKE(give_up, "ncclCommAbort") && TAKE(finalize, "ncclCommFinalize") &&
               TAKE(destroy, "ncclCommDestroy") && TAKE(error_text, "ncclGetErrorString");
    if (!all) missing = "libnccl.so.2 is too old: calls that do not block need NCCL 2.14 or later";
    return all;
}

const char *ff_nccl_version(const char **why)
{
    static char text[32];
    int v = 0;
    *why = NULL;
    if (!open_library() || lib.get_version(&v) != NCCL_SUCCESS) {
        *why = missing != NULL ? missing : "NCCL does not tell its version";
        return NULL;
    }
    /* 2.9 and later: major 10000, minor 100 */
    (void)snprintf(text, sizeof text, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return text;
}

static ff_status check(int rc, const char *what)
{
    if (rc == NCCL_SUCCESS || rc == NCCL_IN_PROGRESS) return FF_OK;
    return ff_fail(FF_E_COMM, "NCCL: %s failed: %s; NCCL_DEBUG=INFO tells more", what, lib.error_text(rc));
}

/* Kernels in flight end; nobody is waited for. */
static ff_status give_up(ff_nccl *n, ff_status st)
{
    if (n->comm != NULL) (void)lib.give_up(n->comm);
    n->comm = NULL;
    ff_comm_limit(n->ranks, FF_NCCL_GRACE_S);
    return st;
}

static ff_status too_late(const ff_nccl *n, const char *what, double waited_s)
{
    return ff_fail(FF_E_COMM,
                   "NCCL: rank %d: %s is not over after %.0f s (run.deadline); another rank is lost, "
                   "or much slower",
                   n->ranks->rank, what, waited_s);
}

static void pause_after(double waited_s)
{
    if (waited_s > 1e-3) (void)nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Until NCCL's own work for the calls made so far is done (connections are made at the first message between two ranks);
 * what they enqueue on streams stands there then. */
static ff_status settle(ff_nccl *n, double deadline_s, const char *what)
{
    int state = NCCL_IN_PROGRESS;
    for (double t0 = ff_now_s(), waited = 0;; waited = ff_now_s() - t0) {
        FF_TRY(check(lib.async_error(n->comm, &state), "ncclCommGetAsyncError"));
        if (state != NCCL_IN_PROGRESS) return check(state, what);
        if (deadline_s > 0 && waited > deadline_s) return too_late(n, what, waited);
        pause_after(waited);
    }
}

/* ---- the row ---- */

static ff_status post(const ff_nccl *n, const ff_msg *msg, int n_msg, bool send, void *stream)
{
    for (int i = 0; i < n_msg; i++) {
        if (msg[i].bytes == 0) continue;
        FF_TRY(send ? check(lib.send(msg[i].buf, msg[i].bytes, NCCL_UINT8, msg[i].peer, n->comm, stream),
                            "ncclSend")
                    : check(lib.recv(msg[i].buf, msg[i].bytes, NCCL_UINT8, msg[i].peer, n->comm, stream),
                            "ncclRecv"));
    }
    return FF_OK;
}

static ff_status gone(void)
{
    return ff_fail(FF_E_COMM, "NCCL: the communicator has been given up");
}

static ff_status exchange(void *ctx, const ff_msg *send, int n_send, const ff_msg *recv, int n_recv,
                          void *stream)
{
    ff_nccl *n = ctx;
    if (n->comm == NULL) return gone();
    if (n->sleep_in > 0 && --n->sleep_in == 0)
        (void)nanosleep(&(struct timespec){.tv_sec = (time_t)n->sleep_s}, NULL);
    if (n_send + n_recv == 0) return FF_OK;
    ff_status st = check(lib.group_start(), "ncclGroupStart");
    if (st == FF_OK) {
        st = post(n, send, n_send, true, stream);
        if (st == FF_OK) st = post(n, recv, n_recv, false, stream);
        ff_status ended = check(lib.group_end(), "ncclGroupEnd");
        if (st == FF_OK) st = ended;
    }
    if (st == FF_OK) st = settle(n, n->deadline_s, "an exchange");
    return st == FF_OK ? FF_OK : give_up(n, st);
}

static ff_status check_row(void *ctx, double waited_s)
{
    ff_nccl *n = ctx;
    int state = NCCL_SUCCESS;
    if (n->comm == NULL) return gone();
    ff_status st = check(lib.async_error(n->comm, &state), "ncclCommGetAsyncError");
    if (st == FF_OK) st = check(state, "an exchange");
    if (st == FF_OK && n->deadline_s > 0 && waited_s > n->deadline_s)
        st = too_late(n, "an exchange", waited_s);
    return st == FF_OK ? FF_OK : give_up(n, st);
}

const ff_device_comm *ff_nccl_row(const ff_nccl *n)
{
    return &n->row;
}

void ff_nccl_set_deadline(ff_nccl *n, double deadline_s)
{
    n->deadline_s = deadline_s;
}

void ff_nccl_sleep_before(ff_nccl *n, int64_t exchange_no, double seconds)
{
    n->sleep_in = exchange_no;
    n->sleep_s = seconds;
}

/* ---- life ---- */

/* Finding the others' GPUs and networks takes seconds on a large machine; nobody has begun to evaluate. */
enum { CONNECT_S = 60 };

/* A kernel of NCCL holds its multiprocessors while it waits for another rank. Eight carry more than an exchange of a
 * layer needs and leave the others to the work beside it; who has set the variable knows better. */
enum { FF_NCCL_BLOCKS = 8 };

static void few_blocks(void)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", (int)FF_NCCL_BLOCKS);
    (void)setenv("NCCL_MAX_CTAS", text, 0);
}

ff_status ff_nccl_create(ff_comm *comm, double deadline_s, ff_nccl **out)
{
    ff_status st = FF_OK;
    nccl_id id = {{0}};
    nccl_config config = NCCL_CONFIG;
    ff_nccl *n = NULL;
    *out = NULL;
    ff_comm_limit(comm, HUGE_VAL); /* so that a rank that gives up meets the others */
    if (!open_library())
        st = ff_fail(FF_E_UNSUPPORTED, "NCCL: %s; --transport mpi works without it", missing);
    if (st == FF_OK && comm->rank == 0) st = check(lib.get_id(&id), "ncclGetUniqueId");
    FF_TRY(ff_agree(comm, st));
    FF_TRY(FF_NEW0_ALL(comm, n, 1));
    *n = (ff_nccl){.ranks = comm, .deadline_s = deadline_s};
    n->row = (ff_device_comm){"nccl", n, comm, FF_NCCL_BLOCKS, exchange, check_row};
    FF_GO(ff_comm_bcast(comm, &id, sizeof id, 0));
    few_blocks();
    st = check(lib.init_rank(&n->comm, comm->size, id, comm->rank, &config), "ncclCommInitRankConfig");
    if (st == FF_OK) st = settle(n, deadline_s > 0 ? fmax(deadline_s, CONNECT_S) : 0, "connecting the GPUs");
    FF_GO(ff_agree(comm, st));
    *out = n;
    n = NULL;
done:
    if (n != NULL && n->comm != NULL) (void)lib.give_up(n->comm);
    ff_free(n);
    return st;
}

void ff_nccl_destroy(ff_nccl **np)
{
    ff_nccl *n = *np;
    if (n == NULL) return;
    if (n->comm != NULL) {
        bool ended = !ff_comm_lost(n->ranks) && check(lib.finalize(n->comm), "ncclCommFinalize") == FF_OK &&
                     settle(n, FF_NCCL_GRACE_S, "ncclCommFinalize") == FF_OK;
        (void)(ended ? lib.destroy(n->comm) : lib.give_up(n->comm));
    }
    FF_FREE(*np);
}
