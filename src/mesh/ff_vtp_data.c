/* Decoding of VTP arrays: words, base64 or raw bytes, zlib blocks, byte order. */
#include "ff_vtp_impl.h"

#include "ff_bytes.h"
#include "ff_mem.h"

#include <string.h>
#include <zlib.h>

static const size_t type_size[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

/* ---- a stream of bytes, raw or base64 ---- */

typedef struct {
    bool base64;
    const unsigned char *p, *end;
    unsigned char ready[3]; /* decoded, not yet taken */
    int n_ready;
} stream;

static int digit(unsigned char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : c == '=' ? 64 : -1;
}

/* The next four characters. Padding may also stand in the middle: headers are often encoded for themselves.
 */
static bool next_quad(stream *s)
{
    int d[4];
    for (int i = 0; i < 4; i++) {
        while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t')) s->p++;
        if (s->p == s->end || (d[i] = digit(*s->p++)) < 0) return false;
    }
    if (d[0] == 64 || d[1] == 64 || (d[2] == 64 && d[3] != 64)) return false;
    unsigned char b[3] = {(unsigned char)(d[0] << 2 | d[1] >> 4),
                          (unsigned char)((d[1] & 15) << 4 | (d[2] & 63) >> 2),
                          (unsigned char)((d[2] & 3) << 6 | (d[3] & 63))};
    s->n_ready = d[2] == 64 ? 1 : d[3] == 64 ? 2 : 3;
    memcpy(s->ready + 3 - s->n_ready, b, (size_t)s->n_ready); /* at the end of ready, taken from its front */
    return true;
}

static bool take(stream *s, void *out, size_t n)
{
    unsigned char *o = out;
    if (!s->base64) {
        if ((size_t)(s->end - s->p) < n) return false;
        if (n > 0) memcpy(o, s->p, n);
        s->p += n;
        return true;
    }
    while (n > 0) {
        if (s->n_ready == 0 && !next_quad(s)) return false;
        *o++ = s->ready[3 - s->n_ready--];
        n--;
    }
    return true;
}

/* At most this many bytes can still come. */
static double left(const stream *s)
{
    double n = (double)(s->end - s->p);
    return s->base64 ? n * 0.75 + s->n_ready : n;
}

static ff_status open_stream(const vtp_doc *d, const vtp_array *a, stream *s)
{
    const char *text = a->text != NULL ? a->text : ""; /* NULL: nothing stood between the tags */
    *s = (stream){
        .base64 = true, .p = (const unsigned char *)text, .end = (const unsigned char *)text + a->n_text};
    if (a->format != VTP_APPENDED) return FF_OK;
    if (d->appended == 0) return vtp_fail(d, a, "appended format, but the file has no AppendedData");
    if ((uint64_t)a->offset > d->bytes - d->appended)
        return vtp_fail(d, a, "offset %lld lies behind the end of the file", (long long)a->offset);
    s->base64 = d->appended_base64;
    s->p = d->data + d->appended + a->offset;
    s->end = d->data + d->bytes;
    return FF_OK;
}

/* ---- blocks ---- */

static void reverse(unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        unsigned char t = p[i];
        p[i] = p[n - 1 - i];
        p[n - 1 - i] = t;
    }
}

static bool take_word(const vtp_doc *d, stream *s, uint64_t *out)
{
    unsigned char b[8];
    size_t n = d->wide_header ? 8 : 4;
    uint32_t narrow;
    if (!take(s, b, n)) return false;
    if (d->swap) reverse(b, n);
    memcpy(&narrow, b, sizeof narrow);
    memcpy(out, b, n == 8 ? 8 : 0);
    if (n == 4) *out = narrow;
    return true;
}

/* Sizes of an array's bytes in the file: one block as it is, or zlib blocks. */
typedef struct {
    uint64_t n, size, last,
        total;        /* blocks, bytes of a full block, bytes of the last one, of all, uncompressed */
    uint64_t *packed; /* [n] compressed bytes, NULL if not compressed */
} block_list;

