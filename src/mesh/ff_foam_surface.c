/* A triangulated surface in OpenFOAM's own format: patches, points, labelled triangles. */
#include "ff_builder.h"
#include "ff_foam.h"
#include "ff_foam_file.h"
#include "ff_mem.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    foam_file *f;
    ff_builder b;
    char **name; /* [n_names] of regions */
    int64_t n_names, cap_names;
} foam_surface;

/* Name and geometric type of each patch. */
static ff_status read_names(foam_surface *s)
{
    foam_list l;
    FF_TRY(foam_list_begin(s->f, "patches", &l));
    for (int64_t i = 0; i < l.n; i++) {
        FF_TRY(foam_next(s->f));
        if (s->f->len == 0 || foam_is(s->f, ')'))
            return foam_fail(s->f, "patch %lld has no name", (long long)i);
        FF_TRY(ff_mem_reserve(&s->name, &s->cap_names, i + 1, sizeof *s->name));
        if ((s->name[i] = ff_strdup(s->f->word)) == NULL) return FF_E_MEM;
        s->n_names++;
        FF_TRY(foam_next(s->f));
        if ((s->f->len == 0 && !s->f->quoted) || foam_is(s->f, ')'))
            return foam_fail(s->f, "patch %lld has no type", (long long)i);
    }
    return foam_list_end(s->f, "patches", &l);
}

static ff_status read_points(foam_surface *s)
{
    foam_list l;
    double x[3];
    FF_TRY(foam_list_begin(s->f, "points", &l));
    for (int64_t i = 0; i < l.n; i++) {
        FF_TRY(foam_vector(s->f, "points", x));
        FF_TRY(ff_builder_point(&s->b, x));
    }
    return foam_list_end(s->f, "points", &l);
}

/* ((a b c) region) */
static ff_status read_triangle(foam_surface *s)
{
    int64_t ids[3], region;
    char number[32];
    FF_TRY(foam_expect(s->f, '(', "triangle"));
    FF_TRY(foam_expect(s->f, '(', "triangle"));
    for (int k = 0; k < 3; k++) {
        FF_TRY(foam_i64(s->f, "corner of a triangle", &ids[k]));
        if (ids[k] < 0 || ids[k] >= s->b.m->n_points)
            return foam_fail(s->f, "point %lld, expected 0 <= it < %lld", (long long)ids[k],
                             (long long)s->b.m->n_points);
    }
    FF_TRY(foam_expect(s->f, ')', "triangle"));
    FF_TRY(foam_count(s->f, "region of a triangle", &region));
    FF_TRY(foam_expect(s->f, ')', "triangle"));
    const char *name = region < s->n_names ? s->name[region] : number;
    if (region >= s->n_names) (void)snprintf(number, sizeof number, "region %lld", (long long)region);
    FF_TRY(ff_builder_patch(&s->b, name, strlen(name)));
    return ff_builder_cell(&s->b, ids, 3);
}

static ff_status read_surface(foam_surface *s)
{
    foam_list l;
    if (s->f->binary)
        return foam_fail(s->f,
                         "a binary surface, expected text; convert it with surfaceConvert to .stl or .obj");
    FF_TRY(read_names(s));
    FF_TRY(read_points(s));
    FF_TRY(foam_list_begin(s->f, "triangles", &l));
    for (int64_t i = 0; i < l.n; i++) FF_TRY(read_triangle(s));
    return foam_list_end(s->f, "triangles", &l);
}

/* A part of a polyMesh is no surface of its own. */
static ff_status refuse_parts(const foam_file *f)
{
    static const char *const parts[] = {"faceList",  "faceCompactList",  "vectorField",
                                        "labelList", "polyBoundaryMesh", "pointField"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(f->kind, parts[i]) == 0)
            return ff_fail(FF_E_INPUT, "%s: is one file (%s) of an OpenFOAM mesh; name its folder instead",
                           ff_bytes_path(f->b), f->kind);
    return FF_OK;
}

ff_status ff_foam_read_surface(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    foam_file f;
    foam_surface s = {.f = &f};
    ff_status st;
    *out = NULL;
    FF_GO(foam_open(&f, NULL, path, false));
    FF_GO(refuse_parts(&f));
    FF_GO(ff_builder_begin(&s.b, 3));
    FF_GO(read_surface(&s));
    *out = ff_builder_take(&s.b);
    FF_GO(ff_mesh_finish(*out, path, opts));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    for (int64_t i = 0; i < s.n_names; i++) ff_free(s.name[i]);
    ff_free(s.name);
    ff_builder_free(&s.b);
    foam_close(&f);
    return st;
}
