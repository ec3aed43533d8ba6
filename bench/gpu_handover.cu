/* Does compute-sanitizer's racecheck follow the hand-overs of globe_wgmma? Three blocks' worth of the smallest kernels that
 * hand shared memory from warps to warps as it does, each correct by the memory model of PTX, and one that is wrong:
 *
 *   all     every lane of the writing warps arrives on the mbarrier
 *   one     lane 0 arrives for its warp after __syncwarp, which orders the other lanes' stores before it
 *   copy    a bulk copy fills the memory; readers wait for its transaction bytes, and free it by lane 0's arrival
 *   wrong   as one, and nobody waits
 *
 *   compute-sanitizer --tool racecheck build/bench/gpu_handover MODE
 *
 * Where racecheck reports `one` or `copy` as it does `wrong`, its reports on globe_wgmma say nothing; `all` shows whether it
 * follows mbarriers at all. */
#include "ff_sm90.cuh"

#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

enum { ALL, ONE, COPY, WRONG, TILES = 64, ROWS = 64 };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
/* Warps 0 and 1 fill ROWS words a tile, warps 2 and 3 read words that the other lanes wrote. */
template <int MODE> static __global__ void __launch_bounds__(128) hand_over(const int *in, int *out)
{
    __shared__ __align__(128) int tile[ROWS];
    __shared__ __align__(8) uint64_t bar[2]; /* ready, taken */
    uint32_t ready = smem_u32(&bar[0]), taken = smem_u32(&bar[1]);
    int lane = threadIdx.x % 32, half = threadIdx.x % 64, sum = 0;
    bool writes = threadIdx.x < 64;
    if (threadIdx.x == 0) {
        mbar_init(ready, MODE == ALL ? 64 : MODE == COPY ? 1 : 2);
        mbar_init(taken, MODE == ALL ? 64 : 2);
        mbar_init_fence();
    }
    __syncthreads();
    for (int k = 0; k < TILES; k++) {
        if (writes) {
            if (k > 0 && MODE != WRONG) mbar_wait(taken, (uint32_t)(k - 1) & 1);
            if (MODE == COPY) {
                if (threadIdx.x == 0) {
                    mbar_expect(ready, ROWS * 4);
                    bulk_load(smem_u32(tile), in + k * ROWS, ROWS * 4, ready);
                }
            } else {
                tile[half] = in[k * ROWS + half];
                __syncwarp();
                if (MODE == ALL || lane == 0) mbar_arrive(ready);
            }
        } else {
            if (MODE != WRONG) mbar_wait(ready, (uint32_t)k & 1);
            sum += tile[ROWS - 1 - half];
            __syncwarp();
            if (MODE == ALL || lane == 0) mbar_arrive(taken);
        }
    }
    if (!writes) out[half] = sum;
}
#else
template <int MODE> static __global__ void hand_over(const int *, int *) {}
#endif

int main(int argc, char **argv)
{
    static const char *const name[] = {"all", "one", "copy", "wrong"};
    int h[TILES * ROWS], got[ROWS], *in, *out, mode = -1, bad = 0;
    for (int k = 0; k < 4; k++)
        if (argc > 1 && strcmp(argv[1], name[k]) == 0) mode = k;
    if (mode < 0) {
        fprintf(stderr, "usage: gpu_handover all|one|copy|wrong\n");
        return argc > 1 ? 2 : 0;
    }
    for (int k = 0; k < TILES * ROWS; k++) h[k] = k * 7919 % 1000;
    if (cudaMalloc(&in, sizeof h) != cudaSuccess || cudaMalloc(&out, sizeof got) != cudaSuccess) return 1;
    if (cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice) != cudaSuccess) return 1;
    if (mode == ALL) hand_over<ALL><<<1, 128>>>(in, out);
    if (mode == ONE) hand_over<ONE><<<1, 128>>>(in, out);
    if (mode == COPY) hand_over<COPY><<<1, 128>>>(in, out);
    if (mode == WRONG) hand_over<WRONG><<<1, 128>>>(in, out);
    cudaError_t e = cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost);
    for (int i = 0; i < ROWS; i++) {
        int sum = 0;
        for (int k = 0; k < TILES; k++) sum += h[k * ROWS + ROWS - 1 - i];
        bad += sum != got[i];
    }
    printf("%s: %s, %d wrong sums\n", name[mode], cudaGetErrorString(e), bad);
    return e != cudaSuccess || (bad != 0 && mode != WRONG);
}
