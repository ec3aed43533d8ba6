#include "ff_mpi_comm.h"

#include "ff_mem.h"
#include "ff_mem_hold.h"
#include "ff_timer.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* MPI 3 counts are int: everything longer goes in pieces. Messages between two ranks do not overtake each
 * other on one communicator, and all ranks start exchanges in one order, so one tag serves every piece of
 * every exchange. */
enum { TAG = 1, TAG_LOST = 2, PIECE_BYTES = 1 << 30 };
/* What is agreed is small. With a limit such calls are made of nonblocking ones, which do not match the others. */
enum { SMALL_BYTES = 4096 };

typedef struct mpi_row {
    MPI_Comm comm;
    size_t piece;       /* bytes */
    int *count, *displ; /* [size] scratch of allgatherv: kept, so that it cannot fail on one rank alone */
    int64_t small[SMALL_BYTES / 8]; /* where small calls work: one given up may still write */
} mpi_row;

struct ff_request {
    int n, cap;
    MPI_Request req[]; /* [cap] */
};

static mpi_row *row_of(const ff_comm *c)
{
    return c->impl;
}

static ff_status check(int rc, const char *what)
{
    if (rc == MPI_SUCCESS) return FF_OK;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int len = 0;
    (void)MPI_Error_string(rc, text, &len);
    return ff_fail(FF_E_COMM, "MPI: %s failed: %s; a rank or the network may be lost, restart the job", what,
                   text);
}

static size_t piece_at(const mpi_row *row, size_t bytes, size_t off)
{
    return bytes - off < row->piece ? bytes - off : row->piece;
}

static ff_status lost(const ff_comm *c)
{
    return ff_fail(FF_E_COMM, "MPI: rank %d: the other ranks are lost", c->rank);
}

/* Calls are under way whose buffers the library may still touch: they stay where they are until the process ends. */
static ff_status lose(ff_comm *c, ff_status st)
{
    if (st == FF_OK) return st;
    c->lost = true;
    ff_mem_hold();
    return st;
}

