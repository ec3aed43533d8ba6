/* Box of the points and their order along a Hilbert curve.
 *
 * sum_box_parts, sum_box_whole, sum_keys, CUB radix sort, sum_refine
 * Work    a thread a point; a block combines 256 boxes; sum_refine: 512 threads 4096 points
 * Shapes  x [n][dim] f64; keys u64, order i32
 * Order   minima and maxima: any order gives the same; the sort is stable, ties go by index
 * Bytes   a point: 8 dim read twice, 12 written, 24 for each pass of the sort (one for 8 bits of the key)
 * Oracle  tests/gpu/test_sum.c: the order is a permutation; every sum depends on it */
#include "sum.cuh"

#include <cub/block/block_radix_sort.cuh>
#include <cub/device/device_radix_sort.cuh>

static constexpr int BOX_BLOCKS = 1024;

/* lo, then hi, of this block's share; slot 6: least index that is not finite. */
static __global__ void __launch_bounds__(256)
    sum_box_parts(const double *x, int64_t n, int dim, double *part, unsigned long long *bad)
{
    __shared__ double all[6][256];
    double box[6] = {HUGE_VAL, HUGE_VAL, HUGE_VAL, -HUGE_VAL, -HUGE_VAL, -HUGE_VAL};
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < n; i += (int64_t)gridDim.x * 256)
        for (int d = 0; d < dim; d++) {
            const double v = x[i * dim + d];
            if (!isfinite(v)) atomicMin(bad, (unsigned long long)(i * dim + d));
            box[d] = fmin(box[d], v);
            box[3 + d] = fmax(box[3 + d], v);
        }
    for (int c = 0; c < 6; c++) all[c][threadIdx.x] = box[c];
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        for (int c = 0; c < 6 && threadIdx.x < half; c++) {
            const double a = all[c][threadIdx.x], b = all[c][threadIdx.x + half];
            all[c][threadIdx.x] = c < 3 ? fmin(a, b) : fmax(a, b);
        }
    }
    __syncthreads();
    if (threadIdx.x < 6) part[6 * blockIdx.x + threadIdx.x] = all[threadIdx.x][0];
}

/* One block: box of all parts. */
static __global__ void __launch_bounds__(BOX_BLOCKS)
    sum_box_whole(const double *part, int n, sum_frame *frame)
{
    __shared__ double all[6][BOX_BLOCKS];
    for (int c = 0; c < 6; c++)
        all[c][threadIdx.x] = threadIdx.x < n ? part[6 * threadIdx.x + c] : c < 3 ? HUGE_VAL : -HUGE_VAL;
    if (threadIdx.x < n && n > BOX_BLOCKS)
        for (int c = 0; c < 6; c++) {
            const double b =
                threadIdx.x + BOX_BLOCKS < n ? part[6 * (threadIdx.x + BOX_BLOCKS) + c] : all[c][threadIdx.x];
            all[c][threadIdx.x] = c < 3 ? fmin(all[c][threadIdx.x], b) : fmax(all[c][threadIdx.x], b);
        }
    for (int half = BOX_BLOCKS / 2; half > 0; half /= 2) {
        __syncthreads();
        for (int c = 0; c < 6 && threadIdx.x < half; c++) {
            const double a = all[c][threadIdx.x], b = all[c][threadIdx.x + half];
            all[c][threadIdx.x] = c < 3 ? fmin(a, b) : fmax(a, b);
        }
    }
    __syncthreads();
    if (threadIdx.x < 3) frame->lo[threadIdx.x] = all[threadIdx.x][0];
    if (threadIdx.x < 3) frame->hi[threadIdx.x] = all[3 + threadIdx.x][0];
}

/* The quantum is the least power of two of which 2^31 - 1 reach across. */
static __global__ void sum_quantum(sum_frame *frame)
{
    double width = 0;
    for (int d = 0; d < 3; d++) {
        if (!(frame->lo[d] <= frame->hi[d])) frame->lo[d] = frame->hi[d] = 0;
        width = fmax(width, frame->hi[d] - frame->lo[d]);
    }
    int e = 0;
    (void)frexp(width > 0 ? width : 1, &e); /* width < 2^e */
    frame->quantum = ldexp(1.0, e - 31);
    frame->inverse = ldexp(1.0, 31 - e);
}

