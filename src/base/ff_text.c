#include "ff_text.h"

#include "ff_mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ff_text_put(ff_text *t, const char *s, int64_t n)
{
    if (t->st != FF_OK) return;
    t->st = ff_mem_reserve(&t->s, &t->cap, t->n + n + 1, 1);
    if (t->st != FF_OK) return;
    memcpy(t->s + t->n, s, (size_t)n);
    t->n += n;
    t->s[t->n] = 0;
}

void ff_text_add(ff_text *t, const char *fmt, ...)
{
    va_list ap, again;
    if (t->st != FF_OK) return;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        t->st = ff_fail(FF_E_INTERNAL, "text format \"%s\" is not valid", fmt);
    } else {
        t->st = ff_mem_reserve(&t->s, &t->cap, t->n + n + 1, 1);
        if (t->st == FF_OK) t->n += vsnprintf(t->s + t->n, (size_t)n + 1, fmt, again);
    }
    va_end(again);
}

ff_status ff_text_status(const ff_text *t)
{
    return t->st;
}

const char *ff_text_get(const ff_text *t)
{
    return t->s != NULL ? t->s : "";
}

void ff_text_free(ff_text *t)
{
    ff_free(t->s);
    memset(t, 0, sizeof *t);
}
