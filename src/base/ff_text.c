#include "ff_text.h"

#include "ff_log.h"
#include "ff_mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

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

ff_status ff_text_write(const ff_text *t, const char *path)
{
    ff_status st = FF_OK;
    FILE *f = NULL;
    ff_text tmp = {0};
    FF_TRY(t->st);
    if (strcmp(path, "-") == 0) {
        ff_print("%s", ff_text_get(t));
        return FF_OK;
    }
    ff_text_add(&tmp, "%s.tmp", path);
    FF_GO(tmp.st);
    f = fopen(tmp.s, "w");
    if (f == NULL) {
        st = ff_fail(FF_E_IO, "%s: cannot be written: %s", path, strerror(errno));
        goto done;
    }
    bool good =
        fwrite(ff_text_get(t), 1, (size_t)t->n, f) == (size_t)t->n && fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (fclose(f) != 0) good = false;
    if (good) good = rename(tmp.s, path) == 0;
    if (!good) {
        st = ff_fail(FF_E_IO, "%s: writing failed: %s; is the disk full?", path, strerror(errno));
        (void)unlink(tmp.s);
    }
done:
    ff_text_free(&tmp);
    return st;
}
