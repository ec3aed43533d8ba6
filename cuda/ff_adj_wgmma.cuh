/* wgmma of the wide adjoint, B in shared memory, d += a b^T. */
#ifndef FF_ADJ_WGMMA_CUH
#define FF_ADJ_WGMMA_CUH

#include "ff_sm90.cuh"

/* kk: both in shared memory, K-major; mm: both read transposed; mk: a transposed; r: a in registers. *_set: d = a b^T. */
template <int N> struct adj_wg;

#define ADJ_SET4(i)  "=f"(d[i]), "=f"(d[(i) + 1]), "=f"(d[(i) + 2]), "=f"(d[(i) + 3])
#define ADJ_SET16(i) ADJ_SET4(i), ADJ_SET4((i) + 4), ADJ_SET4((i) + 8), ADJ_SET4((i) + 12)
#define ADJ_SET32    ADJ_SET16(0)
#define ADJ_SET128   ADJ_SET16(0), ADJ_SET16(16), ADJ_SET16(32), ADJ_SET16(48)
/* P0 ..: operand numbers behind the N/2 accumulators; ADD: 1 adds to them. */
#define ADJ_WG_MEM(NAME, N, P0, P1, ADD, OUT, TA, TB)                                                        \
    FF_DEV void NAME(float(&d)[N / 2], uint64_t a, uint64_t b)                                               \
    {                                                                                                        \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " #ADD ", 0;\n"                                       \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" FF_S##N                    \
                     "}, "                                                                                   \
                     "%" #P0 ", %" #P1 ", p, 1, 1, " #TA ", " #TB ";\n}"                                     \
                     : OUT                                                                                   \
                     : "l"(a), "l"(b));                                                                      \
    }
#define ADJ_WG_REG(NAME, N, P0, P1, P2, P3, P4, ADD, OUT)                                                    \
    FF_DEV void NAME(float(&d)[N / 2], const uint32_t *a, uint64_t b)                                        \
    {                                                                                                        \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " #ADD ", 0;\n"                                       \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" FF_S##N                    \
                     "}, "                                                                                   \
                     "{%" #P0 ",%" #P1 ",%" #P2 ",%" #P3 "}, %" #P4 ", p, 1, 1, 0;\n}"                       \
                     : OUT                                                                                   \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                  \
    }
#define ADJ_WG_TURNED(N, P0, P1)                                                                             \
    ADJ_WG_MEM(mm, N, P0, P1, 1, FF_O##N, 1, 1)                                                              \
    ADJ_WG_MEM(mk, N, P0, P1, 1, FF_O##N, 1, 0)
#define ADJ_WG_LAYER(N, P0, P1, P2, P3, P4)                                                                  \
    ADJ_WG_REG(r, N, P0, P1, P2, P3, P4, 1, FF_O##N)                                                         \
    ADJ_WG_REG(r_set, N, P0, P1, P2, P3, P4, 0, ADJ_SET##N)
template <> struct adj_wg<8> {
    ADJ_WG_TURNED(8, 4, 5)
};
template <> struct adj_wg<32> {
    ADJ_WG_TURNED(32, 16, 17)
    ADJ_WG_LAYER(32, 16, 17, 18, 19, 20)
};
template <> struct adj_wg<128> {
    ADJ_WG_LAYER(128, 64, 65, 66, 67, 68)
    ADJ_WG_MEM(kk, 128, 64, 65, 1, FF_O128, 0, 0)
    ADJ_WG_MEM(kk_set, 128, 64, 65, 0, ADJ_SET128, 0, 0)
};
template <> struct adj_wg<256> {
    ADJ_WG_TURNED(256, 128, 129)
};
#undef ADJ_WG_MEM
#undef ADJ_WG_REG
#undef ADJ_WG_TURNED
#undef ADJ_WG_LAYER

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

template <int R> FF_DEV void adj_regs_up(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(R));
}
template <int R> FF_DEV void adj_regs_down(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(R));
}

#endif
