/* scatter_chain: forward pass of long nodes in float64, whose sums must keep the order of the edges
 * Work    one block a long node, degree l and tile of 32 channels; warp r owns row r (a thread an element). Features and
 *         couplings of 32 edges a stage pass through a ring in shared memory that all warps fill; edge numbers pass
 *         through a second one, CHAIN_STAGES stages ahead of their use
 * Launch  grid n_long x lmax x tiles, block 32 (2 lmax + 1)
 * Shapes  farfield_scatter.h
 * Order   edges ascending, each element alone: the bits of the CPU
 * Bound   latency of one addition an edge and shared memory's rate for 2 reads a row and edge: one multiprocessor a
 *         degree, whatever the node's length
 * Oracle  the CPU row, tests/gpu/test_scatter.c (long_nodes)
 * Care    channels c >= C and rows above 2 l + 1 load, add and store nothing, but take part in the barriers */
#ifndef FF_CUDA_SCATTER_CHAIN_CUH
#define FF_CUDA_SCATTER_CHAIN_CUH

#include "scatter.cuh"

enum {
    CHAIN_STAGES = 4,
    CHAIN_EDGES = 32,
    CHAIN_ROWS = 2 * FF_SCATTER_LMAX + 1,
    CHAIN_IDS = 2 * CHAIN_STAGES
};

typedef struct chain_ring {
    double f[CHAIN_STAGES][CHAIN_EDGES][32], z[CHAIN_STAGES][CHAIN_EDGES][CHAIN_ROWS];
    int id[CHAIN_IDS][CHAIN_EDGES];
} chain_ring;

/* What a block works at: n edges from place k0 on, degree l, channels c0 .. c0 + 31. */
typedef struct chain_part {
    int64_t node, k0, n;
    int l, c0;
} chain_part;

static __device__ __forceinline__ void chain_ids(const scatter_job<double> &j, const chain_part &p,
                                                 int64_t stage, chain_ring *ring)
{
    const int64_t k = stage * CHAIN_EDGES + threadIdx.x;
    if (threadIdx.x < CHAIN_EDGES && k < p.n)
        copy_async<4>(&ring->id[stage % CHAIN_IDS][threadIdx.x], j.edge + p.k0 + k);
}

template <int WORD>
static __device__ __forceinline__ void chain_fill(const scatter_job<double> &j, const chain_part &p,
                                                  int64_t stage, chain_ring *ring)
{
    constexpr int W = WORD / 8, words = 32 / W;
    const int slot = (int)(stage % CHAIN_STAGES), rows = 2 * p.l + 1;
    const int *id = ring->id[stage % CHAIN_IDS];
    const int64_t left = p.n - stage * CHAIN_EDGES;
    const int n = left < CHAIN_EDGES ? (int)left : CHAIN_EDGES;
    for (int t = (int)threadIdx.x; t < n * words; t += (int)blockDim.x) {
        const int i = t / words, c = t % words * W;
        if (p.c0 + c < j.n_chan)
            copy_async<WORD>(&ring->f[slot][i][c], j.f + id[i] * j.s0 + (p.l - 1) * j.s1 + p.c0 + c);
    }
    for (int t = (int)threadIdx.x; t < n * 16; t += (int)blockDim.x)
        if (t % 16 < rows)
            copy_async<8>(&ring->z[slot][t / 16][t % 16],
                          j.z + (int64_t)id[t / 16] * j.n_rows + p.l * p.l - 1 + t % 16);
}

template <bool FULL>
static __device__ __forceinline__ double chain_add(const scatter_job<double> &j, const chain_part &p,
                                                   int64_t stage, const chain_ring *ring, int row, int lane,
                                                   double sum)
{
    const int slot = (int)(stage % CHAIN_STAGES), c = p.c0 + lane;
    const int *id = ring->id[stage % CHAIN_IDS];
    const int64_t left = p.n - stage * CHAIN_EDGES;
    const int n = left < CHAIN_EDGES ? (int)left : CHAIN_EDGES;
#pragma unroll 8
    for (int i = 0; i < n; i++) {
        const double z = ring->z[slot][i][row], f = ring->f[slot][i][lane];
        double spin = 0, gate = 1;
        if (FULL && p.l == 1 && j.spin != NULL && c < j.n_chan)
            spin = j.spin[((int64_t)id[i] * 3 + row) * j.n_chan + c];
        if (FULL && j.gate != NULL) gate = j.gate[id[i]];
        sum += FULL ? message(z, f, spin, gate) : z * f;
    }
    return sum;
}

template <int WORD, bool FULL> static __global__ void scatter_chain(const scatter_job<double> j)
{
    __shared__ __align__(16) chain_ring ring;
    static_assert(sizeof ring <= 48 * 1024, "static shared memory");
    const int row = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    chain_part p;
    p.node = j.lng[blockIdx.x].x;
    p.k0 = j.off[p.node], p.n = j.off[p.node + 1] - p.k0;
    p.l = (int)blockIdx.y + 1, p.c0 = (int)blockIdx.z * 32;
    const int64_t n_stage = (p.n + CHAIN_EDGES - 1) / CHAIN_EDGES;
    const bool mine = row < 2 * p.l + 1 && p.c0 + lane < j.n_chan;
    double sum = 0;
    for (int64_t s = 0; s < CHAIN_STAGES; s++) chain_ids(j, p, s, &ring);
    copies_begun();
    copies_wait<0>();
    __syncthreads();
    /* A group of copies: features and couplings of stage s, edge numbers of stage s + CHAIN_STAGES. */
    for (int64_t s = 0; s < CHAIN_STAGES - 1; s++) {
        if (s < n_stage) chain_fill<WORD>(j, p, s, &ring);
        chain_ids(j, p, s + CHAIN_STAGES, &ring);
        copies_begun();
    }
    for (int64_t s = 0; s < n_stage; s++) {
        copies_wait<CHAIN_STAGES - 2>();
        __syncthreads(); /* stage s is there for all; all have left stage s - 1 */
        if (s + CHAIN_STAGES - 1 < n_stage) chain_fill<WORD>(j, p, s + CHAIN_STAGES - 1, &ring);
        chain_ids(j, p, s + 2 * CHAIN_STAGES - 1, &ring);
        copies_begun();
        if (mine) sum = chain_add<FULL>(j, p, s, &ring, row, lane, sum);
    }
    if (!mine) return;
    double *out = j.out + p.node * (j.n_rows + 1) * j.n_chan + p.c0 + lane;
    if (p.l == 1 && row == 0) out[0] = 0;
    if (j.deg != NULL) sum *= j.deg[p.node];
    out[(int64_t)(p.l * p.l + row) * j.n_chan] = sum;
}

template <int WORD, bool FULL> static cudaError_t chain_launch(const scatter_job<double> *j, cudaStream_t s)
{
    const dim3 grid((unsigned)j->n_long, (unsigned)j->lmax, (unsigned)((j->n_chan + 31) / 32));
    if (j->n_long == 0) return cudaSuccess;
    if (grid.z > 65535) return cudaErrorInvalidConfiguration; /* more than 2 million channels */
    scatter_chain<WORD, FULL><<<grid, 32 * (2 * (unsigned)j->lmax + 1), 0, s>>>(*j);
    return cudaGetLastError();
}
#endif
