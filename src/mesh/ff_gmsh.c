#include "ff_gmsh.h"

#include "ff_gmsh_impl.h"
#include "ff_mem.h"

#include <string.h>

/* ---- head ---- */

/* In a binary file the number 1 follows, which tells the byte order. */
static ff_status read_byte_order(ff_gmsh_in *in)
{
    static const unsigned char little[4] = {1, 0, 0, 0}, big[4] = {0, 0, 0, 1};
    const unsigned char *p;
    FF_TRY(ff_bytes_take(in->b, 4, &p));
    if (p == NULL) return ff_gmsh_fail(in, "the file ends, expected the number 1: cut?");
    in->big = memcmp(p, big, 4) == 0;
    if (!in->big && memcmp(p, little, 4) != 0)
        return ff_gmsh_fail(in, "bytes %02x %02x %02x %02x, expected the number 1 of a binary file", p[0],
                            p[1], p[2], p[3]);
    return FF_OK;
}

static ff_status read_format(ff_gmsh_in *in)
{
    char *line, *w[3] = {NULL};
    size_t len, n[3] = {0};
    int64_t type = -1, bytes = -1;
    FF_TRY(ff_gmsh_line(in, &line, &len));
    for (int i = 0; i < 3 && line != NULL; i++) w[i] = ff_word(&line, &n[i]);
    if (w[2] == NULL || !ff_word_i64(w[1], n[1], &type) || !ff_word_i64(w[2], n[2], &bytes) || type < 0 ||
        type > 1)
        return ff_gmsh_fail(in, "expected version, type (0 text, 1 binary) and size, as in 4.1 0 8");
    in->v4 = ff_word_is(w[0], n[0], "4.1");
    if (!in->v4 && !ff_word_is(w[0], n[0], "2.2") && !ff_word_is(w[0], n[0], "2.1") &&
        !ff_word_is(w[0], n[0], "2") && !ff_word_is(w[0], n[0], "2.0"))
        return ff_fail(FF_E_UNSUPPORTED,
                       "%s: line %lld: Gmsh version %s, expected 2.2 or 4.1; write it anew with gmsh FILE "
                       "-save -format msh41 -o NEW.msh",
                       ff_bytes_path(in->b), (long long)ff_bytes_line_no(in->b), ff_show(w[0], n[0]).s);
    if (bytes != 8 && !(in->v4 && bytes == 4))
        return ff_gmsh_fail(in, "data size %lld, expected 8", (long long)bytes);
    in->size_bytes = (int)bytes;
    if (type == 1) FF_TRY(read_byte_order(in));
    FF_TRY(ff_gmsh_end(in));
    in->binary = type == 1;
    return FF_OK;
}

/* ---- names ---- */

/* A row of $PhysicalNames: dimension (not in version 2.0), number, name between quotation marks. */
static ff_status read_name(ff_gmsh *g)
{
    ff_gmsh_in *in = &g->in;
    char *line;
    size_t len;
    int64_t v[2] = {2, 0};
    int n = 0;
    FF_TRY(ff_gmsh_line(in, &line, &len));
    if (line == NULL) return ff_gmsh_fail(in, "the file ends, expected a name: cut?");
    char *open = strchr(line, '"'), *close = strrchr(line, '"');
    if (open == NULL || close == open)
        return ff_gmsh_fail(in, "\"%s\", expected dimension, number and a name between quotation marks",
                            ff_show(line, len).s);
    *open = *close = 0;
    for (char *w; n < 2 && (w = ff_word(&line, &len)) != NULL; n++)
        if (!ff_word_i64(w, len, &v[n]))
            return ff_gmsh_fail(in, "\"%s\", expected a whole number", ff_show(w, len).s);
    if (n == 0) return ff_gmsh_fail(in, "a name without a number");
    if (n == 1) v[1] = v[0], v[0] = 2;
    FF_TRY(ff_mem_reserve(&g->name, &g->cap_names, g->n_names + 1, sizeof *g->name));
    ff_gmsh_name *name = &g->name[g->n_names];
    name->dim = v[0];
    name->tag = v[1];
    if ((name->name = ff_strdup(open + 1)) == NULL) return FF_E_MEM;
    g->n_names++;
    return FF_OK;
}