/* Waits for all; with a limit the calls are tested until it is over, or until as much time as this rank has worked for. */
static ff_status wait_all(ff_comm *c, int n, MPI_Request *req, const char *what)
{
    int done = 0;
    double t0 = ff_now_s(), waited = 0, most = fmax(c->limit_s, t0 - c->met_s);
    if (!(c->limit_s > 0) || c->limit_s == HUGE_VAL)
        return lose(c, check(MPI_Waitall(n, req, MPI_STATUSES_IGNORE), what));
    for (;;) {
        FF_TRY(lose(c, check(MPI_Testall(n, req, &done, MPI_STATUSES_IGNORE), what)));
        waited = ff_now_s() - t0;
        if (done) {
            c->met_s = t0 + waited;
            return FF_OK;
        }
        if (waited > most) break;
        if (waited > 1e-3) (void)nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    return lose(
        c, ff_fail(FF_E_COMM,
                   "rank %d: another rank has not come to an exchange within %.0f s (run.deadline); it is "
                   "lost, or much slower",
                   c->rank, waited));
}

static ff_status mpi_barrier(ff_comm *c)
{
    MPI_Request req;
    if (c->lost) return lost(c);
    if (!(c->limit_s > 0)) return check(MPI_Barrier(row_of(c)->comm), "MPI_Barrier");
    FF_TRY(check(MPI_Ibarrier(row_of(c)->comm, &req), "MPI_Ibarrier"));
    return wait_all(c, 1, &req, "MPI_Ibarrier");
}

static ff_status mpi_bcast(ff_comm *c, void *buf, size_t bytes, int root)
{
    mpi_row *row = row_of(c);
    if (c->lost) return lost(c);
    if (c->limit_s > 0 && bytes > 0 && bytes <= SMALL_BYTES && bytes <= row->piece) {
        MPI_Request req;
        memcpy(row->small, buf, bytes);
        FF_TRY(check(MPI_Ibcast(row->small, (int)bytes, MPI_BYTE, root, row->comm, &req), "MPI_Ibcast"));
        FF_TRY(wait_all(c, 1, &req, "MPI_Ibcast"));
        memcpy(buf, row->small, bytes);
        return FF_OK;
    }
    for (size_t off = 0; off < bytes; off += row->piece)
        FF_TRY(check(MPI_Bcast((char *)buf + off, (int)piece_at(row, bytes, off), MPI_BYTE, root, row->comm),
                     "MPI_Bcast"));
    return FF_OK;
}

static MPI_Datatype type_of(ff_op op)
{
    switch (op) {
    case FF_MIN_F64:
    case FF_MAX_F64:
        return MPI_DOUBLE;
    case FF_MIN_F32:
    case FF_MAX_F32:
        return MPI_FLOAT;
    default:
        return MPI_INT64_T;
    }
}

static MPI_Op op_of(ff_op op)
{
    switch (op) {
    case FF_MIN_I64:
    case FF_MIN_F64:
    case FF_MIN_F32:
        return MPI_MIN;
    case FF_MAX_I64:
    case FF_MAX_F64:
    case FF_MAX_F32:
        return MPI_MAX;
    default:
        return MPI_SUM;
    }
}

static ff_status mpi_allreduce(ff_comm *c, void *buf, int64_t n, ff_op op)
{
    mpi_row *row = row_of(c);
    MPI_Datatype type = type_of(op);
    size_t size = type == MPI_FLOAT ? sizeof(float) : sizeof(int64_t), bytes = (size_t)n * size;
    if (c->lost) return lost(c);
    if (c->limit_s > 0 && n > 0 && bytes <= SMALL_BYTES && bytes <= row->piece) {
        MPI_Request req;
        memcpy(row->small, buf, bytes);
        FF_TRY(check(MPI_Iallreduce(MPI_IN_PLACE, row->small, (int)n, type, op_of(op), row->comm, &req),
                     "MPI_Iallreduce"));
        FF_TRY(wait_all(c, 1, &req, "MPI_Iallreduce"));
        memcpy(buf, row->small, bytes);
        return FF_OK;
    }
    for (size_t off = 0; off < bytes; off += row->piece)
        FF_TRY(check(MPI_Allreduce(MPI_IN_PLACE, (char *)buf + off, (int)(piece_at(row, bytes, off) / size),
                                   type, op_of(op), row->comm),
                     "MPI_Allreduce"));
    return FF_OK;
}

/* Too long for int counts: each rank's part is broadcast in pieces. */
static ff_status allgatherv_long(ff_comm *c, const void *send, size_t bytes, char *recv,
                                 const size_t *recv_bytes)
{
    for (int r = 0; r < c->size; r++) {
        size_t part = recv_bytes != NULL ? recv_bytes[r] : bytes;
        if (r == c->rank && bytes != 0) memcpy(recv, send, bytes);
        FF_TRY(mpi_bcast(c, recv, part, r));
        recv += part;
    }
    return FF_OK;
}

static ff_status mpi_allgatherv(ff_comm *c, const void *send, size_t bytes, void *recv,
                                const size_t *recv_bytes)
{
    mpi_row *row = row_of(c);
    size_t total = 0;
    if (c->lost) return lost(c);
    for (int r = 0; r < c->size; r++) total += recv_bytes != NULL ? recv_bytes[r] : bytes;
    if (total > row->piece) return allgatherv_long(c, send, bytes, recv, recv_bytes);
    for (int r = 0, at = 0; r < c->size; r++) {
        row->count[r] = (int)(recv_bytes != NULL ? recv_bytes[r] : bytes);
        row->displ[r] = at;
        at += row->count[r];
    }
    if (c->limit_s > 0) {
        MPI_Request req;
        bool small = total <= SMALL_BYTES; /* recv may stand on the caller's stack */
        char *to = small ? (char *)row->small : recv;
        if (bytes > 0) memcpy(to + row->displ[c->rank], send, bytes);
        FF_TRY(check(
            MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, to, row->count, row->displ, MPI_BYTE, row->comm, &req),
            "MPI_Iallgatherv"));
        FF_TRY(wait_all(c, 1, &req, "MPI_Iallgatherv"));
        if (small && total > 0) memcpy(recv, to, total);
        return FF_OK;
    }
    return check(
        MPI_Allgatherv(send, (int)bytes, MPI_BYTE, recv, row->count, row->displ, MPI_BYTE, row->comm),
        "MPI_Allgatherv");
}

static size_t n_pieces(const mpi_row *row, size_t bytes)
{
    return (bytes + row->piece - 1) / row->piece;
}

/* Room for all pieces; the ranks agree, since posting on some ranks only would leave those waiting.
 * Collective */
static ff_status request_create(ff_comm *c, size_t n, ff_request **out)
{
    ff_status st = FF_OK;
    *out = NULL;
    if (n > INT32_MAX) st = ff_fail(FF_E_COMM, "MPI: exchange of %zu pieces, expected at most 2^31 - 1", n);
    if (st == FF_OK) {
        *out = ff_mem_alloc(1, sizeof **out + n * sizeof(MPI_Request));
        if (*out == NULL) st = FF_E_MEM;
    }
    if (*out != NULL) (*out)->n = 0, (*out)->cap = (int)n;
    st = ff_agree(c, st);
    if (st != FF_OK) FF_FREE(*out);
    return st;
}