static ff_status read_blocks(const vtp_doc *d, const vtp_array *a, stream *s, block_list *b)
{
    *b = (block_list){0};
    if (!take_word(d, s, &b->n)) return vtp_fail(d, a, "ends before its header");
    if (!d->zlib) {
        b->total = b->n;
        if ((double)b->total > left(s))
            return vtp_fail(d, a, "claims %llu bytes, the file ends after %.0f", (unsigned long long)b->total,
                            left(s));
        return FF_OK;
    }
    if (!take_word(d, s, &b->size) || !take_word(d, s, &b->last))
        return vtp_fail(d, a, "ends inside its block header");
    if (b->last == 0) b->last = b->size;
    double total = b->n > 0 ? (double)(b->n - 1) * (double)b->size + (double)b->last : 0;
    if ((double)b->n > left(s) / (d->wide_header ? 8 : 4) || b->last > b->size ||
        total > 1100.0 * left(s)) /* deflate packs at most about 1030 : 1 */
        return vtp_fail(d, a, "claims %llu blocks of %llu bytes, more than the file can hold",
                        (unsigned long long)b->n, (unsigned long long)b->size);
    b->total = b->n > 0 ? (b->n - 1) * b->size + b->last : 0;
    FF_TRY(FF_NEW(b->packed, b->n));
    for (uint64_t i = 0; i < b->n; i++)
        if (!take_word(d, s, &b->packed[i])) return vtp_fail(d, a, "ends inside its block header");
    return FF_OK;
}

static ff_status unpack_block(const vtp_doc *d, const vtp_array *a, stream *s, uint64_t packed,
                              unsigned char *out, uint64_t bytes)
{
    if ((double)packed > left(s)) return vtp_fail(d, a, "ends inside a compressed block");
    unsigned char *in = ff_mem_alloc(packed, 1);
    if (in == NULL) return FF_E_MEM;
    ff_status st = FF_OK;
    uLongf got = (uLongf)bytes;
    if (!take(s, in, packed))
        st = vtp_fail(d, a, "ends inside a compressed block, or is no base64");
    else if (uncompress(out, &got, in, (uLong)packed) != Z_OK || got != bytes)
        st = vtp_fail(d, a, "a compressed block is damaged, expected %llu bytes of zlib data",
                      (unsigned long long)bytes);
    ff_free(in);
    return st;
}

/* All bytes of a binary or appended array. */
static ff_status read_bytes(const vtp_doc *d, const vtp_array *a, unsigned char **out, uint64_t *bytes)
{
    stream s;
    block_list b = {0};
    unsigned char *data = NULL;
    ff_status st;
    FF_GO(open_stream(d, a, &s));
    FF_GO(read_blocks(d, a, &s, &b));
    FF_GO(FF_NEW(data, b.total));
    if (!d->zlib && !take(&s, data, b.total)) FF_GO(vtp_fail(d, a, "ends early, or is no base64"));
    for (uint64_t i = 0; d->zlib && i < b.n; i++)
        FF_GO(unpack_block(d, a, &s, b.packed[i], data + i * b.size, i + 1 < b.n ? b.size : b.last));
    *out = data;
    *bytes = b.total;
    data = NULL;
done:
    ff_free(data);
    ff_free(b.packed);
    return st;
}

/* ---- conversion ---- */

#define WIDEN(T)                                                                                             \
    do {                                                                                                     \
        T v;                                                                                                 \
        memcpy(&v, p, sizeof v);                                                                             \
        if (f != NULL)                                                                                       \
            *f = (double)v;                                                                                  \
        else                                                                                                 \
            *g = (int64_t)v;                                                                                 \
    } while (0)

/* One value to *f, or to *g if f is NULL. */
static void widen(vtp_type t, const unsigned char *p, double *f, int64_t *g)
{
    switch (t) {
    case VTP_I8:
        WIDEN(int8_t);
        break;
    case VTP_U8:
        WIDEN(uint8_t);
        break;
    case VTP_I16:
        WIDEN(int16_t);
        break;
    case VTP_U16:
        WIDEN(uint16_t);
        break;
    case VTP_I32:
        WIDEN(int32_t);
        break;
    case VTP_U32:
        WIDEN(uint32_t);
        break;
    case VTP_I64:
        WIDEN(int64_t);
        break;
    case VTP_U64:
        WIDEN(uint64_t);
        break;
    case VTP_F32:
        WIDEN(float);
        break;
    default:
        WIDEN(double);
        break;
    }
}

