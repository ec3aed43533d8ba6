#include "ff_bytes.h"

#include "ff_mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { BLOCK = 1 << 18, SMALL = 1 << 12 };

/* buf [cap + 1]: bytes [pos, end) are read and not yet taken; the spare byte holds the NUL of a last line
 * that has no newline. Source: gz, or the memory [mem, mem + mem_left). */
struct ff_bytes {
    char *path;
    gzFile gz;
    const char *mem;
    size_t mem_left;
    int64_t size; /* -1: unknown */
    char *buf;
    size_t cap, pos, end;
    bool at_eof, line_open;
    int64_t line_no;
};

/* A buffer for the whole of small files: a case of OpenFOAM has many. */
static size_t block_for(int64_t bytes)
{
    return bytes < SMALL ? SMALL : bytes < BLOCK ? (size_t)bytes + 1 : BLOCK;
}

static ff_status bytes_create(const char *path, int64_t bytes, ff_bytes **out)
{
    ff_bytes *b;
    FF_TRY(FF_NEW0(b, 1));
    *out = b;
    b->size = -1;
    b->cap = block_for(bytes);
    b->path = ff_strdup(path);
    if (b->path == NULL) return FF_E_MEM;
    return FF_NEW(b->buf, b->cap + 1);
}

ff_status ff_bytes_open(const char *path, ff_bytes **out)
{
    struct stat info;
    ff_bytes *b = NULL;
    ff_status st = FF_OK;
    *out = NULL;
    if (stat(path, &info) != 0) return ff_fail(FF_E_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return ff_fail(FF_E_INPUT, "%s: is a folder, expected a file", path);
    if (!S_ISREG(info.st_mode)) /* readers open a file twice: a pipe would lose its beginning */
        return ff_fail(FF_E_INPUT, "%s: is a pipe or device, expected a regular file", path);
    FF_GO(bytes_create(path, (int64_t)info.st_size, &b));
    b->gz = gzopen(path, "rbe");
    if (b->gz == NULL) {
        st = ff_fail(FF_E_INPUT, "%s: cannot be opened: %s", path, strerror(errno != 0 ? errno : ENOMEM));
        goto done;
    }
    (void)gzbuffer(b->gz, (unsigned)block_for((int64_t)info.st_size));
    if (gzdirect(b->gz)) b->size = (int64_t)info.st_size;
done:
    if (st != FF_OK) ff_bytes_close(&b);
    *out = b;
    return st;
}

ff_status ff_bytes_open_memory(const char *name, const void *data, size_t bytes, ff_bytes **out)
{
    ff_bytes *b = NULL;
    ff_status st = bytes_create(name, (int64_t)bytes, &b);
    if (st == FF_OK) {
        b->mem = data;
        b->mem_left = bytes;
        b->size = (int64_t)bytes;
    } else {
        ff_bytes_close(&b);
    }
    *out = b;
    return st;
}

void ff_bytes_close(ff_bytes **b)
{
    if (*b == NULL) return;
    if ((*b)->gz != NULL) (void)gzclose_r((*b)->gz);
    ff_free((*b)->buf);
    ff_free((*b)->path);
    FF_FREE(*b);
}

const char *ff_bytes_path(const ff_bytes *b)
{
    return b->path;
}
int64_t ff_bytes_size(const ff_bytes *b)
{
    return b->size;
}
int64_t ff_bytes_line_no(const ff_bytes *b)
{
    return b->line_no;
}

bool ff_bytes_line_open(const ff_bytes *b)
{
    return b->line_open;
}

static ff_status gz_failure(const ff_bytes *b)
{
    int code = Z_OK;
    const char *text = gzerror(b->gz, &code);
    if (code == Z_OK) return FF_OK;
    if (code == Z_ERRNO) return ff_fail(FF_E_IO, "%s: reading failed: %s", b->path, strerror(errno));
    return ff_fail(FF_E_INPUT,
                   "%s: gzip data broken after %lld bytes of content (%s): cut or damaged, fetch it again",
                   b->path, (long long)gztell(b->gz), code == Z_BUF_ERROR ? "unexpected end" : text);
}

/* Reads once into buf[end, cap); at_eof says that nothing came. */
static ff_status fill(ff_bytes *b)
{
    size_t want = b->cap - b->end, got = 0;
    if (b->gz != NULL) {
        int n = gzread(b->gz, b->buf + b->end, want < (1u << 30) ? (unsigned)want : 1u << 30);
        if (n <= 0) FF_TRY(gz_failure(b));
        got = n > 0 ? (size_t)n : 0;
    } else {
        got = want < b->mem_left ? want : b->mem_left;
        if (got > 0) memcpy(b->buf + b->end, b->mem, got);
        b->mem += got;
        b->mem_left -= got;
    }
    b->end += got;
    b->at_eof = got == 0;
    return FF_OK;
}

/* Makes room in buf (moves the rest to its front, else doubles it) and reads once. */
static ff_status refill(ff_bytes *b)
{
    if (b->pos > 0) {
        memmove(b->buf, b->buf + b->pos, b->end - b->pos);
        b->end -= b->pos;
        b->pos = 0;
    }
    if (b->end == b->cap) {
        char *bigger = ff_mem_resize(b->buf, 2 * b->cap + 1, 1);
        if (bigger == NULL) return FF_E_MEM;
        b->buf = bigger;
        b->cap *= 2;
    }
    return fill(b);
}

ff_status ff_bytes_peek(ff_bytes *b, size_t n, const unsigned char **p, size_t *got)
{
    while (b->end - b->pos < n && !b->at_eof) FF_TRY(refill(b));
    *got = b->end - b->pos < n ? b->end - b->pos : n;
    *p = (const unsigned char *)b->buf + b->pos;
    return FF_OK;
}

ff_status ff_bytes_take(ff_bytes *b, size_t n, const unsigned char **p)
{
    size_t got;
    FF_TRY(ff_bytes_peek(b, n, p, &got));
    if (got < n)
        *p = NULL;
    else
        b->pos += n;
    return FF_OK;
}

ff_status ff_bytes_skip(ff_bytes *b, int64_t n)
{
    int64_t here = (int64_t)(b->end - b->pos);
    if (n > here && b->gz != NULL && b->size >= 0) {
        if (gzseek(b->gz, (z_off_t)(n - here), SEEK_CUR) < 0) return gz_failure(b);
        b->pos = b->end;
        return FF_OK;
    }
    for (const unsigned char *p; n > 0;) {
        size_t part = n < BLOCK ? (size_t)n : BLOCK;
        FF_TRY(ff_bytes_take(b, part, &p));
        if (p == NULL) return ff_fail(FF_E_INPUT, "%s: ends %lld bytes early", b->path, (long long)n);
        n -= (int64_t)part;
    }
    return FF_OK;
}

/* Length of the next line with its LF, or of the rest of the file; 0 at the end. */
static ff_status line_length(ff_bytes *b, size_t *len)
{
    for (size_t seen = 0;;) {
        char *start = b->buf + b->pos;
        char *lf = memchr(start + seen, '\n', b->end - b->pos - seen);
        if (lf != NULL) {
            *len = (size_t)(lf - start) + 1;
            return FF_OK;
        }
        seen = b->end - b->pos;
        if (b->at_eof) {
            *len = seen;
            return FF_OK;
        }
        FF_TRY(refill(b));
    }
}

ff_status ff_bytes_line(ff_bytes *b, char **line, size_t *len)
{
    size_t n;
    *line = NULL;
    *len = 0;
    FF_TRY(line_length(b, &n));
    if (n == 0) return FF_OK;
    char *s = b->buf + b->pos;
    b->pos += n;
    b->line_no++;
    b->line_open = s[n - 1] != '\n';
    if (!b->line_open) n--;
    if (n > 0 && s[n - 1] == '\r') n--;
    s[n] = 0;
    if (memchr(s, 0, n) != NULL) return ff_bytes_fail(b, "a NUL byte, expected text");
    if (b->line_no == 1 && n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0) s += 3, n -= 3;
    *line = s;
    *len = n;
    return FF_OK;
}

ff_status(ff_bytes_fail)(const ff_bytes *b, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ff_fail(FF_E_INPUT, "%s: line %lld: %s", b->path, (long long)b->line_no, text);
}
