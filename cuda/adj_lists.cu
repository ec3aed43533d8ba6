/* adj_expand: pair lists of the adjoint from runs to groups, and the job that holds them (ff_adj_job.cuh)
 * Work    a warp a slot: 32 runs at a time find their places by a scan
 * Launch  grid slots / 8, block 256
 * Shapes  run [n_run], target [n_group][16], group_slot [n_group] */
#include "ff_adj_job.cuh"
#include "ff_adj_wide.cuh"

#include <string.h>

enum { EXPAND_THREADS = 256 };

/* Slots [begin, end). */
static __global__ void adj_expand(int64_t begin, int64_t end, const int64_t *run_off, const ff_adj_run *run,
                                  const int64_t *group_off, int32_t *target, int32_t *group_slot)
{
    int64_t slot = begin + ((int64_t)blockIdx.x * EXPAND_THREADS + threadIdx.x) / 32;
    int lane = (int)threadIdx.x % 32;
    if (slot >= end) return;
    int64_t at = FF_ADJ_GROUP * group_off[slot], last = FF_ADJ_GROUP * group_off[slot + 1];
    for (int64_t k = run_off[slot]; k < run_off[slot + 1]; k += 32) {
        ff_adj_run r = {0, 0, 0};
        if (k + lane < run_off[slot + 1]) r = run[k + lane];
        int sum = r.n, longest = r.n;
        for (int d = 1; d < 32; d *= 2) {
            int below = __shfl_up_sync(0xffffffffu, sum, d), other = __shfl_xor_sync(0xffffffffu, longest, d);
            if (lane >= d) sum += below;
            longest = other > longest ? other : longest;
        }
        if (longest <= 32) {
            for (int i = 0; i < r.n; i++) target[at + sum - r.n + i] = r.first + i;
        } else {
            for (int q = 0; q < 32; q++) {
                int first = __shfl_sync(0xffffffffu, r.first, q), n = __shfl_sync(0xffffffffu, r.n, q),
                    from = __shfl_sync(0xffffffffu, sum, q) - n;
                for (int i = lane; i < n; i += 32) target[at + from + i] = first + i;
            }
        }
        at += __shfl_sync(0xffffffffu, sum, 31);
    }
    for (int64_t p = at + lane; p < last; p += 32) target[p] = -1;
    for (int64_t g = group_off[slot] + lane; g < group_off[slot + 1]; g += 32) group_slot[g] = (int32_t)slot;
}

static ff_status expand(const ff_cuda_impl *c, int64_t begin, int64_t end, const int64_t *run_off,
                        const ff_adj_run *run, const int64_t *group_off, int32_t *target, int32_t *group_slot)
{
    ff_status st = FF_OK;
    int64_t threads = 32 * (end - begin);
    if (threads == 0) return FF_OK;
    adj_expand<<<(unsigned)((threads + EXPAND_THREADS - 1) / EXPAND_THREADS), EXPAND_THREADS, 0, c->stream>>>(
        begin, end, run_off, run, group_off, target, group_slot);
    FF_CU(cudaGetLastError());
done:
    return st;
}

/* ---- jobs ---- */

void adj_job_destroy(void *impl, ff_adj_job **jp)
{
    ff_cuda_pool *pool = ((ff_cuda_impl *)impl)->pool;
    ff_adj_job *j = *jp;
    if (j == NULL) return;
    const void *device[] = {j->x_s,        j->x_t,    j->group_off, j->block_off,
                            j->group_slot, j->target, j->tile_off,  j->unit_off};
    void *host[] = {j->host_off, j->host_tile, j->host_unit, j->unit_block, j->run_off, j->run};
    for (size_t k = 0; k < sizeof device / sizeof *device; k++) ff_cuda_free(pool, device[k]);
    for (size_t k = 0; k < sizeof host / sizeof *host; k++) ff_free(host[k]);
    ff_free(j);
    *jp = NULL;
}

/* First block of each unit, [n_unit + 1]; a slot's groups lie in blocks of one unit. */
static void unit_blocks(const ff_adj_lists *l, ff_adj_job *j)
{
    int64_t slot = 0, unit = 0;
    for (int64_t b = 0; b < l->n_block; b++) {
        while (l->group_off[slot + 1] <= l->block_off[b]) slot++;
        while (l->unit_off[unit] <= slot) j->unit_block[unit++] = b;
    }
    while (unit <= l->n_unit) j->unit_block[unit++] = l->n_block;
}