static ff_status read_names(ff_gmsh *g)
{
    FF_TRY(ff_gmsh_count(&g->in));
    for (int64_t n = g->in.n_rows; g->in.row < n;) {
        g->in.row++;
        FF_TRY(read_name(g));
    }
    return ff_gmsh_end(&g->in);
}

/* ---- nodes ---- */

static ff_status add_node(ff_gmsh *g, int64_t tag)
{
    int64_t n = g->mesh.m->n_points;
    double x[3];
    for (int k = 0; k < 3; k++) FF_TRY(ff_gmsh_double(&g->in, "a coordinate", &x[k]));
    FF_TRY(ff_mem_reserve(&g->point_tag, &g->cap_points, n + 1, sizeof *g->point_tag));
    g->point_tag[n] = tag;
    return ff_builder_point(&g->mesh, x);
}

static ff_status read_nodes_2(ff_gmsh *g)
{
    int64_t tag;
    FF_TRY(ff_gmsh_count(&g->in));
    for (int64_t n = g->in.n_rows; g->in.row < n;) {
        g->in.row++;
        FF_TRY(ff_gmsh_id(&g->in, "the number of a node", &tag));
        FF_TRY(add_node(g, tag));
    }
    return ff_gmsh_end(&g->in);
}

/* Numbers of the block's nodes, then their coordinates and, on request of the block, parameters. */
static ff_status read_node_block(ff_gmsh *g)
{
    int64_t dim, entity, parametric, n, first = g->in.row;
    FF_TRY(ff_gmsh_int(&g->in, "the dimension of an entity", &dim));
    FF_TRY(ff_gmsh_int(&g->in, "the number of an entity", &entity));
    FF_TRY(ff_gmsh_int(&g->in, "whether nodes are parametric", &parametric));
    if (dim < 0 || dim > 3 || parametric < 0 || parametric > 1)
        return ff_gmsh_fail(&g->in, "a block of dimension %lld, parametric %lld, expected 0 to 3 and 0 or 1",
                            (long long)dim, (long long)parametric);
    FF_TRY(ff_gmsh_block_rows(&g->in, &n));
    int64_t *tag = NULL, cap = 0;
    ff_status st = FF_OK;
    for (int64_t i = 0; i < n; i++) {
        g->in.row = first + i + 1;
        FF_GO(ff_mem_reserve(&tag, &cap, i + 1, sizeof *tag));
        FF_GO(ff_gmsh_id(&g->in, "the number of a node", &tag[i]));
    }
    for (int64_t i = 0; i < n; i++) {
        g->in.row = first + i + 1;
        FF_GO(add_node(g, tag[i]));
        if (parametric) FF_GO(ff_gmsh_skip_doubles(&g->in, "a parameter", dim));
    }
done:
    ff_free(tag);
    return st;
}

static ff_status read_nodes_4(ff_gmsh *g)
{
    int64_t n_blocks;
    FF_TRY(ff_gmsh_head(&g->in, &n_blocks));
    for (int64_t i = 0; i < n_blocks; i++) FF_TRY(read_node_block(g));
    FF_TRY(ff_gmsh_check_rows(&g->in));
    return ff_gmsh_end(&g->in);
}

/* ---- the file ---- */

