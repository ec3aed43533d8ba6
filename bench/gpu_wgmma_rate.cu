/* Issue rate of wgmma by column count and A operand (registers or shared memory), one or two warpgroups an SM.
 *   nvcc -std=c++17 -O3 -Icuda -gencode arch=compute_90a,code=sm_90a -o gpu_wgmma_rate bench/gpu_wgmma_rate.cu
 * Why: pair_globe_fwd chains layers through the registers; this says which column count keeps the tensor cores busy. */
#include "ff_sm90.cuh"

#include <cuda_runtime.h>
#include <stdio.h>

enum { STEPS = 16, LOOPS = 400 };

template <int N, int KIND>
static __global__ void __launch_bounds__(256, 1) rate(long long *clocks, float *sink)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char shared[];
    for (int i = (int)threadIdx.x; i < 16384; i += (int)blockDim.x)
        ((uint32_t *)shared)[i] = 0x3c003c00u + i % 7;
    fence_async_proxy();
    __syncthreads();
    float d[N / 2];
    uint32_t a[STEPS * 4];
#pragma unroll
    for (int i = 0; i < N / 2; i++) d[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < STEPS * 4; i++) a[i] = 0x3c003c00u + threadIdx.x * 3 + i;
    uint32_t base = smem_u32(shared);
    long long t0 = clock64();
    for (int l = 0; l < LOOPS; l++) {
        wg_fence();
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            uint64_t b = wg_desc(base + s % 4 * N * 32, N * 16, 128);
            if (KIND == 0)
                ff_wg<N>::rs_bf16(d, a + 4 * s, b);
            else
                ff_wg<N>::ss_bf16(d, wg_desc(base + 32768 + s % 4 * 2048, 1024, 128), b);
        }
        wg_commit();
        wg_wait<0>();
    }
    long long t1 = clock64();
    float x = 0.0f;
#pragma unroll
    for (int i = 0; i < N / 2; i++) x += d[i];
    sink[blockIdx.x * 256 + threadIdx.x] = x;
    if (threadIdx.x == 0 && blockIdx.x == 0) *clocks = t1 - t0;
#endif
}

template <int N, int KIND> static void measure(long long *d_clocks, float *sink)
{
    cudaFuncSetAttribute(rate<N, KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
    for (int groups = 1; groups <= 2; groups++) {
        long long clocks = 0;
        for (int k = 0; k < 2; k++) rate<N, KIND><<<132, 128 * groups, 65536>>>(d_clocks, sink);
        cudaMemcpy(&clocks, d_clocks, sizeof clocks, cudaMemcpyDeviceToHost);
        double per = (double)clocks / LOOPS / STEPS / groups;
        printf("n%-3d A in %-9s %d warpgroup(s): %6.1f clocks a product, ideal %5.1f, %5.1f %%  %s\n", N,
               KIND == 0 ? "registers" : "memory", groups, per, N * 0.5, 50.0 * N / per,
               cudaGetErrorString(cudaGetLastError()));
    }
}

int main(void)
{
    long long *d;
    float *sink;
    cudaMalloc((void **)&d, sizeof *d);
    cudaMalloc((void **)&sink, 132 * 256 * sizeof *sink);
    measure<32, 0>(d, sink);
    measure<64, 0>(d, sink);
    measure<96, 0>(d, sink);
    measure<112, 0>(d, sink);
    measure<128, 0>(d, sink);
    measure<192, 0>(d, sink);
    measure<64, 1>(d, sink);
    measure<128, 1>(d, sink);
    return 0;
}
