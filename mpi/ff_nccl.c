#include "ff_nccl.h"

#include "ff_mem.h"

#include <dlfcn.h>
#include <stdio.h>

/* What is used of nccl.h (its binary interface has been stable since 2.4). */
typedef void *nccl_comm;
typedef struct nccl_id {
    char bytes[128];
} nccl_id;
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_UINT8 = 1 };

typedef struct nccl_lib {
    void *handle;
    int (*get_version)(int *);
    int (*get_id)(nccl_id *);
    int (*init_rank)(nccl_comm *, int, nccl_id, int);
    int (*send)(const void *, size_t, int, int, nccl_comm, void *);
    int (*recv)(void *, size_t, int, int, nccl_comm, void *);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*async_error)(nccl_comm, int *);
    int (*give_up)(nccl_comm);
    int (*destroy)(nccl_comm);
    const char *(*error_text)(int);
} nccl_lib;

struct ff_nccl {
    nccl_comm comm;
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
               TAKE(init_rank, "ncclCommInitRank") && TAKE(send, "ncclSend") && TAKE(recv, "ncclRecv") &&
               TAKE(group_start, "ncclGroupStart") && TAKE(group_end, "ncclGroupEnd") &&
               TAKE(async_error, "ncclCommGetAsyncError") && TAKE(give_up, "ncclCommAbort") &&
               TAKE(destroy, "ncclCommDestroy") && TAKE(error_text, "ncclGetErrorString");
    if (!all) missing = "libnccl.so.2 is too old: point-to-point messages need NCCL 2.7 or later";
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

ff_status ff_nccl_create(ff_comm *comm, ff_nccl **out)
{
    ff_status st = FF_OK;
    nccl_id id = {{0}};
    ff_nccl *n = NULL;
    *out = NULL;
    if (!open_library())
        st = ff_fail(FF_E_UNSUPPORTED, "NCCL: %s; --transport mpi works without it", missing);
    if (st == FF_OK && comm->rank == 0) st = check(lib.get_id(&id), "ncclGetUniqueId");
    FF_TRY(ff_agree(comm, st));
    FF_TRY(FF_NEW0_ALL(comm, n, 1));
    FF_GO(ff_comm_bcast(comm, &id, sizeof id, 0));
    FF_GO(ff_agree(comm, check(lib.init_rank(&n->comm, comm->size, id, comm->rank), "ncclCommInitRank")));
    *out = n;
    n = NULL;
done:
    if (n != NULL && n->comm != NULL) (void)lib.give_up(n->comm);
    ff_free(n);
    return st;
}

void ff_nccl_destroy(ff_nccl **np)
{
    if (*np == NULL) return;
    if ((*np)->comm != NULL) (void)lib.destroy((*np)->comm);
    FF_FREE(*np);
}

ff_status ff_nccl_exchange(ff_nccl *n, const ff_msg *send, int n_send, const ff_msg *recv, int n_recv,
                           void *stream)
{
    if (n->comm == NULL) return ff_fail(FF_E_COMM, "NCCL: the communicator has been given up");
    FF_TRY(check(lib.group_start(), "ncclGroupStart"));
    ff_status st = FF_OK;
    for (int i = 0; i < n_send && st == FF_OK; i++)
        if (send[i].bytes > 0)
            st = check(lib.send(send[i].buf, send[i].bytes, NCCL_UINT8, send[i].peer, n->comm, stream),
                       "ncclSend");
    for (int i = 0; i < n_recv && st == FF_OK; i++)
        if (recv[i].bytes > 0)
            st = check(lib.recv(recv[i].buf, recv[i].bytes, NCCL_UINT8, recv[i].peer, n->comm, stream),
                       "ncclRecv");
    ff_status ended = check(lib.group_end(), "ncclGroupEnd");
    return st != FF_OK ? st : ended;
}

ff_status ff_nccl_check(ff_nccl *n)
{
    int state = NCCL_SUCCESS;
    if (n->comm == NULL) return ff_fail(FF_E_COMM, "NCCL: the communicator has been given up");
    FF_TRY(check(lib.async_error(n->comm, &state), "ncclCommGetAsyncError"));
    return check(state, "an exchange");
}

void ff_nccl_abort(ff_nccl *n)
{
    if (n->comm != NULL) (void)lib.give_up(n->comm);
    n->comm = NULL;
}
