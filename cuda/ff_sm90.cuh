/* Thin wrappers over the Hopper instructions that the fused kernels use: mbarrier, bulk copies to shared memory,
 * wgmma with the A operand in registers or in shared memory. Only device code compiled for sm_90a may call them.
 *
 * Shared-memory operands of wgmma are kept in the plain (not swizzled) K-major layout: core matrices of 8 rows x
 * 16 bytes, each 128 contiguous bytes, so that the host can pack an image once and a one-dimensional bulk copy
 * brings it in: no tensor maps, no driver entry points. */
#ifndef FF_SM90_CUH
#define FF_SM90_CUH

#include <stdint.h>

#define FF_DEV static __device__ __forceinline__

FF_DEV uint32_t smem_u32(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- mbarrier ---- */
FF_DEV void mbar_init(uint32_t bar, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
FF_DEV void mbar_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
FF_DEV void mbar_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
FF_DEV void mbar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
/* Returns once the phase of this parity has completed. */
FF_DEV void mbar_wait(uint32_t bar, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra ready;\n"
                 "bra again;\n"
                 "ready:\n"
                 "}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

/* bytes: multiple of 16; completes on bar as transaction bytes. */
FF_DEV void bulk_load(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
        "l"(src), "r"(bytes), "r"(bar)
        : "memory");
}
/* Ordinary shared-memory stores become visible to wgmma and bulk copies. */
FF_DEV void fence_async_proxy(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- wgmma ---- */
FF_DEV void wg_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
FF_DEV void wg_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> FF_DEV void wg_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/* Keeps the compiler from reading accumulators before the wait that precedes this line. */
template <int N> FF_DEV void wg_pin(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

/* Descriptor of a K-major operand without swizzle: k_stride, mn_stride = bytes between core matrices. */
FF_DEV uint64_t wg_desc(uint32_t addr, uint32_t k_stride, uint32_t mn_stride)
{
#ifdef FF_DESC_SWAP
    uint32_t t = k_stride;
    k_stride = mn_stride;
    mn_stride = t;
#endif
    return (uint64_t)((addr & 0x3ffff) >> 4) | (uint64_t)(k_stride >> 4) << 16 |
           (uint64_t)(mn_stride >> 4) << 32;
}

/* Operand lists: S<N> names N/2 accumulators, O<N> binds them. */
#define FF_S4(a, b, c, d) "%" #a ",%" #b ",%" #c ",%" #d
#define FF_S8             FF_S4(0, 1, 2, 3)
#define FF_S16            FF_S8 "," FF_S4(4, 5, 6, 7)
#define FF_S24            FF_S16 "," FF_S4(8, 9, 10, 11)
#define FF_S32            FF_S24 "," FF_S4(12, 13, 14, 15)
#define FF_S40            FF_S32 "," FF_S4(16, 17, 18, 19)
#define FF_S48            FF_S40 "," FF_S4(20, 21, 22, 23)
#define FF_S56            FF_S48 "," FF_S4(24, 25, 26, 27)
#define FF_S64            FF_S56 "," FF_S4(28, 29, 30, 31)
#define FF_S72            FF_S64 "," FF_S4(32, 33, 34, 35)
#define FF_S80            FF_S72 "," FF_S4(36, 37, 38, 39)
#define FF_S88            FF_S80 "," FF_S4(40, 41, 42, 43)
#define FF_S96            FF_S88 "," FF_S4(44, 45, 46, 47)
#define FF_S104           FF_S96 "," FF_S4(48, 49, 50, 51)
#define FF_S112           FF_S104 "," FF_S4(52, 53, 54, 55)
#define FF_S120           FF_S112 "," FF_S4(56, 57, 58, 59)
#define FF_S128           FF_S120 "," FF_S4(60, 61, 62, 63)
#define FF_S136           FF_S128 "," FF_S4(64, 65, 66, 67)
#define FF_S144           FF_S136 "," FF_S4(68, 69, 70, 71)
#define FF_S152           FF_S144 "," FF_S4(72, 73, 74, 75)
#define FF_S160           FF_S152 "," FF_S4(76, 77, 78, 79)
#define FF_S168           FF_S160 "," FF_S4(80, 81, 82, 83)
#define FF_S176           FF_S168 "," FF_S4(84, 85, 86, 87)
#define FF_S184           FF_S176 "," FF_S4(88, 89, 90, 91)
#define FF_S192           FF_S184 "," FF_S4(92, 93, 94, 95)
#define FF_S200           FF_S192 "," FF_S4(96, 97, 98, 99)
#define FF_S208           FF_S200 "," FF_S4(100, 101, 102, 103)
#define FF_S216           FF_S208 "," FF_S4(104, 105, 106, 107)
#define FF_S224           FF_S216 "," FF_S4(108, 109, 110, 111)
#define FF_S232           FF_S224 "," FF_S4(112, 113, 114, 115)
#define FF_S240           FF_S232 "," FF_S4(116, 117, 118, 119)
#define FF_S248           FF_S240 "," FF_S4(120, 121, 122, 123)
#define FF_S256           FF_S248 "," FF_S4(124, 125, 126, 127)
#define FF_O8             "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define FF_O16            FF_O8, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define FF_O24            FF_O16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define FF_O32            FF_O24, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define FF_O40            FF_O32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define FF_O48            FF_O40, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define FF_O56            FF_O48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define FF_O64            FF_O56, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define FF_O72            FF_O64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define FF_O80            FF_O72, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define FF_O88            FF_O80, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define FF_O96            FF_O88, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define FF_O104           FF_O96, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define FF_O112           FF_O104, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define FF_O120           FF_O112, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define FF_O128           FF_O120, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define FF_O136           FF_O128, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define FF_O144           FF_O136, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define FF_O152           FF_O144, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define FF_O160           FF_O152, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define FF_O168           FF_O160, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define FF_O176           FF_O168, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define FF_O184           FF_O176, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define FF_O192           FF_O184, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define FF_O200           FF_O192, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define FF_O208           FF_O200, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define FF_O216           FF_O208, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define FF_O224           FF_O216, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define FF_O232           FF_O224, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define FF_O240           FF_O232, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define FF_O248           FF_O240, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define FF_O256           FF_O248, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

template <int N> struct ff_wg; /* one row a column count: rs_bf16, ss_bf16, rs_tf32, ss_tf32 */

/* P0 .. P4: operand numbers after the N/2 accumulators. d += a * b^T; a from registers (rs) or memory (ss). */
#define FF_WG(N, P0, P1, P2, P3, P4)                                                                         \
    template <> struct ff_wg<N> {                                                                            \
        FF_DEV void rs_bf16(float (&d)[N / 2], const uint32_t *a, uint64_t b)                                \
        {                                                                                                    \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                          \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" FF_S##N                \
                         "}, "                                                                               \
                         "{%" #P0 ",%" #P1 ",%" #P2 ",%" #P3 "}, %" #P4 ", p, 1, 1, 0;\n}"                   \
                         : FF_O##N                                                                           \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                              \
        }                                                                                                    \
        FF_DEV void ss_bf16(float (&d)[N / 2], uint64_t a, uint64_t b)                                       \
        {                                                                                                    \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                          \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" FF_S##N                \
                         "}, "                                                                               \
                         "%" #P0 ", %" #P1 ", p, 1, 1, 0, 0;\n}"                                             \
                         : FF_O##N                                                                           \
                         : "l"(a), "l"(b));                                                                  \
        }                                                                                                    \
        FF_DEV void rs_tf32(float (&d)[N / 2], const uint32_t *a, uint64_t b)                                \
        {                                                                                                    \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                          \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" FF_S##N                 \
                         "}, "                                                                               \
                         "{%" #P0 ",%" #P1 ",%" #P2 ",%" #P3 "}, %" #P4 ", p, 1, 1;\n}"                      \
                         : FF_O##N                                                                           \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                              \
        }                                                                                                    \
        FF_DEV void ss_tf32(float (&d)[N / 2], uint64_t a, uint64_t b)                                       \
        {                                                                                                    \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                          \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" FF_S##N                 \
                         "}, "                                                                               \
                         "%" #P0 ", %" #P1 ", p, 1, 1;\n}"                                                   \
                         : FF_O##N                                                                           \
                         : "l"(a), "l"(b));                                                                  \
        }                                                                                                    \
    };
