/* Thin wrappers over the tensor-core instructions of sm_80 and later: ldmatrix, mma.sync, cp.async, named barriers.
 * One k step is 32 bytes of a row for every format, so that the same ldmatrix serves bf16 (k 16) and TF32 (k 8). */
#ifndef FF_MMA_CUH
#define FF_MMA_CUH

#include "ff_cuda.h"
#include "ff_round.cuh"

#include <stdint.h>

#ifndef FF_DEV
#define FF_DEV static __device__ __forceinline__
#endif

FF_DEV uint32_t mma_shared(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Four 8 x 16-byte matrices; lane l gives the row address of matrix l / 8. volatile: stays behind the barrier. */
FF_DEV void ldmatrix4(uint32_t (&r)[4], uint32_t addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr)
                 : "memory");
}
FF_DEV void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FF_DEV void mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

FF_DEV void cp_async16(uint32_t dst, const void *src)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
FF_DEV void cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> FF_DEV void cp_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

FF_DEV void bar_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
FF_DEV void bar_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* acc += P Q^T of one k step: PT tiles of 16 rows, QP pairs of 8-row tiles. p, q: this lane's ldmatrix addresses.
 * FULL: every pair of Q counts, else only the first live_q. F32: both operands are split into two TF32 parts;
 * each step is summed from zero and added in float32, since the tensor cores round sums toward zero. */
template <int PREC, int PT, int QP, bool FULL>
FF_DEV void mma_step(float (&acc)[PT][2 * QP][4], uint32_t p, uint32_t p_step, uint32_t q, uint32_t q_step,
                     int live_q)
{
    uint32_t a[PT][4], low[PREC == FF_CUDA_F32 ? PT : 1][4];
#pragma unroll
    for (int i = 0; i < PT; i++) {
        ldmatrix4(a[i], p + (uint32_t)i * p_step);
        if constexpr (PREC == FF_CUDA_F32) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float x = __uint_as_float(a[i][k]);
                a[i][k] = to_tf32_rn(x);
                low[i][k] = to_tf32_rn(x - __uint_as_float(a[i][k]));
            }
        }
    }
#pragma unroll
    for (int j = 0; j < QP; j++) {
        if (!FULL && j >= live_q) break;
        uint32_t b[4];
        ldmatrix4(b, q + (uint32_t)j * q_step);
        if constexpr (PREC == FF_CUDA_F32) {
            uint32_t c[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float x = __uint_as_float(b[k]);
                b[k] = to_tf32_rn(x);
                c[k] = to_tf32_rn(x - __uint_as_float(b[k]));
            }
            float e[PT][2][4]; /* one part after the other: independent products follow each other */
#pragma unroll
            for (int i = 0; i < PT; i++)
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int k = 0; k < 4; k++) e[i][h][k] = 0.0f;
#pragma unroll
            for (int i = 0; i < PT; i++)
#pragma unroll
                for (int h = 0; h < 2; h++) mma_tf32(e[i][h], low[i], b[2 * h], b[2 * h + 1]);
#pragma unroll
            for (int i = 0; i < PT; i++)
#pragma unroll
                for (int h = 0; h < 2; h++) mma_tf32(e[i][h], a[i], c[2 * h], c[2 * h + 1]);
#pragma unroll
            for (int i = 0; i < PT; i++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    mma_tf32(e[i][h], a[i], b[2 * h], b[2 * h + 1]);
#pragma unroll
                    for (int k = 0; k < 4; k++) acc[i][2 * j + h][k] += e[i][h][k];
                }
        } else {
#pragma unroll
            for (int i = 0; i < PT; i++) {
        #pragma unroll
                for (int h = 0; h < 2; h++) {
                    if constexpr (PREC == FF_CUDA_BF16)
                        mma_bf16(acc[i][2 * j + h], a[i], b[2 * h], b[2 * h + 1]);
                    else
                        mma_tf32(acc[i][2 * j + h], a[i], b[2 * h], b[2 * h + 1]);
                }
            }
        }
    }
}

#endif