static ff_status convert(const vtp_doc *d, const vtp_array *a, unsigned char *data, int64_t n, double *f,
                         int64_t *g)
{
    size_t size = type_size[a->type];
    for (int64_t i = 0; i < n; i++) {
        unsigned char *p = data + (size_t)i * size;
        if (d->swap) reverse(p, size);
        widen(a->type, p, f != NULL ? f + i : NULL, f != NULL ? NULL : g + i);
    }
    return FF_OK;
}

static ff_status parse_words(const vtp_doc *d, const vtp_array *a, int64_t n, double *f, int64_t *g)
{
    char *p = a->text, *w;
    size_t len;
    int64_t i = 0;
    for (; p != NULL && (w = ff_word(&p, &len)) != NULL; i++) {
        if (i >= n) return vtp_fail(d, a, "holds more than the expected %lld values", (long long)n);
        bool ok = f != NULL ? ff_word_double(w, len, f + i) : ff_word_i64(w, len, g + i);
        if (!ok)
            return vtp_fail(d, a, "value %lld is \"%s\", expected %s number", (long long)i, ff_show(w, len).s,
                            f != NULL ? "a" : "a whole");
    }
    return i == n ? FF_OK : vtp_fail(d, a, "holds %lld values, expected %lld", (long long)i, (long long)n);
}

static int64_t count_words(const vtp_array *a)
{
    int64_t n = 0;
    size_t len;
    for (char *p = a->text; p != NULL && ff_word(&p, &len) != NULL;) n++;
    return n;
}

ff_status vtp_count(const vtp_doc *doc, const vtp_array *a, int64_t *n)
{
    stream s;
    block_list b = {0};
    if (a->type == VTP_NO_NUMBER) return vtp_fail(doc, a, "has no numeric type");
    if (a->format == VTP_ASCII) {
        *n = count_words(a);
        return FF_OK;
    }
    FF_TRY(open_stream(doc, a, &s));
    ff_status st = read_blocks(doc, a, &s, &b);
    *n = (int64_t)(b.total / type_size[a->type]);
    ff_free(b.packed);
    return st;
}

/* Into f [n] or, if f is NULL, g [n]; the caller has checked that the array holds n values. */
static ff_status decode(const vtp_doc *d, const vtp_array *a, int64_t n, double *f, int64_t *g)
{
    unsigned char *data;
    uint64_t bytes;
    if (a->format == VTP_ASCII) return parse_words(d, a, n, f, g);
    FF_TRY(read_bytes(d, a, &data, &bytes));
    ff_status st = convert(d, a, data, n, f, g);
    ff_free(data);
    return st;
}

static ff_status expect(const vtp_doc *d, const vtp_array *a, int64_t n)
{
    int64_t have;
    FF_TRY(vtp_count(d, a, &have));
    if (have == n) return FF_OK;
    if (have > n) return vtp_fail(d, a, "holds more than the expected %lld values", (long long)n);
    return vtp_fail(d, a, "holds %lld values, expected %lld", (long long)have, (long long)n);
}

ff_status vtp_decode_f64(const vtp_doc *doc, const vtp_array *a, int64_t n, double **out)
{
    *out = NULL;
    if (n > 0) FF_TRY(expect(doc, a, n));
    FF_TRY(FF_NEW(*out, n));
    ff_status st = n > 0 ? decode(doc, a, n, *out, NULL) : FF_OK;
    if (st != FF_OK) FF_FREE(*out);
    return st;
}

ff_status vtp_decode_i64(const vtp_doc *doc, const vtp_array *a, int64_t n, int64_t **out)
{
    *out = NULL;
    if (a->type >= VTP_F32) return vtp_fail(doc, a, "expected an integer type");
    if (n > 0) FF_TRY(expect(doc, a, n));
    FF_TRY(FF_NEW(*out, n));
    ff_status st = n > 0 ? decode(doc, a, n, NULL, *out) : FF_OK;
    if (st != FF_OK) FF_FREE(*out);
    return st;
}
