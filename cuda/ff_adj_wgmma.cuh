/* wgmma of the wide adjoint: both operands in shared memory, d += a b^T. */
#ifndef FF_ADJ_WGMMA_CUH
#define FF_ADJ_WGMMA_CUH

#include "ff_sm90.cuh"

template <int N> struct adj_wg; /* kk: both K-major; mm: both read transposed; mk: a transposed */

#define ADJ_WG_ONE(NAME, N, P0, P1, TA, TB)                                                                  \
    FF_DEV void NAME(float(&d)[N / 2], uint64_t a, uint64_t b)                                               \
    {                                                                                                        \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                              \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" FF_S##N                    \
                     "}, "                                                                                   \
                     "%" #P0 ", %" #P1 ", p, 1, 1, " #TA ", " #TB ";\n}"                                     \
                     : FF_O##N                                                                               \
                     : "l"(a), "l"(b));                                                                      \
    }
#define ADJ_WG(N, P0, P1)                                                                                    \
    template <> struct adj_wg<N> {                                                                           \
        ADJ_WG_ONE(kk, N, P0, P1, 0, 0)                                                                      \
        ADJ_WG_ONE(mm, N, P0, P1, 1, 1)                                                                      \
        ADJ_WG_ONE(mk, N, P0, P1, 1, 0)                                                                      \
    };
ADJ_WG(8, 4, 5)
ADJ_WG(32, 16, 17)
ADJ_WG(112, 56, 57)
ADJ_WG(256, 128, 129)
#undef ADJ_WG
#undef ADJ_WG_ONE

/* A place in a ring of N stages in shared memory, and the phase its barriers are waited for with. */
typedef struct adj_ring {
    uint32_t stage, phase;
} adj_ring;

template <int N> FF_DEV void adj_ring_next(adj_ring &r)
{
    if (++r.stage == N) {
        r.stage = 0;
        r.phase ^= 1;
    }
}

/* bytes: multiple of 16. Reads of the source are done after bulk_read_done, all of it after bulk_all_done (the issuing
 * thread). */
FF_DEV void bulk_store(void *dst, uint32_t src, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;" ::"l"(dst),
                 "r"(src), "r"(bytes)
                 : "memory");
}
FF_DEV void bulk_read_done(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
FF_DEV void bulk_all_done(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Four core matrices from accumulators' layout; lane l gives the address of row l % 8 of matrix l / 8. */
FF_DEV void stmatrix4(uint32_t addr, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(addr), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
}

template <int R> FF_DEV void adj_regs_up(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(R));
}
template <int R> FF_DEV void adj_regs_down(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(R));
}

#endif