/* Skilling's transform (AIP Conf. Proc. 707, 381): coordinates of b bits to the Hilbert index, its bits dealt out. */
static __device__ uint64_t hilbert(uint32_t x, uint32_t y, uint32_t z, int b)
{
    uint32_t a[3] = {x, y, z};
    for (uint32_t q = 1u << (b - 1); q > 1; q >>= 1)
        for (int i = 0; i < 3; i++) {
            const uint32_t p = q - 1, t = (a[i] & q) != 0 ? 0 : (a[0] ^ a[i]) & p;
            a[0] ^= (a[i] & q) != 0 ? p : t;
            a[i] ^= t;
        }
    a[1] ^= a[0];
    a[2] ^= a[1];
    uint32_t t = 0;
    for (uint32_t q = 1u << (b - 1); q > 1; q >>= 1)
        if ((a[2] & q) != 0) t ^= q - 1;
    uint64_t key = 0;
    for (int i = b - 1; i >= 0; i--)
        for (int d = 0; d < 3; d++) key = key << 1 | ((a[d] ^ t) >> i & 1);
    return key;
}

static __global__ void __launch_bounds__(256)
    sum_keys(const double *x, int64_t n, int dim, const sum_frame *frame, int bits, uint64_t *key,
             int32_t *order)
{
    const int64_t i = ff_thread();
    if (i >= n) return;
    uint32_t c[3] = {0, 0, 0};
    for (int d = 0; d < dim; d++) {
        const double v = (x[i * dim + d] - frame->lo[d]) * frame->inverse;
        c[d] = (uint32_t)fmin(fmax(v, 0.0), 2147483647.0) >> (31 - bits);
    }
    key[i] = hilbert(c[0], c[1], c[2], bits);
    order[i] = (int32_t)i;
}

/* A run of the curve is ragged, its leaves longer than they need be. So every REFINE points in a row are sorted again: split
 * in halves along the longest side of their box until leaves are left, a k-d tree without the upper levels. */
static constexpr int REFINE = SUM_GROUP_POINTS, REFINE_BITS = 13, REFINE_THREADS = 512, REFINE_ITEMS = 8,
                     REFINE_LEVELS = 7;
typedef cub::BlockRadixSort<uint32_t, REFINE_THREADS, REFINE_ITEMS> refine_sort;

/* Joins a thread's range of one axis to that of its segment; whole: all lanes have the same segment. */
static __device__ inline void refine_join(uint32_t *lo, uint32_t *hi, uint32_t low, uint32_t high, bool whole)
{
    if (whole) {
        low = __reduce_min_sync(~0u, low);
        high = __reduce_max_sync(~0u, high);
    }
    if (low > high || (whole && threadIdx.x % 32 != 0)) return;
    atomicMin(lo, low);
    atomicMax(hi, high);
}

/* Scratch of a block: the sort's, or boxes of the segments of a level. */
typedef union refine_scratch {
    refine_sort::TempStorage sort;
    uint32_t box[2][3][REFINE >> 5];
} refine_scratch;

/* Coordinates of this thread's points, at [3][REFINE], in steps of which REFINE_BITS reach across the box of all m. from: the
 * block's. */
static __device__ __forceinline__ void refine_coordinates(const double *x, int dim, const sum_frame *frame,
                                                          const int32_t *from, int m, refine_scratch &u,
                                                          uint16_t (&at)[3][REFINE])
{
    const int first = (int)threadIdx.x * REFINE_ITEMS;
    uint32_t c[REFINE_ITEMS][3];
    if (threadIdx.x < 3) u.box[0][threadIdx.x][0] = ~0u, u.box[1][threadIdx.x][0] = 0;
    __syncthreads();
    for (int d = 0; d < 3; d++) {
        uint32_t low = ~0u, high = 0;
        for (int k = 0; k < REFINE_ITEMS && first + k < m; k++) {
            const double v =
                d < dim ? (x[(int64_t)from[first + k] * dim + d] - frame->lo[d]) * frame->inverse : 0;
            c[k][d] = (uint32_t)fmin(fmax(v, 0.0), 2147483647.0);
            low = min(low, c[k][d]);
            high = max(high, c[k][d]);
        }
        refine_join(&u.box[0][d][0], &u.box[1][d][0], low, high, true);
    }
    __syncthreads();
    uint32_t lo[3], width = 0;
    for (int d = 0; d < 3; d++) {
        lo[d] = u.box[0][d][0];
        width = max(width, u.box[1][d][0] - lo[d]);
    }
    const int shift = max(0, 32 - __clz((int)width) - REFINE_BITS);
    for (int k = 0; k < REFINE_ITEMS; k++)
        for (int d = 0; d < 3 && first + k < m; d++)
            at[d][first + k] = (uint16_t)min((c[k][d] - lo[d]) >> shift, (1u << REFINE_BITS) - 2);
}

