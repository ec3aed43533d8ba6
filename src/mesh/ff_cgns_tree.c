#include "ff_cgns_tree.h"

#include "ff_bytes.h"
#include "ff_mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- nodes ---- */

/* Labels whose children matter, and the depth at which they stand. Their order in a file is a tree of that depth, so
 * that links cannot lead in circles. */
bool cgns_descends(const char *label, int depth)
{
    static const struct {
        const char *label;
        int depth;
    } rows[] = {{"CGNSBase_t", 1},         {"Zone_t", 2},
                {"GridCoordinates_t", 3},  {"Elements_t", 3},
                {"ZoneBC_t", 3},           {"ZoneGridConnectivity_t", 3},
                {"FlowSolution_t", 3},     {"BC_t", 4},
                {"GridConnectivity_t", 4}, {"GridConnectivity1to1_t", 4}};
    if (depth == 0) return true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].depth == depth && strcmp(rows[i].label, label) == 0) return true;
    return false;
}

size_t cgns_type_size(const char *type)
{
    static const char *const names[] = {"C1", "B1", "I4", "U4", "R4", "I8", "U8", "R8"};
    static const size_t size[] = {1, 1, 4, 4, 4, 8, 8, 8};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (strcmp(type, names[i]) == 0) return size[i];
    return 0;
}

ff_status cgns_add(cgns_tree *t, int64_t parent, const cgns_node *n, int64_t *out)
{
    if (t->n_nodes == 1 << 20) return ff_fail(FF_E_INPUT, "%s: more than 2^20 nodes", t->path);
    FF_TRY(ff_mem_reserve(&t->node, &t->cap, t->n_nodes + 1, sizeof *t->node));
    cgns_node *to = &t->node[t->n_nodes];
    *to = *n;
    to->parent = parent;
    to->child = to->last = to->next = -1;
    to->n = cgns_type_size(n->type) > 0 && n->n_dims > 0;
    for (char *p = to->name; *p != 0; p++)
        if ((unsigned char)*p < ' ') *p = '?'; /* names stand in messages and results, one a line */
    *out = t->n_nodes++;
    for (int i = 0; i < to->n_dims; i++) {
        if (to->dim[i] < 0 || (to->dim[i] > 0 && to->n > 1000000000000 / to->dim[i]))
            return cgns_fail(t, *out,
                             "dimension %d is %lld, expected 0 or more and fewer than 1e12 values in all",
                             i + 1, (long long)to->dim[i]);
        to->n *= to->dim[i];
    }
    if (parent < 0) return FF_OK;
    cgns_node *p = &t->node[parent];
    *(p->last >= 0 ? &t->node[p->last].next : &p->child) = *out;
    p->last = *out;
    return FF_OK;
}

int64_t cgns_find(const cgns_tree *t, int64_t node, const char *label, const char *name, int64_t after)
{
    if (node < 0) return -1;
    for (int64_t i = after < 0 ? t->node[node].child : t->node[after].next; i >= 0; i = t->node[i].next)
        if ((label == NULL || strcmp(t->node[i].label, label) == 0) &&
            (name == NULL || strcmp(t->node[i].name, name) == 0))
            return i;
    return -1;
}

ff_status cgns_fail(const cgns_tree *t, int64_t node, const char *fmt, ...)
{
    char text[512], place[256] = "";
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (int64_t i = node; i > 0; i = t->node[i].parent) {
        char longer[256];
        (void)snprintf(longer, sizeof longer, "/%s%.220s", t->node[i].name, place);
        memcpy(place, longer, sizeof place);
    }
    return ff_fail(FF_E_INPUT, "%s: %s: %s", t->path, place[0] != 0 ? place : "/", text);
}

/* ---- HDF5: a node is a group with attributes name, label, type and a dataset " data" ---- */

static ff_status copy_attr(const cgns_tree *t, const char *group, const char *attr, char *out, size_t size)
{
    char *text = NULL;
    out[0] = 0;
    if (!ff_h5_attr_exists(t->h5, group, attr)) return FF_OK;
    FF_TRY(ff_h5_attr_read_text(t->h5, group, attr, &text));
    (void)snprintf(out, size, "%s", text);
    for (size_t i = strlen(out); i > 0 && out[i - 1] == ' '; i--) out[i - 1] = 0;
    ff_free(text);
    return FF_OK;
}