static ff_status host_arrays(const ff_adj_lists *l, ff_adj_job *j)
{
    int64_t blocks = l->n_block;
    FF_TRY(FF_NEW_CUDA(j->host_off, blocks + 1));
    FF_TRY(FF_NEW_CUDA(j->host_tile, blocks + 1));
    FF_TRY(FF_NEW_CUDA(j->host_unit, l->n_unit + 1));
    FF_TRY(FF_NEW_CUDA(j->unit_block, l->n_unit + 1));
    memcpy(j->host_off, l->block_off, (size_t)(blocks + 1) * sizeof *j->host_off);
    memcpy(j->host_unit, l->unit_off, (size_t)(l->n_unit + 1) * sizeof *j->host_unit);
    for (int64_t b = 0; b < blocks; b++)
        j->host_tile[b + 1] =
            j->host_tile[b] + (l->block_off[b + 1] - l->block_off[b] + AW_GROUPS - 1) / AW_GROUPS;
    unit_blocks(l, j);
    return FF_OK;
}

/* Every pair's target stays on the device. */
static ff_status expand_all(ff_cuda_impl *c, const ff_adj_lists *l, ff_adj_job *j)
{
    ff_status st = FF_OK;
    int64_t *run_off = NULL;
    ff_adj_run *run = NULL;
    FF_GO(ff_cuda_alloc(c->pool, (size_t)l->n_group * sizeof(int32_t), &j->group_slot));
    FF_GO(ff_cuda_alloc(c->pool, FF_ADJ_GROUP * (size_t)l->n_group * sizeof(int32_t), &j->target));
    FF_GO(ff_cuda_new(c->pool, l->run_off, ((size_t)l->n_slot + 1) * sizeof *run_off, &run_off));
    FF_GO(ff_cuda_new(c->pool, l->run, (size_t)l->n_run * sizeof *run, &run));
    FF_GO(expand(c, 0, l->n_slot, run_off, run, j->group_off, j->target, j->group_slot));
done:
    ff_cuda_free(c->pool, run_off);
    ff_cuda_free(c->pool, run);
    return st;
}

/* The runs stay in host memory. */
static ff_status keep_runs(const ff_adj_lists *l, ff_adj_job *j)
{
    FF_TRY(FF_NEW_CUDA(j->run_off, l->n_slot + 1));
    FF_TRY(FF_NEW_CUDA(j->run, l->n_run + 1));
    memcpy(j->run_off, l->run_off, (size_t)(l->n_slot + 1) * sizeof *j->run_off);
    if (l->n_run > 0) memcpy(j->run, l->run, (size_t)l->n_run * sizeof *j->run);
    return FF_OK;
}

/* Lists stay within three quarters of the budget: the rest is for the run. */
static bool lists_stay(const ff_cuda_impl *c, const ff_adj_lists *l)
{
    int64_t bytes = l->n_group * (FF_ADJ_GROUP + 1) * (int64_t)sizeof(int32_t) +
                    l->n_run * (int64_t)sizeof *l->run + l->n_slot * (int64_t)sizeof(int64_t);
    return c->budget <= 0 || ff_cuda_pool_used(c->pool) + bytes <= c->budget / 4 * 3;
}

ff_status adj_job_create(void *impl, const ff_adj_lists *l, ff_adj_job **out)
{
    ff_status st = FF_OK;
    ff_cuda_impl *c = (ff_cuda_impl *)impl;
    ff_cuda_pool *pool = c->pool;
    size_t offset = sizeof(int64_t);
    ff_adj_job *j = NULL;
    *out = NULL;
    FF_TRY(FF_NEW_CUDA(j, 1));
    (void)ff_cuda_pool_kind(pool, FF_CUDA_LISTS);
    j->n_slot = l->n_slot;
    j->n_target = l->n_target;
    j->n_block = l->n_block;
    j->n_unit = l->n_unit;
    FF_GO(host_arrays(l, j));
    FF_GO(ff_cuda_new(pool, l->x_s, 4 * (size_t)l->n_slot * sizeof(double), &j->x_s));
    FF_GO(ff_cuda_new(pool, l->x_t, 4 * (size_t)l->n_target * sizeof(double), &j->x_t));
    FF_GO(ff_cuda_new(pool, l->group_off, ((size_t)l->n_slot + 1) * offset, &j->group_off));
    FF_GO(ff_cuda_new(pool, l->block_off, ((size_t)l->n_block + 1) * offset, &j->block_off));
    FF_GO(ff_cuda_new(pool, l->unit_off, ((size_t)l->n_unit + 1) * offset, &j->unit_off));
    FF_GO(ff_cuda_new(pool, j->host_tile, ((size_t)l->n_block + 1) * offset, &j->tile_off));
    FF_GO(lists_stay(c, l) ? expand_all(c, l, j) : keep_runs(l, j));
    *out = j;
    j = NULL;
done:
    adj_job_destroy(impl, &j);
    return st;
}

