#include "ff_mem.h"

#include "ff_mem_hold.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HEADER = 64 };

/* Large blocks ask for pages of 2 MiB: a first touch of each 4 KiB costs more than what is then done to it. */
static const size_t LARGE = (size_t)8 << 20, LARGE_PAGE = (size_t)2 << 20;

static char *aligned_block(size_t bytes)
{
    const size_t step = bytes >= LARGE ? LARGE_PAGE : 64, total = (bytes + step - 1) / step * step;
    char *raw = aligned_alloc(step, total);
    if (raw != NULL && step == LARGE_PAGE) (void)madvise(raw, total, MADV_HUGEPAGE); /* a hint */
    return raw;
}

static atomic_size_t used, peak, blocks, budget;
static atomic_llong fail_countdown;
static atomic_bool fault_hit, held;
static _Atomic(char *) kept; /* blocks freed while held: each names the next, in the place of its size */

static bool fault_now(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) <= 0) return false;
    if (atomic_fetch_sub(&fail_countdown, 1) != 1) return false;
    atomic_store(&fault_hit, true);
    return true;
}

static void count_up(size_t bytes)
{
    size_t now = atomic_fetch_add(&used, bytes) + bytes;
    size_t top = atomic_load(&peak);
    while (now > top && !atomic_compare_exchange_weak(&peak, &top, now)) {
    }
    atomic_fetch_add(&blocks, 1);
}

void *ff_mem_alloc(size_t n, size_t size)
{
    if (size != 0 && n > (SIZE_MAX / 2) / size) {
        (void)ff_fail(FF_E_MEM, "allocation of %zu x %zu bytes overflows", n, size);
        return NULL;
    }
    size_t bytes = n * size;
    if (fault_now()) {
        (void)ff_fail(FF_E_MEM, "allocation of %zu bytes failed (injected fault)", bytes);
        return NULL;
    }
    size_t limit = atomic_load(&budget);
    if (limit != 0 && atomic_load(&used) + bytes > limit) {
        (void)ff_fail(FF_E_MEM,
                      "allocation of %zu bytes exceeds the budget: %zu of %zu bytes in use; raise --memory "
                      "or use more ranks",
                      bytes, atomic_load(&used), limit);
        return NULL;
    }
    char *raw = aligned_block(HEADER + bytes);
    if (raw == NULL) {
        (void)ff_fail(FF_E_MEM,
                      "allocation of %zu bytes failed; use more ranks or a machine with more memory", bytes);
        return NULL;
    }
    memcpy(raw, &bytes, sizeof bytes);
    count_up(bytes);
    return raw + HEADER;
}

void *ff_mem_alloc0(size_t n, size_t size)
{
    void *p = ff_mem_alloc(n, size);
    if (p != NULL) memset(p, 0, n * size);
    return p;
}

static size_t block_bytes(const void *p)
{
    size_t bytes;
    memcpy(&bytes, (const char *)p - HEADER, sizeof bytes);
    return bytes;
}

void *ff_mem_resize(void *p, size_t n, size_t size)
{
    void *q = ff_mem_alloc(n, size);
    if (q == NULL || p == NULL) return q;
    size_t old = block_bytes(p);
    memcpy(q, p, old < n * size ? old : n * size);
    ff_free(p);
    return q;
}

void ff_free(void *p)
{
    if (p == NULL) return;
    atomic_fetch_sub(&used, block_bytes(p));
    atomic_fetch_sub(&blocks, 1);
    char *raw = (char *)p - HEADER;
    if (atomic_load_explicit(&held, memory_order_relaxed)) {
        char *next = atomic_load(&kept);
        do memcpy(raw, &next, sizeof next);
        while (!atomic_compare_exchange_weak(&kept, &next, raw));
    } else {
        free(raw);
    }
}

void ff_mem_hold(void)
{
    atomic_store(&held, true);
}

bool ff_mem_held(void)
{
    return atomic_load(&held);
}

void ff_mem_copy(void *to, const void *from, size_t bytes)
{
    enum { PIECE = 1 << 18 };
#pragma omp parallel for schedule(static) if (bytes > 2 * PIECE)
    for (size_t k = 0; k < (bytes + PIECE - 1) / PIECE; k++) {
        size_t at = k * PIECE, n = bytes - at < PIECE ? bytes - at : PIECE;
        memcpy((char *)to + at, (const char *)from + at, n);
    }
}

char *ff_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *t = ff_mem_alloc(n, 1);
    if (t != NULL) memcpy(t, s, n);
    return t;
}

ff_status ff_mem_reserve(void *p_ptr, int64_t *cap, int64_t need, size_t size)
{
    if (need <= *cap) return FF_OK;
    int64_t grown = *cap + *cap / 2 + 16;
    if (grown < need) grown = need;
    void *p;
    memcpy(&p, p_ptr, sizeof p);
    void *q = ff_mem_resize(p, (size_t)grown, size);
    if (q == NULL) return FF_E_MEM;
    memcpy(p_ptr, &q, sizeof q);
    *cap = grown;
    return FF_OK;
}

void ff_mem_set_budget(size_t bytes)
{
    atomic_store(&budget, bytes);
}
size_t ff_mem_budget(void)
{
    return atomic_load(&budget);
}
size_t ff_mem_used(void)
{
    return atomic_load(&used);
}
size_t ff_mem_peak(void)
{
    return atomic_load(&peak);
}
void ff_mem_reset_peak(void)
{
    atomic_store(&peak, atomic_load(&used));
}
size_t ff_mem_blocks(void)
{
    return atomic_load(&blocks);
}

void ff_mem_fail_at(int64_t n)
{
    atomic_store(&fail_countdown, n);
    atomic_store(&fault_hit, false);
}

bool ff_mem_fault_hit(void)
{
    return atomic_load(&fault_hit);
}

ff_status ff_arena_create(ff_arena *a, size_t bytes)
{
    a->size = (bytes + 63) / 64 * 64;
    a->used = 0;
    a->base = ff_mem_alloc(a->size, 1);
    return a->base != NULL ? FF_OK : FF_E_MEM;
}

void *ff_arena_get(ff_arena *a, size_t n, size_t size)
{
    if (size != 0 && n > SIZE_MAX / 2 / size) return NULL;
    size_t bytes = (n * size + 63) / 64 * 64;
    if (bytes > a->size - a->used) {
        (void)ff_fail(FF_E_INTERNAL, "arena of %zu bytes is full: %zu used, %zu asked", a->size, a->used,
                      bytes);
        return NULL;
    }
    void *p = a->base + a->used;
    a->used += bytes;
    return p;
}

void ff_arena_reset(ff_arena *a)
{
    a->used = 0;
}

void ff_arena_destroy(ff_arena *a)
{
    ff_free(a->base);
    a->base = NULL;
    a->size = a->used = 0;
}