/* A failure among several leaves the communicator lost: the others are posted. */
static ff_status post(ff_comm *c, ff_request *rq, char *buf, size_t bytes, int peer, bool is_send)
{
    const mpi_row *row = row_of(c);
    for (size_t off = 0; off < bytes; off += row->piece) {
        int len = (int)piece_at(row, bytes, off);
        MPI_Request *req = &rq->req[rq->n];
        int rc = is_send ? MPI_Isend(buf + off, len, MPI_BYTE, peer, TAG, row->comm, req)
                         : MPI_Irecv(buf + off, len, MPI_BYTE, peer, TAG, row->comm, req);
        FF_TRY(lose(c, check(rc, is_send ? "MPI_Isend" : "MPI_Irecv")));
        rq->n++;
    }
    return FF_OK;
}

/* Receives first: a message that finds its receive posted is not buffered. */
static ff_status mpi_exchange_begin(ff_comm *c, const ff_msg *send, int n_send, const ff_msg *recv,
                                    int n_recv, ff_request **out)
{
    const mpi_row *row = row_of(c);
    size_t n = 0;
    if (c->lost) return lost(c);
    for (int i = 0; i < n_send; i++) n += n_pieces(row, send[i].bytes);
    for (int i = 0; i < n_recv; i++) n += n_pieces(row, recv[i].bytes);
    FF_TRY(request_create(c, n, out));
    ff_status st = FF_OK;
    for (int i = 0; i < n_recv && st == FF_OK; i++)
        st = post(c, *out, recv[i].buf, recv[i].bytes, recv[i].peer, false);
    for (int i = 0; i < n_send && st == FF_OK; i++)
        st = post(c, *out, send[i].buf, send[i].bytes, send[i].peer, true);
    if (st != FF_OK) FF_FREE(*out);
    return st;
}

static ff_status mpi_exchange_end(ff_comm *c, ff_request **req)
{
    ff_status st = wait_all(c, (*req)->n, (*req)->req, "MPI_Waitall");
    FF_FREE(*req);
    return st;
}

/* Point to point, so that nobody needs to know whether another rank's total exceeds an int count, and zero
 * counts cost nothing. */
static ff_status mpi_alltoallv(ff_comm *c, const void *send, const size_t *send_bytes, void *recv,
                               const size_t *recv_bytes)
{
    const mpi_row *row = row_of(c);
    size_t n = 0;
    for (int r = 0; r < c->size; r++)
        if (r != c->rank) n += n_pieces(row, send_bytes[r]) + n_pieces(row, recv_bytes[r]);
    ff_request *rq = NULL;
    if (c->lost) return lost(c);
    FF_TRY(request_create(c, n, &rq));
    ff_status st = FF_OK;
    char *to = recv, *own_to = NULL;
    for (int r = 0; r < c->size && st == FF_OK; to += recv_bytes[r++])
        if (r == c->rank)
            own_to = to;
        else
            st = post(c, rq, to, recv_bytes[r], r, false);
    /* MPI_Isend does not write its buffer; MPI 3 takes it as const. */
    char *from = (char *)(uintptr_t)send;
    for (int r = 0; r < c->size && st == FF_OK; from += send_bytes[r++])
        if (r != c->rank)
            st = post(c, rq, from, send_bytes[r], r, true);
        else if (send_bytes[r] != 0)
            memcpy(own_to, from, send_bytes[r]);
    if (st == FF_OK) return mpi_exchange_end(c, &rq);
    ff_free(rq);
    return st;
}

/* On a lost communicator calls are under way: it stays, and so does memory, which is held (lose). */
static void mpi_destroy(ff_comm *c)
{
    mpi_row *row = row_of(c);
    if (row != NULL) {
        if (!c->lost) (void)MPI_Comm_free(&row->comm);
        ff_free(row->count);
        ff_free(row->displ);
        ff_free(row);
    }
    ff_free(c);
}

static ff_status mpi_split(ff_comm *c, int colour, ff_comm **out);

static const ff_comm_ops mpi_ops = {"mpi",          mpi_barrier,   mpi_bcast,          mpi_allreduce,
                                    mpi_allgatherv, mpi_alltoallv, mpi_exchange_begin, mpi_exchange_end,
                                    mpi_split,      mpi_destroy};

