/* Counted host memory with a byte budget, and arenas on top of it.
 * Every block carries its size in a 64-byte header, so the counters are exact and ff_free needs no size.
 * Blocks are 64-byte aligned; a block of zero bytes is valid and not NULL. Thread-safe. */
#ifndef FF_MEM_H
#define FF_MEM_H

#include "ff_status.h"

#include <stdbool.h>

/* n * size bytes, uninitialised; NULL with the error recorded (overflow, budget, system, injected fault).
 * Local */
void *ff_mem_alloc(size_t n, size_t size);
void *ff_mem_alloc0(size_t n, size_t size);
/* Grow or shrink to n * size bytes, keeping the contents; on failure NULL, the old block stays. Local */
void *ff_mem_resize(void *p, size_t n, size_t size);
void ff_free(void *p); /* NULL is fine */
char *ff_strdup(const char *s);
/* memcpy by all threads, for blocks of many MiB that one core would copy at a fraction of the memory's speed. Local */
void ff_mem_copy(void *to, const void *from, size_t bytes);

#define FF_NEW(p, n)  (((p) = ff_mem_alloc((size_t)(n), sizeof *(p))) != NULL ? FF_OK : FF_E_MEM)
#define FF_NEW0(p, n) (((p) = ff_mem_alloc0((size_t)(n), sizeof *(p))) != NULL ? FF_OK : FF_E_MEM)
#define FF_FREE(p)    (ff_free(p), (p) = NULL)

/* Make room for at least need elements of *p, growing by half; *cap is in elements. Local */
ff_status ff_mem_reserve(void *p_ptr, int64_t *cap, int64_t need, size_t size);

void ff_mem_set_budget(size_t bytes); /* 0: none */
size_t ff_mem_budget(void);
size_t ff_mem_used(void);
size_t ff_mem_peak(void);
void ff_mem_reset_peak(void); /* the peak starts again from what is in use */
size_t ff_mem_blocks(void);   /* live blocks; 0 at a clean exit */

/* Fault injection for tests: the n-th allocation from now (1 = next) fails once; 0 switches it off. Local */
void ff_mem_fail_at(int64_t n);
bool ff_mem_fault_hit(void); /* whether the armed fault has fired */

/* An arena hands out 64-byte aligned pieces of one block and frees them together. */
typedef struct ff_arena {
    char *base;
    size_t size, used;
} ff_arena;
ff_status ff_arena_create(ff_arena *a, size_t bytes);
void *ff_arena_get(ff_arena *a, size_t n,
                   size_t size); /* NULL if it does not fit: a bug in a *_bytes() query */
void ff_arena_reset(ff_arena *a);
void ff_arena_destroy(ff_arena *a);

#endif