/* ---- spans ---- */

bool adj_span_next(const ff_adj_job *j, const adj_spans *s, int64_t unit_begin, adj_span *span)
{
    int64_t end = unit_begin + 1, slot = 0, group = 0;
    if (unit_begin >= j->n_unit) return false;
    slot = j->host_unit[unit_begin];
    group = j->host_off[j->unit_block[unit_begin]];
    while (end < j->n_unit && j->host_unit[end + 1] - slot <= s->most_slots &&
           j->host_off[j->unit_block[end + 1]] - group <= s->most_groups)
        end++;
    memset(span, 0, sizeof *span);
    span->unit_begin = unit_begin;
    span->unit_end = end;
    span->slot_begin = slot;
    span->slot_end = j->host_unit[end];
    span->block_begin = j->unit_block[unit_begin];
    span->block_end = j->unit_block[end];
    span->group_begin = group;
    span->group_end = j->host_off[span->block_end];
    return true;
}

ff_status adj_spans_open(ff_cuda_impl *c, const ff_adj_job *j, adj_spans *s)
{
    ff_status st = FF_OK;
    adj_span b = {};
    while (adj_span_next(j, s, b.unit_end, &b)) {
        int64_t slots = b.slot_end - b.slot_begin, groups = b.group_end - b.group_begin,
                runs = j->run != NULL ? j->run_off[b.slot_end] - j->run_off[b.slot_begin] : 0;
        s->slots = slots > s->slots ? slots : s->slots;
        s->groups = groups > s->groups ? groups : s->groups;
        s->runs = runs > s->runs ? runs : s->runs;
    }
    if (j->run == NULL) return FF_OK;
    ff_cuda_kind before = ff_cuda_pool_kind(c->pool, FF_CUDA_LISTS);
    FF_GO(ff_cuda_alloc(c->pool, ((size_t)s->slots + 1) * sizeof *s->run_off, &s->run_off));
    FF_GO(ff_cuda_alloc(c->pool, (size_t)s->runs * sizeof *s->run, &s->run));
    FF_GO(ff_cuda_alloc(c->pool, (size_t)s->groups * sizeof *s->group_slot, &s->group_slot));
    FF_GO(ff_cuda_alloc(c->pool, FF_ADJ_GROUP * (size_t)s->groups * sizeof *s->target, &s->target));
done:
    (void)ff_cuda_pool_kind(c->pool, before);
    return st;
}

void adj_spans_close(ff_cuda_impl *c, adj_spans *s)
{
    ff_cuda_free(c->pool, s->run_off);
    ff_cuda_free(c->pool, s->run);
    ff_cuda_free(c->pool, s->group_slot);
    ff_cuda_free(c->pool, s->target);
}

ff_status adj_span_lists(ff_cuda_impl *c, const ff_adj_job *j, const adj_spans *s, adj_span *span)
{
    int64_t slot = span->slot_begin, n = span->slot_end - slot, first, runs;
    if (j->run == NULL) {
        span->group_slot = j->group_slot;
        span->target = j->target;
        return FF_OK;
    }
    first = j->run_off[slot];
    runs = j->run_off[span->slot_end] - first;
    int32_t *group_slot = adj_from(s->group_slot, span->group_begin),
            *target = adj_from(s->target, FF_ADJ_GROUP * span->group_begin);
    FF_TRY(ff_cuda_put(c->pool, s->run_off, j->run_off + slot, (size_t)(n + 1) * sizeof *s->run_off));
    FF_TRY(ff_cuda_put(c->pool, s->run, j->run + first, (size_t)runs * sizeof *s->run));
    span->group_slot = group_slot;
    span->target = target;
    return expand(c, slot, span->slot_end, adj_from(s->run_off, slot), adj_from(s->run, first), j->group_off,
                  target, group_slot);
}