static ff_status join(const char *group, const char *name, char **out)
{
    size_t a = strcmp(group, "/") == 0 ? 0 : strlen(group), b = strlen(name);
    FF_TRY(FF_NEW(*out, a + b + 2));
    memcpy(*out, group, a);
    (*out)[a] = '/';
    memcpy(*out + a + 1, name, b + 1);
    return FF_OK;
}

/* Shape of the node's data; the file's order of dimensions is the standard's turned round. */
static ff_status read_shape(const cgns_tree *t, cgns_node *n)
{
    char *data = NULL;
    ff_h5_shape s;
    ff_status st;
    FF_GO(join(n->path, " data", &data));
    if (!ff_h5_exists(t->h5, data)) goto done;
    FF_GO(ff_h5_shape_of(t->h5, data, &s));
    n->n_dims = s.rank > 0 ? s.rank : 1;
    for (int i = 0; i < s.rank; i++) n->dim[i] = s.dim[s.rank - 1 - i];
    if (s.rank == 0) n->dim[0] = 1;
done:
    ff_free(data);
    return st;
}

/* A node of the group at path (taken over); where it is a link, of the group it leads to. */
static ff_status add_group(cgns_tree *t, int64_t parent, const char *name, char *path, int64_t *out)
{
    cgns_node n = {.path = path};
    ff_status st;
    *out = -1;
    FF_GO(copy_attr(t, n.path, "type", n.type, sizeof n.type));
    if (strcmp(n.type, "LK") == 0) {
        char *target = NULL;
        FF_GO(join(n.path, " link", &target));
        ff_free(n.path);
        n.path = target;
        if (!ff_h5_exists(t->h5, n.path))
            FF_GO(cgns_fail(t, parent, "the link %.40s leads to nothing: is a file missing beside this one?",
                            name));
        FF_GO(copy_attr(t, n.path, "type", n.type, sizeof n.type));
    }
    FF_GO(copy_attr(t, n.path, "label", n.label, sizeof n.label));
    (void)snprintf(n.name, sizeof n.name, "%s", name);
    if (cgns_type_size(n.type) > 0) FF_GO(read_shape(t, &n));
    int64_t made = t->n_nodes;
    st = cgns_add(t, parent, &n, out);
    if (t->n_nodes > made) n.path = NULL; /* the tree has it now */
done:
    ff_free(n.path);
    return st;
}

static ff_status list_group(cgns_tree *t, int64_t node, int depth)
{
    char **name = NULL, *path;
    int n = 0;
    int64_t child;
    ff_status st;
    FF_GO(ff_h5_list_created(t->h5, t->node[node].path, &name, &n));
    for (int i = 0; i < n; i++) {
        if (name[i][0] == ' ') continue; /* " data" and other inner matters */
        FF_GO(join(t->node[node].path, name[i], &path));
        if (!ff_h5_attr_exists(t->h5, path, "label") || !ff_h5_attr_exists(t->h5, path, "type")) {
            ff_free(path);
            continue;
        }
        FF_GO(add_group(t, node, name[i], path, &child));
        if (cgns_descends(t->node[child].label, depth + 1)) FF_GO(list_group(t, child, depth + 1));
    }
done:
    ff_h5_names_free(&name, n);
    return st;
}

static ff_status open_hdf5(cgns_tree *t)
{
    char *root;
    int64_t at;
    FF_TRY(ff_h5_open(ff_comm_self(), t->path, &t->h5));
    if ((root = ff_strdup("/")) == NULL) return FF_E_MEM;
    FF_TRY(add_group(t, -1, "", root, &at));
    return list_group(t, at, 0);
}

/* ---- both ---- */

ff_status cgns_tree_open(cgns_tree *t, const char *path)
{
    ff_bytes *b = NULL;
    const unsigned char *head;
    size_t n;
    ff_status st;
    *t = (cgns_tree){.path = path};
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(ff_bytes_peek(b, 32, &head, &n));
    bool adf = n >= 16 && memcmp(head + 4, "ADF Database", 12) == 0;
    bool hdf5 = n >= 8 && memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0;
    if ((adf || hdf5) && ff_bytes_size(b) < 0)
        FF_GO(ff_fail(FF_E_UNSUPPORTED, "%s: is gzip-compressed CGNS; decompress it first", path));
    ff_bytes_close(&b);
    if (!adf && !hdf5)
        FF_GO(ff_fail(FF_E_INPUT, "%s: is no CGNS file, expected an HDF5 or ADF container", path));
    FF_GO(adf ? cgns_adf_open(t) : open_hdf5(t));
done:
    ff_bytes_close(&b);
    return st;
}