static ff_status read_section(ff_gmsh *g)
{
    const char *s = g->section;
    bool v4 = g->in.v4;
    g->in.row = g->in.n_rows = 0;
    if (strcmp(s, "PhysicalNames") == 0) return read_names(g);
    if (strcmp(s, "Entities") == 0 && v4) return ff_gmsh_read_entities(g, false);
    if (strcmp(s, "PartitionedEntities") == 0 && v4) return ff_gmsh_read_entities(g, true);
    if (strcmp(s, "ParametricNodes") == 0)
        return ff_gmsh_fail(&g->in, "parametric nodes of version 2 are not read; write the file anew without "
                                    "them (Mesh.SaveParametric = 0)");
    if (strcmp(s, "NodeData") == 0 || strcmp(s, "ElementData") == 0) return ff_gmsh_read_data(g, s[0] == 'N');
    bool nodes = strcmp(s, "Nodes") == 0, elements = strcmp(s, "Elements") == 0;
    if (!nodes && !elements) return ff_gmsh_skip(&g->in);
    bool *seen = nodes ? &g->has_nodes : &g->has_elements;
    if (*seen) return ff_gmsh_fail(&g->in, "a second section of this name");
    *seen = true;
    if (nodes) return v4 ? read_nodes_4(g) : read_nodes_2(g);
    return ff_gmsh_read_elements(g);
}

/* Takes the line $SECTION; section is empty at the end of the file. */
static ff_status next_section(ff_gmsh *g)
{
    char *line, *w;
    size_t len;
    g->in.row = g->in.n_rows = 0;
    FF_TRY(ff_gmsh_line(&g->in, &line, &len));
    if (line == NULL) {
        g->section[0] = 0;
        return FF_OK;
    }
    w = ff_word(&line, &len);
    if (w[0] != '$' || len < 2 || len > sizeof g->section)
        return ff_bytes_fail(g->in.b,
                             "\"%s\", expected the head of a section of a Gmsh file, such as $MeshFormat",
                             ff_show(w, len).s);
    memcpy(g->section, w + 1, len - 1);
    g->section[len - 1] = 0;
    return FF_OK;
}

static ff_status read_all(ff_gmsh *g)
{
    bool format = false;
    for (;;) {
        FF_TRY(next_section(g));
        if (g->section[0] == 0) break;
        if (strcmp(g->section, "NOD") == 0 || strcmp(g->section, "NOE") == 0)
            return ff_fail(FF_E_UNSUPPORTED,
                           "%s: Gmsh version 1, expected 2.2 or 4.1; write it anew with gmsh FILE "
                           "-save -format msh41 -o NEW.msh",
                           ff_bytes_path(g->in.b));
        if (strcmp(g->section, "MeshFormat") == 0) {
            if (format) return ff_gmsh_fail(&g->in, "a second section of this name");
            FF_TRY(read_format(&g->in));
            format = true;
        } else if (format || strcmp(g->section, "Comments") == 0) {
            FF_TRY(read_section(g));
        } else {
            return ff_gmsh_fail(&g->in, "expected $MeshFormat first: no Gmsh file");
        }
    }
    if (g->has_nodes && g->has_elements) return FF_OK;
    return ff_fail(FF_E_INPUT, "%s: the file ends without %s: cut, or no Gmsh file", ff_bytes_path(g->in.b),
                   !format         ? "$MeshFormat"
                   : !g->has_nodes ? "$Nodes"
                                   : "$Elements");
}

static ff_status parse(ff_bytes *b, int64_t step, ff_mesh **out)
{
    ff_gmsh g = {.in = {.b = b}, .step = step};
    ff_status st;
    *out = NULL;
    g.in.section = g.section;
    FF_GO(ff_builder_begin(&g.mesh, 3));
    FF_GO(read_all(&g));
    FF_GO(ff_gmsh_build(&g, out));
done:
    ff_builder_free(&g.mesh);
    ff_free(g.point_tag);
    for (int d = 0; d < 4; d++) ff_gmsh_drop_elements(&g.of_dim[d]);
    for (int64_t i = 0; i < g.n_names; i++) ff_free(g.name[i].name);
    ff_free(g.name);
    ff_free(g.entity);
    ff_gmsh_drop_data(&g);
    return st;
}

ff_status ff_gmsh_parse(ff_bytes *b, ff_mesh **out)
{
    return parse(b, 0, out);
}

ff_status ff_gmsh_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_bytes *b = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(parse(b, opts->step, out));
    FF_GO(ff_mesh_finish(*out, path, opts));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_bytes_close(&b);
    return st;
}