FF_WG(8, 4, 5, 6, 7, 8)
FF_WG(16, 8, 9, 10, 11, 12)
FF_WG(24, 12, 13, 14, 15, 16)
FF_WG(32, 16, 17, 18, 19, 20)
FF_WG(40, 20, 21, 22, 23, 24)
FF_WG(48, 24, 25, 26, 27, 28)
FF_WG(56, 28, 29, 30, 31, 32)
FF_WG(64, 32, 33, 34, 35, 36)
FF_WG(72, 36, 37, 38, 39, 40)
FF_WG(80, 40, 41, 42, 43, 44)
FF_WG(88, 44, 45, 46, 47, 48)
FF_WG(96, 48, 49, 50, 51, 52)
FF_WG(104, 52, 53, 54, 55, 56)
FF_WG(112, 56, 57, 58, 59, 60)
FF_WG(120, 60, 61, 62, 63, 64)
FF_WG(128, 64, 65, 66, 67, 68)
FF_WG(136, 68, 69, 70, 71, 72)
FF_WG(144, 72, 73, 74, 75, 76)
FF_WG(152, 76, 77, 78, 79, 80)
FF_WG(160, 80, 81, 82, 83, 84)
FF_WG(168, 84, 85, 86, 87, 88)
FF_WG(176, 88, 89, 90, 91, 92)
FF_WG(184, 92, 93, 94, 95, 96)
FF_WG(192, 96, 97, 98, 99, 100)
FF_WG(200, 100, 101, 102, 103, 104)
FF_WG(208, 104, 105, 106, 107, 108)
FF_WG(216, 108, 109, 110, 111, 112)
FF_WG(224, 112, 113, 114, 115, 116)
FF_WG(232, 116, 117, 118, 119, 120)
FF_WG(240, 120, 121, 122, 123, 124)
FF_WG(248, 124, 125, 126, 127, 128)
FF_WG(256, 128, 129, 130, 131, 132)
#undef FF_WG

#endif