static ff_status row_create(MPI_Comm comm, ff_comm **out)
{
    ff_status st = FF_OK;
    ff_comm *c = NULL;
    mpi_row *row = NULL;
    int rank = 0, size = 1;
    FF_GO(check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank"));
    FF_GO(check(MPI_Comm_size(comm, &size), "MPI_Comm_size"));
    FF_GO(FF_NEW0(c, 1));
    FF_GO(FF_NEW0(row, 1));
    FF_GO(FF_NEW(row->count, size));
    FF_GO(FF_NEW(row->displ, size));
    row->comm = comm;
    row->piece = PIECE_BYTES;
    *c = (ff_comm){.ops = &mpi_ops, .rank = rank, .size = size, .impl = row};
    *out = c;
done:
    if (st != FF_OK) {
        if (row != NULL) ff_free(row->count), ff_free(row->displ);
        ff_free(row);
        ff_free(c);
    }
    return st;
}

/* Takes comm over, on success and on failure. Collective over comm: a rank without memory has no communicator to agree
 * with, so ff_agree is of no use. */
static ff_status adopt(MPI_Comm mine, ff_comm **out)
{
    (void)MPI_Comm_set_errhandler(mine, MPI_ERRORS_RETURN);
    ff_status st = row_create(mine, out);
    int64_t failed = st != FF_OK;
    ff_status agreed =
        check(MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT64_T, MPI_MAX, mine), "MPI_Allreduce");
    if (agreed == FF_OK && failed == 0) return FF_OK;
    if (*out == NULL) (void)MPI_Comm_free(&mine);
    ff_comm_destroy(out);
    if (agreed != FF_OK) return agreed;
    return ff_fail(FF_E_MEM, "MPI: another rank has no memory left for a communicator");
}

static ff_status mpi_split(ff_comm *c, int colour, ff_comm **out)
{
    MPI_Comm mine = MPI_COMM_NULL;
    if (c->lost) return lost(c);
    FF_TRY(check(MPI_Comm_split(row_of(c)->comm, colour, c->rank, &mine), "MPI_Comm_split"));
    return adopt(mine, out);
}

ff_status ff_mpi_comm_create(MPI_Comm comm, ff_comm **out)
{
    *out = NULL;
    int up = 0;
    FF_TRY(check(MPI_Initialized(&up), "MPI_Initialized"));
    if (!up || comm == MPI_COMM_NULL)
        return ff_fail(FF_E_ARG, "ff_mpi_comm_create: %s; call MPI_Init first and pass a valid communicator",
                       up ? "comm is MPI_COMM_NULL" : "MPI is not initialised");
    MPI_Comm mine = MPI_COMM_NULL;
    FF_TRY(check(MPI_Comm_dup(comm, &mine), "MPI_Comm_dup"));
    return adopt(mine, out);
}

void ff_mpi_comm_destroy(ff_comm **comm)
{
    ff_comm_destroy(comm);
}

void ff_mpi_abort(int code)
{
    (void)MPI_Abort(MPI_COMM_WORLD, code);
}

static bool started_here;

ff_status ff_mpi_start(int *argc, char ***argv, ff_comm **world)
{
    *world = NULL;
    int up = 0, level = 0;
    FF_TRY(check(MPI_Initialized(&up), "MPI_Initialized"));
    if (!up) FF_TRY(check(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread"));
    started_here = !up;
    return ff_mpi_comm_create(MPI_COMM_WORLD, world);
}

void ff_mpi_stop(ff_comm **world)
{
    ff_comm_destroy(world);
    if (started_here) (void)MPI_Finalize();
    started_here = false;
}

MPI_Comm ff_mpi_comm_handle(const ff_comm *comm)
{
    return comm->ops == &mpi_ops ? row_of(comm)->comm : MPI_COMM_SELF;
}

/* Of the ranks that have lost the others, the first tells. */
bool ff_mpi_comm_speaks(ff_comm *comm)
{
    if (comm->ops != &mpi_ops || !comm->lost) return comm->rank == 0;
    MPI_Comm world = row_of(comm)->comm;
    MPI_Request req;
    for (int r = comm->rank + 1; r < comm->size; r++) /* a word without a content: never waited for */
        if (MPI_Isend(NULL, 0, MPI_BYTE, r, TAG_LOST, world, &req) != MPI_SUCCESS) return true;
    for (double t0 = ff_now_s(); ff_now_s() - t0 < 1 && comm->rank > 0;) {
        int heard = 0;
        if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_LOST, world, &heard, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return true;
        if (heard) return false;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

void ff_mpi_comm_set_piece(ff_comm *comm, size_t bytes)
{
    if (comm->ops == &mpi_ops) row_of(comm)->piece = bytes;
}
