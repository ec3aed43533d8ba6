/* Nodes of an ADF container. The layout is the one of the ADF manual of CGNS: chunks between tags, numbers as ASCII
 * hexadecimal digits (version A) or partly binary (version B), pointers of 8 + 4 bytes: a block of 4096 bytes and a
 * place in it. We read it ourselves: libcgns keeps blocks of memory, and believes most of what a damaged file says. */
#include "ff_cgns_tree.h"

#include "ff_log.h"
#include "ff_mem.h"
#include "ff_mesh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 4096, HEADER = 186, NODE = 246, ENTRY = 44, TAG = 4, POINTER = 12, CHUNK = TAG + POINTER };
enum { FILES = 32, LINKS = 32, LINK_TEXT = 4096 };

typedef struct adf_file {
    char *path;
    int fd;
    int64_t bytes;
    bool binary;    /* version B: pointers and dimensions are binary */
    bool swap;      /* byte order of binary numbers is not ours */
    int long_bytes; /* of I8 and U8 */
    int64_t root;   /* byte where the root node begins */
} adf_file;

struct cgns_adf {
    int n_files;
    adf_file file[FILES]; /* [0] the one opened; others are linked to */
};

static ff_status adf_fail(const adf_file *f, int64_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static ff_status adf_fail(const adf_file *f, int64_t at, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ff_fail(FF_E_INPUT, "%s: byte %lld: %s: cut or damaged, fetch or write it again", f->path,
                   (long long)at, text);
}

/* ---- bytes and numbers ---- */

static ff_status read_at(const adf_file *f, int64_t at, int64_t n, void *out)
{
    if (at < 0 || at > f->bytes || n > f->bytes - at)
        return adf_fail(f, at, "%lld bytes are wanted here, the file has %lld", (long long)n,
                        (long long)f->bytes);
    for (int64_t got = 0; got < n;) {
        ssize_t k = pread(f->fd, (char *)out + got, (size_t)(n - got), (off_t)(at + got));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return ff_fail(FF_E_IO, "%s: reading failed: %s", f->path, strerror(k < 0 ? errno : EIO));
        got += k;
    }
    return FF_OK;
}

/* n hexadecimal digits; -1 if they are none. */
static int64_t hex(const unsigned char *p, int n)
{
    int64_t v = 0;
    for (int i = 0; i < n; i++) {
        int digit = p[i] >= '0' && p[i] <= '9'   ? p[i] - '0'
                    : p[i] >= 'A' && p[i] <= 'F' ? p[i] - 'A' + 10
                    : p[i] >= 'a' && p[i] <= 'f' ? p[i] - 'a' + 10
                                                 : -1;
        if (digit < 0) return -1;
        v = 16 * v + digit;
    }
    return v;
}

/* n values of size bytes to our byte order, in place. */
static void turn(const adf_file *f, unsigned char *p, int64_t n, int64_t size)
{
    for (int64_t i = 0; f->swap && i < n; i++, p += size)
        for (int64_t a = 0, b = size - 1; a < b; a++, b--) {
            unsigned char c = p[a];
            p[a] = p[b];
            p[b] = c;
        }
}

/* A number of 8 bytes. */
static int64_t number(const adf_file *f, const unsigned char *p)
{
    int64_t v;
    unsigned char raw[8];
    if (!f->binary) return hex(p, 8);
    memcpy(raw, p, sizeof raw);
    turn(f, raw, 1, 8);
    memcpy(&v, raw, sizeof v);
    return v;
}

/* The byte that a pointer leads to; -1 if it is none. */
static int64_t pointer(const adf_file *f, const unsigned char *p)
{
    int32_t offset;
    unsigned char raw[4];
    int64_t block = number(f, p);
    memcpy(raw, p + 8, sizeof raw);
    turn(f, raw, 1, 4);
    memcpy(&offset, raw, sizeof offset);
    int64_t within = f->binary ? offset : hex(p + 8, 4);
    return block < 0 || block > (int64_t)1 << 48 || within < 0 || within > BLOCK ? -1
                                                                                 : block * BLOCK + within;
}

static bool has_tag(const unsigned char *p, const char *tag)
{
    return memcmp(p, tag, TAG) == 0;
}

/* n characters without the blanks behind them. */
static void text_of(const unsigned char *p, int n, char *out)
{
    memmove(out, p, (size_t)n); /* out may be p */
    out[n] = 0;
    for (; n > 0 && (out[n - 1] == ' ' || out[n - 1] == 0); n--) out[n - 1] = 0;
}

/* ---- files ---- */

static ff_status read_header(adf_file *f)
{
    static const struct {
        int at;
        const char *tag;
    } tags[] = {{32, "AdF0"}, {64, "AdF1"}, {96, "AdF2"}, {102, "AdF3"}, {130, "AdF4"}, {182, "AdF5"}};
    unsigned char h[HEADER];
    const union {
        uint16_t word;
        unsigned char byte[2];
    } probe = {.word = 1};
    FF_TRY(read_at(f, 0, HEADER, h));
    if (memcmp(h + 4, "ADF Database", 12) != 0) return adf_fail(f, 4, "expected the words ADF Database");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (!has_tag(h + tags[i].at, tags[i].tag))
            return adf_fail(f, tags[i].at, "expected the tag %s", tags[i].tag);
    if ((h[25] != 'A' && h[25] != 'B') || (h[100] != 'L' && h[100] != 'B'))
        return ff_fail(FF_E_UNSUPPORTED,
                       "%s: ADF of version %c with numbers of format %c, expected version A or B and format "
                       "L or B; convert it with adf2hdf",
                       f->path, h[25] >= ' ' && h[25] < 127 ? h[25] : '?',
                       h[100] >= ' ' && h[100] < 127 ? h[100] : '?');
    f->binary = h[25] == 'B';
    f->swap = (h[100] == 'L') != (probe.byte[0] == 1);
    f->long_bytes = (int)hex(h + 112, 2);
    if (hex(h + 110, 2) != 4 || hex(h + 114, 2) != 4 || hex(h + 116, 2) != 8 ||
        (f->long_bytes != 4 && f->long_bytes != 8))
        return adf_fail(f, 106,
                        "unusual sizes of numbers, expected 4 (int, float), 8 (double), 4 or 8 (long)");
    f->root = pointer(f, h + 134);
    int64_t end = pointer(f, h + 146); /* the last byte that is used */
    if (end < 0 || end >= f->bytes)
        return ff_fail(FF_E_INPUT,
                       "%s: has %lld bytes, expected more than %lld as its header says: cut, fetch it again",
                       f->path, (long long)f->bytes, (long long)end);
    if (f->bytes % BLOCK != 0)
        ff_warn("%s: ends inside a block of %d bytes; all that its header counts is there", f->path, BLOCK);
    return FF_OK;
}

/* Opens path (taken over); *out: its number. A file that is open already is found again. */
static ff_status open_file(cgns_adf *a, char *path, int *out)
{
    struct stat info;
    for (*out = 0; *out < a->n_files; ++*out)
        if (strcmp(a->file[*out].path, path) == 0) {
            ff_free(path);
            return FF_OK;
        }
    if (a->n_files == FILES) {
        ff_free(path);
        return ff_fail(FF_E_UNSUPPORTED, "%s: links lead to more than %d files", a->file[0].path, FILES - 1);
    }
    adf_file *f = &a->file[a->n_files++];
    *f = (adf_file){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (f->fd < 0 || fstat(f->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return ff_fail(FF_E_INPUT, "%s: cannot be opened: %s", path,
                       f->fd < 0 ? strerror(errno) : "no regular file");
    f->bytes = (int64_t)info.st_size;
    return read_header(f);
}

/* ---- data ---- */

/* Bytes of data in the chunk that begins at byte at. */
static ff_status chunk_size(const adf_file *f, int64_t at, int64_t *n)
{
    unsigned char head[CHUNK], tail[TAG];
    FF_TRY(read_at(f, at, CHUNK, head));
    int64_t end = pointer(f, head + TAG);
    if (!has_tag(head, "DaTa") || end < at + CHUNK) return adf_fail(f, at, "expected a chunk of data");
    FF_TRY(read_at(f, end, TAG, tail));
    if (!has_tag(tail, "dEnD")) return adf_fail(f, end, "expected the end of a chunk of data");
    *n = end - at - CHUNK;
    return FF_OK;
}

/* As much of the chunk at byte at as is wanted, to out + *done. */
static ff_status read_chunk(const adf_file *f, int64_t at, int64_t want, int64_t *done, unsigned char *out)
{
    int64_t n = 0;
    FF_TRY(chunk_size(f, at, &n));
    if (n > want - *done) n = want - *done;
    FF_TRY(read_at(f, at + CHUNK, n, out + *done));
    *done += n;
    return FF_OK;
}

/* want bytes of the data of a node with this header. */
static ff_status read_data(const adf_file *f, const unsigned char *node, int64_t at, int64_t want,
                           unsigned char *out)
{
    unsigned char entry[2 * POINTER], head[CHUNK];
    int64_t n = hex(node + 226, 4), first = pointer(f, node + 230), done = 0;
    if (n == 1) FF_TRY(read_chunk(f, first, want, &done, out));
    if (n > 1) {
        FF_TRY(read_at(f, first, CHUNK, head));
        if (!has_tag(head, "DCtb")) return adf_fail(f, first, "expected a table of chunks");
    }
    for (int64_t i = 0; n > 1 && i < n && done < want; i++) {
        FF_TRY(read_at(f, first + CHUNK + i * 2 * POINTER, 2 * POINTER, entry));
        FF_TRY(read_chunk(f, pointer(f, entry), want, &done, out));
    }
    if (done == want) return FF_OK;
    return adf_fail(f, at, "a node has %lld bytes of data, expected %lld", (long long)done, (long long)want);
}

/* ---- nodes ---- */

static ff_status read_node_header(const adf_file *f, int64_t at, unsigned char node[NODE])
{
    FF_TRY(read_at(f, at, NODE, node));
    if (has_tag(node, "NoDe") && has_tag(node + NODE - TAG, "TaiL")) return FF_OK;
    return adf_fail(f, at, "expected a node");
}

/* Number of children and where their entries begin. */
static ff_status child_table(const adf_file *f, const unsigned char *node, int64_t *n, int64_t *first)
{
    unsigned char head[CHUNK];
    int64_t at = pointer(f, node + 84);
    *n = hex(node + 68, 8);
    if (*n == 0) return FF_OK;
    FF_TRY(read_at(f, at, CHUNK, head));
    if (!has_tag(head, "SNTb")) return adf_fail(f, at, "expected a table of children");
    if (*n < 0 || *n > (f->bytes - at) / ENTRY)
        return adf_fail(f, at, "a node claims %lld children, more than the file can hold", (long long)*n);
    *first = at + CHUNK;
    return FF_OK;
}

/* Moves *at from a node to its child of that name. */
static ff_status step_down(const adf_file *f, const char *name, int64_t *at)
{
    unsigned char node[NODE], entry[ENTRY];
    char child[CGNS_NAME];
    int64_t n, first = 0;
    FF_TRY(read_node_header(f, *at, node));
    FF_TRY(child_table(f, node, &n, &first));
    for (int64_t i = 0; i < n; i++) {
        FF_TRY(read_at(f, first + i * ENTRY, ENTRY, entry));
        text_of(entry, CGNS_NAME - 1, child);
        if (strcmp(child, name) != 0) continue;
        *at = pointer(f, entry + CGNS_NAME - 1);
        return FF_OK;
    }
    return ff_fail(FF_E_INPUT, "%s: a link leads to %s, which is not there", f->path, name);
}

/* The file a link names, "" for its own, as a path of its own. */
static ff_status linked_file(cgns_adf *a, int *file, const char *name)
{
    const char *from = a->file[*file].path, *slash = strrchr(from, '/');
    size_t folder = slash != NULL && name[0] != '/' ? (size_t)(slash - from) + 1 : 0;
    char *path;
    if (name[0] == 0) return FF_OK;
    FF_TRY(FF_NEW(path, folder + strlen(name) + 1));
    memcpy(path, from, folder);
    memcpy(path + folder, name, strlen(name) + 1);
    return open_file(a, path, file);
}

/* Follows the link with this header, text "file>/path/to/node", to the node it leads to. */
static ff_status follow(cgns_adf *a, int *file, int64_t *at, const unsigned char *node)
{
    char text[LINK_TEXT + 1], *rest = NULL;
    const adf_file *f = &a->file[*file];
    int64_t n = number(f, node + 130);
    if (n < 1 || n > LINK_TEXT) return adf_fail(f, *at, "a link with %lld characters", (long long)n);
    FF_TRY(read_data(f, node, *at, n, (unsigned char *)text));
    text_of((unsigned char *)text, (int)n, text);
    char *path = strchr(text, '>');
    if (path == NULL) return adf_fail(f, *at, "a link without its >");
    *path++ = 0;
    FF_TRY(linked_file(a, file, text));
    f = &a->file[*file];
    *at = f->root;
    for (char *name = strtok_r(path, "/", &rest); name != NULL; name = strtok_r(NULL, "/", &rest))
        FF_TRY(step_down(f, name, at));
    return FF_OK;
}

/* The header of the node at *at; where it is a link, of the one it leads to. name: the first one's. */
static ff_status find_node(cgns_adf *a, int *file, int64_t *at, unsigned char node[NODE], char *name)
{
    for (int links = 0;; links++) {
        FF_TRY(read_node_header(&a->file[*file], *at, node));
        if (links == 0) text_of(node + TAG, CGNS_NAME - 1, name);
        if (memcmp(node + 96, "LK", 2) != 0) return FF_OK;
        if (links == LINKS) return adf_fail(&a->file[*file], *at, "links lead in a circle");
        FF_TRY(follow(a, file, at, node));
    }
}

static ff_status list_node(cgns_tree *t, int64_t parent, int file, int64_t at, int depth)
{
    unsigned char node[NODE], entry[ENTRY];
    char type[33];
    cgns_node n = {0};
    int64_t made, children, first = 0;
    FF_TRY(find_node(t->adf, &file, &at, node, n.name));
    const adf_file *f = &t->adf->file[file];
    n.file = file;
    n.at = at;
    text_of(node + 36, CGNS_NAME - 1, n.label);
    text_of(node + 96, 32, type);
    (void)snprintf(n.type, sizeof n.type, "%.3s", type);
    n.n_dims = cgns_type_size(n.type) > 0 ? (int)hex(node + 128, 2) : 0;
    if (n.n_dims < 0 || n.n_dims > CGNS_DIMS)
        return adf_fail(f, at, "%d dimensions, expected at most %d", n.n_dims, CGNS_DIMS);
    for (int i = 0; i < n.n_dims; i++) n.dim[i] = number(f, node + 130 + 8 * i);
    FF_TRY(cgns_add(t, parent, &n, &made));
    if (depth > 0 && !cgns_descends(n.label, depth)) return FF_OK;
    FF_TRY(child_table(f, node, &children, &first));
    for (int64_t i = 0; i < children; i++) {
        FF_TRY(read_at(f, first + i * ENTRY, ENTRY, entry));
        FF_TRY(list_node(t, made, file, pointer(f, entry + CGNS_NAME - 1), depth + 1));
    }
    return FF_OK;
}

ff_status cgns_adf_open(cgns_tree *t)
{
    int file;
    FF_TRY(FF_NEW0(t->adf, 1));
    char *path = ff_strdup(t->path);
    if (path == NULL) return FF_E_MEM;
    FF_TRY(open_file(t->adf, path, &file));
    return list_node(t, -1, file, t->adf->file[file].root, 0);
}

void cgns_adf_close(cgns_tree *t)
{
    if (t->adf == NULL) return;
    for (int i = 0; i < t->adf->n_files; i++) {
        if (t->adf->file[i].fd >= 0) (void)close(t->adf->file[i].fd);
        ff_free(t->adf->file[i].path);
    }
    FF_FREE(t->adf);
}

/* From 4 to 8 bytes a value, from the last one on, in place. */
static void widen_longs(const char *type, unsigned char *p, int64_t n)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        uint32_t u;
        memcpy(&u, p + 4 * i, sizeof u);
        int64_t v = type[0] == 'I' ? (int64_t)(int32_t)u : (int64_t)u;
        memcpy(p + 8 * i, &v, sizeof v);
    }
}

ff_status cgns_adf_read(const cgns_tree *t, int64_t node, unsigned char **out)
{
    const cgns_node *n = &t->node[node];
    const adf_file *f = &t->adf->file[n->file];
    unsigned char header[NODE];
    int64_t size = (int64_t)cgns_type_size(n->type), stored = size;
    *out = NULL;
    if (size == 8 && n->type[0] != 'R') stored = f->long_bytes;
    if (n->n > f->bytes / stored)
        return cgns_fail(t, node, "claims %lld values, more than the file can hold", (long long)n->n);
    FF_TRY(read_node_header(f, n->at, header));
    FF_TRY(FF_NEW0(*out, n->n * size));
    ff_status st = read_data(f, header, n->at, n->n * stored, *out);
    if (st != FF_OK) {
        FF_FREE(*out);
        return st;
    }
    turn(f, *out, n->n, stored);
    if (stored < size) widen_longs(n->type, *out, n->n);
    return FF_OK;
}
