/* Cutting target lists into pieces, and the second step of every pair sum: pieces of a target in order, in double. */
#include "ff_cuda_scan.cuh"
#include "ff_globe_mma.cuh"

#include <cub/device/device_scan.cuh>

enum { BLOCK = 256 };

static __global__ void count_pieces(int n_t, const int32_t *n_pairs, int32_t *pieces, int64_t *groups)
{
    int t = (int)(blockIdx.x * BLOCK + threadIdx.x);
    if (t > n_t) return;
    int n = t < n_t ? n_pairs[t] : 0;
    pieces[t] = (n + FF_CUDA_PIECE - 1) / FF_CUDA_PIECE;
    groups[t] = (n + FF_CUDA_GROUP - 1) / FF_CUDA_GROUP;
}

static size_t scan_bytes(int32_t n)
{
    size_t a = 0, b = 0;
    cub::DeviceScan::ExclusiveSum(NULL, a, (const int32_t *)NULL, (int32_t *)NULL, n);
    cub::DeviceScan::ExclusiveSum(NULL, b, (const int64_t *)NULL, (int64_t *)NULL, n);
    return (a > b ? a : b) + 256;
}

size_t ff_cuda_cut_bytes(int32_t n_t)
{
    return scan_bytes(n_t + 1);
}

ff_status ff_cuda_lists_cut(ff_cuda_lists *lists, void *d_work, void *stream)
{
    ff_status st = FF_OK;
    cudaStream_t s = (cudaStream_t)stream;
    int32_t n = lists->n_t + 1, n_piece = 0;
    size_t bytes = scan_bytes(n);
    count_pieces<<<(unsigned)((n + BLOCK - 1) / BLOCK), BLOCK, 0, s>>>(
        lists->n_t, lists->d_n_pairs, lists->d_piece_off, lists->d_group_off);
    FF_CU(cudaGetLastError());
    FF_CU(cub::DeviceScan::ExclusiveSum(d_work, bytes, lists->d_piece_off, lists->d_piece_off, n, s));
    FF_CU(cub::DeviceScan::ExclusiveSum(d_work, bytes, lists->d_group_off, lists->d_group_off, n, s));
    FF_CU(cudaMemcpyAsync(&n_piece, lists->d_piece_off + lists->n_t, sizeof n_piece, cudaMemcpyDeviceToHost,
                          s));
    FF_CU(cudaMemcpyAsync(&lists->n_group, lists->d_group_off + lists->n_t, sizeof lists->n_group,
                          cudaMemcpyDeviceToHost, s));
    FF_CU(cudaStreamSynchronize(s));
    lists->n_piece = n_piece;
done:
    return st;
}

ff_status ff_scan_i32(int32_t *d, int32_t n, void *d_work, cudaStream_t s)
{
    ff_status st = FF_OK;
    size_t bytes = scan_bytes(n);
    FF_CU(cub::DeviceScan::ExclusiveSum(d_work, bytes, d, d, n, s));
done:
    return st;
}

/* add: networks after the first, whose rounded sums are added in float32. */
static __global__ void reduce_pieces(int64_t n, int n_comp, const int32_t *piece_off, const float *part,
                                     bool add, float *out)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    int64_t t = i / n_comp, c = i % n_comp;
    double sum = 0.0;
    for (int64_t k = piece_off[t]; k < piece_off[t + 1]; k++) sum += part[k * n_comp + c];
    out[i] = add ? out[i] + (float)sum : (float)sum;
}

bool ff_pair_splits(const ff_cuda_net *net)
{
    return net->fused != NULL || net->mma != NULL; /* the plain kernel counts pieces from the lists' first */
}

ff_status ff_pair_launch(const ff_cuda_net *net, const ff_pair_run_args *a, cudaStream_t s)
{
    ff_status st = FF_OK;
    const ff_cuda_lists *l = a->lists;
    ff_pair_dev p;
    p.x_t = l->d_x_t;
    p.x_s = a->x_s;
    p.seg_off = l->d_seg_off;
    p.seg_cum = l->d_seg_cum;
    p.n_pairs = l->d_n_pairs;
    p.src = l->d_src;
    p.piece_off = l->d_piece_off;
    p.seg_src = l->d_seg_src;
    p.group_off = l->d_group_off;
    p.strength = a->strength;
    p.rec = a->rec;
    p.h0 = a->h0;
    p.part = a->part;
    p.n_t = l->n_t;
    p.n_piece = l->n_piece;
    p.n_group = l->n_group;
    p.spare = a->spare;
    if (p.n_piece == 0) return FF_OK;
    if (net->fused != NULL)
        FF_CU(net->fused->launch(&net->d, &p, net->image, net->bias, s));
    else if (net->mma != NULL)
        FF_CU(ff_mma_launch(&net->d, net->mma, net->precision, &p, net->image, net->bias, net->tab, s));
    else
        FF_CU(ff_plain_launch(&net->d, &p, net->w_pair, s));
done:
    return st;
}

ff_status ff_pair_reduce(const ff_cuda_net *net, const ff_pair_run_args *a, cudaStream_t s)
{
    ff_status st = FF_OK;
    int64_t n = (int64_t)a->lists->n_t * net->d.n_comp;
    if (n == 0) return FF_OK;
    reduce_pieces<<<(unsigned)((n + BLOCK - 1) / BLOCK), BLOCK, 0, s>>>(
        n, net->d.n_comp, a->lists->d_piece_off, a->part, a->add, a->rows);
    FF_CU(cudaGetLastError());
done:
    return st;
}

ff_status ff_pair_run(const ff_cuda_net *net, const ff_pair_run_args *a, cudaStream_t s)
{
    FF_TRY(ff_pair_launch(net, a, s));
    return ff_pair_reduce(net, a, s);
}

ff_status ff_cuda_pair_forward(const ff_cuda_net *net, const ff_cuda_pair_args *args, void *stream)
{
    ff_pair_run_args a = {args->lists,
                          args->d_x_s,
                          args->d_strength,
                          (const float *)args->d_rec,
                          (const char *)args->d_rec + ff_h0_offset(&net->d, args->n_src),
                          args->d_part,
                          args->d_out,
                          false,
                          0};
    return ff_pair_run(net, &a, (cudaStream_t)stream);
}
