/* What the resident evaluation does on the host: phases, staging of transfers, memory of the layer in work. */
#include "ff_resident.cuh"

#include <nvtx3/nvToolsExt.h>
#include <string.h>

/* ---- phases: an event at each border, seconds worked out when there is nothing else to do ---- */

static ff_status phases_collect(ff_resident *r)
{
    ff_status st = FF_OK;
    if (r->n_events == 0) return FF_OK;
    FF_TRY(ff_res_watch(r));
    FF_CU(cudaEventSynchronize(r->event[r->n_events - 1]));
    for (int k = 0; k + 1 < r->n_events; k++) {
        float ms = 0;
        FF_CU(cudaEventElapsedTime(&ms, r->event[k], r->event[k + 1]));
        if (r->event_phase[k] >= 0) r->phase_s[r->event_phase[k]] += 1e-3 * ms;
    }
    r->n_events = 0;
done:
    return st;
}

static int phase_index(ff_resident *r, const char *name)
{
    for (int k = 0; k < r->n_phases; k++)
        if (strcmp(r->phase_name[k], name) == 0) return k;
    if (r->n_phases == FF_RES_MAX_PHASES) return -1;
    r->phase_name[r->n_phases] = name;
    r->phase_s[r->n_phases] = 0;
    return r->n_phases++;
}

/* Work from here on belongs to phase name; NULL: to none. */
ff_status ff_res_phase(ff_resident *r, const char *name)
{
    ff_status st = FF_OK;
    if (r->open) nvtxRangePop();
    r->open = name != NULL;
    if (name != NULL) nvtxRangePushA(name);
    if (r->n_events == FF_RES_EVENTS - 1) {
        FF_CU(cudaEventRecord(r->event[r->n_events++], ff_res_stream(r)));
        FF_TRY(phases_collect(r));
    }
    r->event_phase[r->n_events] = name != NULL ? phase_index(r, name) : -1;
    FF_CU(cudaEventRecord(r->event[r->n_events++], ff_res_stream(r)));
done:
    return st;
}

int ff_res_phases(ff_resident *r, ff_resident_phase *p, int max)
{
    int n = 0;
    if (ff_res_phase(r, NULL) != FF_OK || phases_collect(r) != FF_OK) return 0;
    for (; n < r->n_phases && n < max; n++) p[n] = (ff_resident_phase){r->phase_name[n], r->phase_s[n]};
    return n;
}

/* ---- memory and transfers ---- */

ff_status ff_res_need(ff_resident *r, int slot, size_t bytes)
{
    if (r->work[slot] != NULL && bytes <= r->work_bytes[slot]) return FF_OK;
    ff_cuda_free(r->impl->pool, r->work[slot]);
    r->work[slot] = NULL;
    r->work_bytes[slot] = 0;
    ff_cuda_kind before = ff_cuda_pool_kind(r->impl->pool, FF_CUDA_RECORDS);
    ff_status st = ff_cuda_alloc(r->impl->pool, bytes, &r->work[slot]);
    (void)ff_cuda_pool_kind(r->impl->pool, before);
    if (st == FF_OK) r->work_bytes[slot] = bytes;
    return st;
}

/* Host memory of any kind to the device, through two pinned buffers in turn. */
ff_status ff_res_upload(ff_resident *r, void *d_dst, const void *src, size_t bytes)
{
    ff_status st = FF_OK;
    for (size_t at = 0; at < bytes; at += FF_RES_STAGE_BYTES) {
        size_t n = bytes - at < FF_RES_STAGE_BYTES ? bytes - at : (size_t)FF_RES_STAGE_BYTES;
        FF_CU(cudaEventSynchronize(r->stage_free[r->stage]));
        ff_mem_copy(r->h_stage[r->stage], (const char *)src + at, n);
        FF_CU(cudaMemcpyAsync((char *)d_dst + at, r->h_stage[r->stage], n, cudaMemcpyHostToDevice,
                              ff_res_stream(r)));
        FF_CU(cudaEventRecord(r->stage_free[r->stage], ff_res_stream(r)));
        r->stage ^= 1;
    }
done:
    return st;
}

ff_status ff_res_download(ff_resident *r, void *dst, const void *d_src, size_t bytes)
{
    ff_status st = FF_OK;
    if (bytes == 0) return FF_OK;
    if (bytes > r->h_out_bytes) {
        (void)cudaFreeHost(r->h_out);
        r->h_out = NULL;
        r->h_out_bytes = 0;
        FF_CU(cudaMallocHost(&r->h_out, bytes));
        r->h_out_bytes = bytes;
    }
    FF_CU(cudaMemcpyAsync(r->h_out, d_src, bytes, cudaMemcpyDeviceToHost, ff_res_stream(r)));
    FF_CU(cudaStreamSynchronize(ff_res_stream(r)));
    ff_mem_copy(dst, r->h_out, bytes);
done:
    return st;
}

ff_status ff_res_put(ff_resident *r, const void *src, size_t bytes, void *d_ptr)
{
    FF_TRY(ff_cuda_alloc(r->impl->pool, bytes, d_ptr));
    return ff_res_upload(r, *(void **)d_ptr, src, bytes);
}