void cgns_tree_close(cgns_tree *t)
{
    for (int64_t i = 0; i < t->n_nodes; i++) ff_free(t->node[i].path);
    FF_FREE(t->node);
    t->n_nodes = 0;
    cgns_adf_close(t);
    (void)ff_h5_close(&t->h5);
}

/* ---- values ---- */

static ff_status read_hdf5(const cgns_tree *t, int64_t node, ff_h5_type type, void *out)
{
    const cgns_node *n = &t->node[node];
    char *data;
    FF_TRY(join(n->path, " data", &data));
    ff_status st = ff_h5_read(t->h5, data, type, 0, n->dim[n->n_dims - 1], out);
    ff_free(data);
    return st;
}

/* Value i of raw data as a whole number or, if f is not NULL, as a real one. */
static void widen(const char *type, const unsigned char *raw, int64_t i, int64_t *g, double *f)
{
    const unsigned char *p = raw + (size_t)i * cgns_type_size(type);
    int32_t w = 0;
    int64_t l = 0;
    float s = 0;
    double d = 0;
    bool real = type[0] == 'R';
    memcpy(&w, p, type[1] == '4' ? 4 : 0);
    memcpy(&s, p, type[1] == '4' ? 4 : 0);
    memcpy(&l, p, type[1] == '8' ? 8 : 0);
    memcpy(&d, p, type[1] == '8' ? 8 : 0);
    if (type[1] == '4') {
        l = type[0] == 'U' ? (int64_t)(uint32_t)w : w;
        d = (double)s;
    }
    if (g != NULL) g[i] = l;
    if (f != NULL) f[i] = real ? d : (double)l;
}

static ff_status read_numbers(const cgns_tree *t, int64_t node, int64_t *g, double *f)
{
    const cgns_node *n = &t->node[node];
    unsigned char *raw;
    if (n->n == 0) return FF_OK;
    if (t->h5 != NULL)
        return read_hdf5(t, node, g != NULL ? FF_H5_I64 : FF_H5_F64, g != NULL ? (void *)g : (void *)f);
    FF_TRY(cgns_adf_read(t, node, &raw));
    for (int64_t i = 0; i < n->n; i++) widen(n->type, raw, i, g, f);
    ff_free(raw);
    return FF_OK;
}

static bool is_number(const char *type, bool whole)
{
    return type[0] == 'I' || type[0] == 'U' || (type[0] == 'R' && !whole);
}

ff_status cgns_read_i64(const cgns_tree *t, int64_t node, int64_t **out)
{
    const cgns_node *n = &t->node[node];
    *out = NULL;
    if (!is_number(n->type, true))
        return cgns_fail(t, node, "data of type \"%s\", expected I4 or I8", n->type);
    FF_TRY(FF_NEW(*out, n->n));
    ff_status st = read_numbers(t, node, *out, NULL);
    if (st != FF_OK) FF_FREE(*out);
    return st;
}

ff_status cgns_read_f64(const cgns_tree *t, int64_t node, double **out)
{
    const cgns_node *n = &t->node[node];
    *out = NULL;
    if (!is_number(n->type, false))
        return cgns_fail(t, node, "data of type \"%s\", expected numbers", n->type);
    FF_TRY(FF_NEW(*out, n->n));
    ff_status st = read_numbers(t, node, NULL, *out);
    if (st != FF_OK) FF_FREE(*out);
    return st;
}

ff_status cgns_read_text(const cgns_tree *t, int64_t node, char *out, size_t size)
{
    unsigned char *raw = NULL;
    out[0] = 0;
    if (node < 0 || strcmp(t->node[node].type, "C1") != 0 || t->node[node].n == 0) return FF_OK;
    int64_t n = t->node[node].n;
    if (t->h5 != NULL) {
        FF_TRY(FF_NEW(raw, n));
        ff_status st = read_hdf5(t, node, FF_H5_U8, raw);
        if (st != FF_OK) {
            ff_free(raw);
            return st;
        }
    } else {
        FF_TRY(cgns_adf_read(t, node, &raw));
    }
    size_t len = 0;
    for (; len + 1 < size && (int64_t)len < n && raw[len] != 0; len++)
        out[len] = (char)(raw[len] < ' ' ? ' ' : raw[len]);
    while (len > 0 && out[len - 1] == ' ') len--;
    out[len] = 0;
    ff_free(raw);
    return FF_OK;
}