static __global__ void __launch_bounds__(REFINE_THREADS)
    sum_refine(const double *x, int64_t n, int dim, const sum_frame *frame, const int32_t *from, int32_t *to)
{
    __shared__ refine_scratch u;
    __shared__ uint16_t at[3][REFINE];
    const int64_t base = (int64_t)blockIdx.x * REFINE;
    const int m = n - base < REFINE ? (int)(n - base) : REFINE, first = (int)threadIdx.x * REFINE_ITEMS;
    uint32_t key[REFINE_ITEMS];
    for (int k = 0; k < REFINE_ITEMS; k++) key[k] = (uint32_t)(first + k);
    refine_coordinates(x, dim, frame, from + base, m, u, at);
    for (int level = 0; level < REFINE_LEVELS; level++) {
        const int segment = first >> (12 - level); /* of all of this thread's items */
        __syncthreads();
        for (int k = (int)threadIdx.x; k < 3 << level; k += REFINE_THREADS)
            u.box[0][k >> level][k & ((1 << level) - 1)] = ~0u,
                                                     u.box[1][k >> level][k & ((1 << level) - 1)] = 0;
        __syncthreads();
        for (int d = 0; d < 3; d++) {
            uint32_t low = ~0u, high = 0;
            for (int k = 0; k < REFINE_ITEMS; k++) {
                const uint32_t i = key[k] % REFINE;
                if (i < (uint32_t)m) low = min(low, (uint32_t)at[d][i]), high = max(high, (uint32_t)at[d][i]);
            }
            refine_join(&u.box[0][d][segment], &u.box[1][d][segment], low, high,
                        REFINE >> level >= 32 * REFINE_ITEMS);
        }
        __syncthreads();
        int axis = 0;
        for (int d = 1; d < 3; d++)
            if (u.box[1][d][segment] - u.box[0][d][segment] >
                u.box[1][axis][segment] - u.box[0][axis][segment])
                axis = d;
        for (int k = 0; k < REFINE_ITEMS; k++) {
            const uint32_t i = key[k] % REFINE;
            const uint32_t v = i < (uint32_t)m ? at[axis][i] : (1u << REFINE_BITS) - 1; /* none: last */
            key[k] = (uint32_t)segment << 25 | v << 12 | i;
        }
        __syncthreads();
        refine_sort(u.sort).Sort(key, 12, 12 + REFINE_BITS + level);
    }
    for (int k = 0; k < REFINE_ITEMS && first + k < m; k++)
        to[base + first + k] = from[base + key[k] % REFINE];
}

static __global__ void __launch_bounds__(256) sum_invert(const sum_side side)
{
    const int64_t i = ff_thread();
    if (i < side.n_own)
        side.d_inverse[side.d_order[i]] = (int32_t)(side.lo + i);
    else if (i < side.hi - side.lo)
        side.d_order[i] = -1;
}

