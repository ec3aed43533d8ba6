/* Primitives of src/kernel/ff_adj_tile.h on the device (the host's, for its test: ff_adj_host.h). */
#ifndef FF_ADJ_DEVICE_CUH
#define FF_ADJ_DEVICE_CUH

extern "C" {
#include "ff_adj_cfg.h"
}
#include "ff_globe_math.cuh"
#include "ff_mma.cuh"

#define ADJ_FN                     static __device__ __forceinline__
#define ADJ_LANES                  1
#define ADJ_UNROLL                 _Pragma("unroll")
#define ADJ_EACH_LANE(lane, i)     for (int lane = (int)threadIdx.x & 31, i = 0; i < 1; i++)
#define ADJ_EACH_WARP(n, warp)     for (int warp = (int)threadIdx.x >> 5, once_ = 1; once_; once_ = 0)
#define ADJ_EACH_THREAD(n, thread) for (int thread = (int)threadIdx.x, once_ = 1; once_; once_ = 0)
#define ADJ_BARRIER()              __syncthreads()

ADJ_FN float adj_float(uint32_t u)
{
    return __uint_as_float(u);
}

ADJ_FN uint32_t adj_bits(float x)
{
    return __float_as_uint(x);
}

ADJ_FN uint32_t adj_bf16x2(float lo, float hi)
{
    return to_bf16x2(lo, hi);
}

ADJ_FN uint32_t adj_tf32(float x)
{
    return to_tf32_rn(x);
}

ADJ_FN void adj_load2(const uint32_t *from, uint32_t *to)
{
    uint2 x = __ldg((const uint2 *)from);
    to[0] = x.x;
    to[1] = x.y;
}

ADJ_FN void adj_store2(uint32_t *to, uint32_t x, uint32_t y)
{
    *(uint2 *)to = make_uint2(x, y);
}

ADJ_FN void adj_copy16(uint32_t *to, const uint32_t *from)
{
    cp_async16(mma_shared(to), from);
}

ADJ_FN int64_t adj_add(int64_t *to, int64_t x)
{
    return (int64_t)atomicAdd((unsigned long long *)to, (unsigned long long)x) + x;
}

ADJ_FN float adj_sigmoid2(int prec, float z)
{
    return prec == FF_ADJ_F32 ? 1.0f / (1.0f + exp2f(-z)) : rcp_fast(1.0f + ex2_fast(-z));
}

ADJ_FN float adj_divide(int prec, float a, float b)
{
    return prec == FF_ADJ_F32 ? a / b : __fdividef(a, b);
}

ADJ_FN void adj_sum_rows(float *v)
{
#pragma unroll
    for (int mask = 4; mask < 32; mask *= 2) v[0] += __shfl_xor_sync(0xffffffffu, v[0], mask);
}

/* acc[i][j] += A B of one k step. */
ADJ_FN void adj_mma(int prec, adj_acc *acc, int i, int j, uint32_t (*a)[4], uint32_t (*b)[FF_ADJ_COLS][2])
{
    if (prec == FF_ADJ_BF16) {
        mma_bf16(acc[0][i][j], a[0], b[0][j][0], b[0][j][1]);
    } else if (prec == FF_ADJ_TF32) {
        mma_tf32(acc[0][i][j], a[0], b[0][j][0], b[0][j][1]);
    } else { /* two TF32 parts; summed from zero, since the tensor cores round sums toward zero */
        uint32_t ah[4], al[4], bh[2], bl[2];
        float e[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            ah[k] = to_tf32_rn(adj_float(a[0][k]));
            al[k] = to_tf32_rn(adj_float(a[0][k]) - adj_float(ah[k]));
        }
#pragma unroll
        for (int k = 0; k < 2; k++) {
            bh[k] = to_tf32_rn(adj_float(b[0][j][k]));
            bl[k] = to_tf32_rn(adj_float(b[0][j][k]) - adj_float(bh[k]));
        }
        mma_tf32(e, al, bh[0], bh[1]);
        mma_tf32(e, ah, bl[0], bl[1]);
        mma_tf32(e, ah, bh[0], bh[1]);
#pragma unroll
        for (int k = 0; k < 4; k++) acc[0][i][j][k] += e[k];
    }
}

#endif