ff_status sum_frame_box(ff_cuda_pool *pool, const double *const d_x[2], const int64_t n[2], int dim,
                        sum_frame *d_frame)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    double *part = NULL;
    int blocks = 0;
    FF_GO(FF_ALLOC(pool, part, 6 * 2 * BOX_BLOCKS));
    FF_CU(cudaMemsetAsync(d_frame, 0, sizeof *d_frame, s));
    FF_CU(cudaMemsetAsync(d_frame->bad, 0xff, sizeof d_frame->bad, s));
    for (int k = 0; k < 2; k++) {
        if (d_x[k] == NULL || n[k] == 0) continue;
        const int mine = (int)(n[k] < 256 * BOX_BLOCKS ? (n[k] + 255) / 256 : BOX_BLOCKS);
        sum_box_parts<<<(unsigned)mine, 256, 0, s>>>(d_x[k], n[k], dim, part + 6 * blocks, d_frame->bad + k);
        FF_CU(cudaGetLastError());
        blocks += mine;
    }
    sum_box_whole<<<1, BOX_BLOCKS, 0, s>>>(part, blocks, d_frame);
    FF_CU(cudaGetLastError());
done:
    ff_cuda_free(pool, part);
    return st;
}

ff_status sum_frame_finish(ff_cuda_pool *pool, sum_frame *d_frame)
{
    ff_status st = FF_OK;
    sum_quantum<<<1, 1, 0, (cudaStream_t)ff_cuda_pool_stream(pool)>>>(d_frame);
    FF_CU(cudaGetLastError());
done:
    return st;
}

/* Bits an axis: a few more than it takes to tell the points of an even cube apart, so that most passes are saved. */
int sum_key_bits(int64_t n)
{
    int bits = 11;
    while (bits < 21 && (INT64_C(1) << 3 * (bits - 5)) < n) bits++;
    return bits;
}

ff_status sum_keys_sorted(ff_cuda_pool *pool, const double *d_x, int64_t n, int64_t n_all, int dim,
                          const sum_frame *d_frame, uint64_t **d_key, int32_t **d_index)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    uint64_t *key = NULL;
    int32_t *index = NULL;
    void *scratch = NULL;
    size_t bytes = 0;
    const int bits = sum_key_bits(n_all);
    *d_key = NULL;
    *d_index = NULL;
    FF_GO(FF_ALLOC(pool, *d_key, n));
    FF_GO(FF_ALLOC(pool, *d_index, n));
    if (n == 0) goto done;
    FF_GO(FF_ALLOC(pool, key, n));
    FF_GO(FF_ALLOC(pool, index, n));
    sum_keys<<<ff_grid(n, 1), 256, 0, s>>>(d_x, n, dim, d_frame, bits, key, index);
    FF_CU(cudaGetLastError());
    FF_CU(cub::DeviceRadixSort::SortPairs(NULL, bytes, key, *d_key, index, *d_index, n, 0, 3 * bits, s));
    FF_GO(ff_cuda_alloc(pool, bytes, &scratch));
    FF_CU(cub::DeviceRadixSort::SortPairs(scratch, bytes, key, *d_key, index, *d_index, n, 0, 3 * bits, s));
done:
    ff_cuda_free(pool, key);
    ff_cuda_free(pool, index);
    ff_cuda_free(pool, scratch);
    return st;
}

ff_status sum_refined(ff_cuda_pool *pool, const double *d_x, int dim, const sum_frame *d_frame,
                      const int32_t *d_curve, sum_side *side)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)ff_cuda_pool_stream(pool);
    const int64_t n = side->n_own;
    FF_GO(FF_ALLOC(pool, side->d_order, side->hi - side->lo));
    FF_GO(FF_ALLOC(pool, side->d_inverse, n));
    if (n == 0) goto done;
    sum_refine<<<(unsigned)((n + REFINE - 1) / REFINE), REFINE_THREADS, 0, s>>>(d_x, n, dim, d_frame, d_curve,
                                                                                side->d_order);
    FF_CU(cudaGetLastError());
    sum_invert<<<ff_grid(side->hi - side->lo, 1), 256, 0, s>>>(*side);
    FF_CU(cudaGetLastError());
done:
    return st;
}

ff_status sum_sort(ff_cuda_pool *pool, const double *d_x, int dim, const sum_frame *d_frame, sum_side *side)
{
    uint64_t *key = NULL;
    int32_t *index = NULL;
    ff_status st = sum_keys_sorted(pool, d_x, side->n, side->n, dim, d_frame, &key, &index);
    ff_cuda_free(pool, key);
    if (st == FF_OK) st = sum_refined(pool, d_x, dim, d_frame, index, side);
    ff_cuda_free(pool, index);
    return st;
}
