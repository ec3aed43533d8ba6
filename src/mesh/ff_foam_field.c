#include "ff_foam_field.h"

#include "ff_foam_file.h"
#include "ff_log.h"
#include "ff_mem.h"

#include <dirent.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH = 4096, MAX_COMP = 9 };

/* ---- values: uniform, or one an item ---- */

typedef struct {
    bool there, uniform;
    double one[MAX_COMP];
    int64_t n, cap; /* values of a list */
    double *list;
} values;

static void values_free(values *v)
{
    ff_free(v->list);
    *v = (values){0};
}

static const double *value_at(const values *v, int64_t i, int n_comp)
{
    return v->uniform ? v->one : v->list + i * n_comp;
}

/* Behind "nonuniform": perhaps List<scalar>, then N ( ... ) or N { value }. */
static ff_status read_list(foam_file *f, const char *what, int n_comp, values *v)
{
    int64_t n;
    FF_TRY(foam_next(f));
    if (strncmp(f->word, "List<", 5) != 0) foam_back(f);
    FF_TRY(foam_count(f, what, &n));
    FF_TRY(foam_next(f));
    if (foam_is(f, '{')) {
        v->uniform = true;
        FF_TRY(foam_reals(f, what, n_comp, v->one));
        return foam_expect(f, '}', what);
    }
    foam_list l = {.n = n, .bare = n == 0 && !foam_is(f, '(')};
    if (l.bare) foam_back(f);
    if (!l.bare && !foam_is(f, '('))
        return foam_fail(f, "%s: expected \"(\" behind the number %lld", what, (long long)n);
    for (; v->n < n; v->n++) {
        FF_TRY(ff_mem_reserve(&v->list, &v->cap, (v->n + 1) * n_comp, sizeof *v->list));
        FF_TRY(foam_reals(f, what, n_comp, v->list + v->n * n_comp));
    }
    return foam_list_end(f, what, &l);
}

/* An entry "uniform x;" or "nonuniform ...;". Macros stand for the inner field: *v stays without values. */
static ff_status read_values(foam_file *f, const char *what, int n_comp, values *v)
{
    values_free(v);
    FF_TRY(foam_next(f));
    bool uniform = strcmp(f->word, "uniform") == 0;
    if (!uniform && strcmp(f->word, "nonuniform") != 0) {
        if (f->word[0] != '$' && f->word[0] != '#')
            return foam_fail(f, "%s: \"%s\", expected uniform or nonuniform", what,
                             ff_show(f->word, f->len).s);
        return foam_skip_entry(f);
    }
    v->there = true;
    v->uniform = uniform;
    if (uniform) {
        bool binary = f->binary;
        f->binary = false; /* a single value is text in any case */
        ff_status st = foam_reals(f, what, n_comp, v->one);
        f->binary = binary;
        FF_TRY(st);
    } else {
        FF_TRY(read_list(f, what, n_comp, v));
    }
    return foam_expect(f, ';', what);
}

/* ---- one field ---- */

typedef struct {
    foam_file f;
    const foam_place *place;
    int64_t n_places, n_volume_cells;
    const char *name;
    int n_comp;
    values inner;
    double *out;  /* [cells of the mesh][n_comp] */
    uint8_t *set; /* [n_places] 0 not yet, 1 by a pattern, 2 by its name */
    int64_t n_missing;
} field;

/* Components of a class of volume fields; 0: another class. */
static int components(const char *kind)
{
    static const struct {
        const char *kind;
        int n;
    } rows[] = {
        {"volScalarField", 1}, {"volVectorField", 3}, {"volSymmTensorField", 6}, {"volTensorField", 9}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].kind, kind) == 0) return rows[i].n;
    return 0;
}

/* What a patch without values has: nothing, the value in the cell behind it, or zero. */
static const double *value_behind(const field *w, const foam_place *p, const char *type, int64_t i)
{
    static const double zero[MAX_COMP];
    static const char *const turns[] = {"slip", "symmetry", "symmetryPlane", "wedge", "cyclic", "cyclicAMI"};
    if (strcmp(type, "noSlip") == 0) return zero;
    for (size_t k = 0; k < sizeof turns / sizeof *turns && w->n_comp > 1; k++)
        if (strcmp(type, turns[k]) == 0) return NULL; /* the vector is turned there */
    return w->inner.there ? value_at(&w->inner, p->owner[i], w->n_comp) : NULL;
}

static ff_status fill(field *w, const foam_place *p, const char *type, const values *v)
{
    if (v->there && !v->uniform && v->n != p->n)
        return foam_fail(&w->f, "patch %.*s: %lld values, expected %lld, one a face", (int)p->name_len,
                         p->name, (long long)v->n, (long long)p->n);
    for (int64_t i = 0; p->cell0 >= 0 && i < p->n; i++) {
        const double *x = v->there ? value_at(v, i, w->n_comp) : value_behind(w, p, type, i);
        w->n_missing += x == NULL;
        for (int k = 0; k < w->n_comp; k++)
            w->out[(p->cell0 + i) * w->n_comp + k] = x != NULL ? x[k] : (double)NAN;
    }
    return FF_OK;
}

/* A name between quotation marks is a regular expression; names alone come before it. */
static ff_status fill_named(field *w, const char *name, bool pattern, const char *type, const values *v)
{
    regex_t re;
    bool have = pattern && regcomp(&re, name, REG_EXTENDED) == 0;
    ff_status st = FF_OK;
    for (int64_t i = 0; i < w->n_places && st == FF_OK; i++) {
        const foam_place *p = &w->place[i];
        char patch[FOAM_WORD];
        (void)snprintf(patch, sizeof patch, "%.*s", (int)p->name_len, p->name);
        bool equal = strcmp(patch, name) == 0;
        regmatch_t at[1];
        bool match = have && !equal && w->set[i] < 2 && regexec(&re, patch, 1, at, 0) == 0 &&
                     at[0].rm_so == 0 && (size_t)at[0].rm_eo == p->name_len;
        if (!equal && !match) continue;
        w->set[i] = equal ? 2 : 1;
        st = fill(w, p, type, v);
    }
    if (have) regfree(&re);
    return st;
}

/* A patch's block: { type ...; value ...; }. */
static ff_status read_patch(field *w)
{
    foam_file *f = &w->f;
    char name[FOAM_WORD], key[FOAM_WORD], type[FOAM_WORD] = "";
    bool pattern = f->quoted;
    values v = {0};
    ff_status st;
    memcpy(name, f->word, sizeof name);
    FF_GO(foam_expect(f, '{', name));
    for (;;) {
        FF_GO(foam_next(f));
        if (foam_is(f, '}')) break;
        if (f->len == 0) FF_GO(foam_fail(f, "patch %s: file ends inside it: cut?", name));
        memcpy(key, f->word, sizeof key);
        if (key[0] == '#') { /* #include and the like, with one argument: what they bring in is not read */
            FF_GO(foam_next(f));
            continue;
        }
        if (strcmp(key, "value") == 0) {
            FF_GO(read_values(f, name, w->n_comp, &v));
            continue;
        }
        FF_GO(foam_next(f));
        if (strcmp(key, "type") == 0) memcpy(type, f->word, sizeof type);
        foam_back(f);
        FF_GO(foam_skip_value(f));
    }
    st = fill_named(w, name, pattern, type, &v);
done:
    values_free(&v);
    return st;
}

static ff_status read_boundary(field *w)
{
    FF_TRY(foam_expect(&w->f, '{', "boundaryField"));
    for (;;) {
        FF_TRY(foam_next(&w->f));
        if (foam_is(&w->f, '}')) return FF_OK;
        if (w->f.len == 0) return foam_fail(&w->f, "file ends inside boundaryField: cut?");
        if (w->f.word[0] == '#') { /* #includeEtc with its argument */
            FF_TRY(foam_next(&w->f));
            continue;
        }
        FF_TRY(read_patch(w));
    }
}

static ff_status read_entries(field *w)
{
    foam_file *f = &w->f;
    bool done = false;
    for (;;) {
        FF_TRY(foam_next(f));
        if (f->len == 0) return done ? FF_OK : foam_fail(f, "file ends without boundaryField: cut?");
        if (strcmp(f->word, "internalField") == 0) {
            FF_TRY(read_values(f, "internalField", w->n_comp, &w->inner));
            if (w->inner.there && !w->inner.uniform && w->inner.n != w->n_volume_cells)
                return foam_fail(f, "internalField: %lld values, expected %lld, one a cell",
                                 (long long)w->inner.n, (long long)w->n_volume_cells);
        } else if (strcmp(f->word, "boundaryField") == 0) {
            FF_TRY(read_boundary(w));
            done = true;
        } else if (f->word[0] !=
                   '#') { /* directives take the rest of their line; what they bring in is not read */
            FF_TRY(foam_skip_entry(f));
        } else {
            FF_TRY(foam_next(f));
        }
    }
}

static ff_status add_field(field *w, ff_mesh *m)
{
    for (int64_t i = 0; i < w->n_places; i++)
        if (w->set[i] == 0 && w->place[i].cell0 >= 0) w->n_missing += w->place[i].n;
    if (w->n_missing > 0)
        ff_warn("%s: no value at %lld of %lld faces: NaN there", ff_bytes_path(w->f.b),
                (long long)w->n_missing, (long long)m->n_cells);
    if (ff_field_set_find(&m->cell_data, w->name) != NULL) return FF_OK;
    return ff_field_set_add(&m->cell_data, w->name, w->n_comp, m->n_cells, &w->out);
}

/* The file of that name (without .gz), if it is a volume field. */
static ff_status read_field(field *w, const char *folder, ff_mesh *m)
{
    ff_status st;
    FF_GO(foam_open(&w->f, folder, w->name, false));
    w->n_comp = components(w->f.kind);
    if (w->n_comp == 0) goto done;
    FF_GO(FF_NEW(w->out, m->n_cells * w->n_comp));
    FF_GO(FF_NEW0(w->set, w->n_places));
    for (int64_t i = 0; i < m->n_cells * w->n_comp; i++) w->out[i] = (double)NAN;
    FF_GO(read_entries(w));
    FF_GO(add_field(w, m));
done:
    foam_close(&w->f);
    values_free(&w->inner);
    ff_free(w->out);
    ff_free(w->set);
    w->out = NULL;
    w->set = NULL;
    w->n_missing = 0;
    return st;
}

/* ---- which time ---- */

/* The case's folder: what holds constant/polyMesh. False if the mesh lies elsewhere. */
static bool find_case(const char *folder, char out[PATH])
{
    static const char *const tails[] = {"/constant/polyMesh", "constant/polyMesh"};
    size_t n = strlen(folder);
    for (int i = 0; i < 2; i++) {
        size_t t = strlen(tails[i]);
        if (n < t || (i == 1 && n != t) || n - t >= PATH || strcmp(folder + n - t, tails[i]) != 0) continue;
        memcpy(out, folder, n - t);
        (void)snprintf(out + n - t, PATH - (n - t), "%s", n > t ? "" : i == 0 ? "/" : ".");
        return true;
    }
    return false;
}

static bool is_kind(const char *folder, const char *name, mode_t kind)
{
    char path[2 * PATH];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &info) == 0 && (info.st_mode & S_IFMT) == kind;
}

static bool time_of(const char *name, double *t)
{
    return name[0] >= '0' && name[0] <= '9' && ff_word_double(name, strlen(name), t) && isfinite(*t);
}

typedef struct {
    char **name;
    int64_t n, cap;
} names;

static void names_free(names *l)
{
    for (int64_t i = 0; i < l->n; i++) ff_free(l->name[i]);
    ff_free(l->name);
    *l = (names){0};
}

/* Whether a stands before b: by time, or by name. */
static bool before(const char *a, const char *b, bool times)
{
    double x = 0, y = 0;
    bool both = times && time_of(a, &x) && time_of(b, &y);
    return both && x != y ? x < y : strcmp(a, b) < 0;
}

/* Names in folder, sorted: its time folders, or its files without .gz at their end. */
static ff_status list_folder(const char *folder, bool times, names *l)
{
    ff_status st = FF_OK;
    DIR *d = opendir(folder);
    if (d == NULL) return FF_OK;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        double t;
        if (times ? !time_of(e->d_name, &t) || !is_kind(folder, e->d_name, S_IFDIR)
                  : e->d_name[0] == '.' || !is_kind(folder, e->d_name, S_IFREG))
            continue;
        FF_GO(ff_mem_reserve(&l->name, &l->cap, l->n + 1, sizeof *l->name));
        char *name = ff_strdup(e->d_name);
        if (name == NULL) FF_GO(FF_E_MEM);
        size_t n = strlen(name);
        if (!times && n > 3 && strcmp(name + n - 3, ".gz") == 0) name[n - 3] = 0;
        int64_t at = l->n++;
        for (; at > 0 && before(name, l->name[at - 1], times); at--) l->name[at] = l->name[at - 1];
        l->name[at] = name;
    }
done:
    (void)closedir(d);
    return st;
}

/* Folder of the time asked for; "" if there is none to read. */
static ff_status choose_time(const char *folder, int64_t step, char out[2 * PATH])
{
    char root[PATH];
    names times = {0};
    ff_status st = FF_OK;
    out[0] = 0;
    if (find_case(folder, root)) FF_GO(list_folder(root, true, &times));
    if (step > times.n)
        FF_GO(ff_fail(FF_E_INPUT, "%s: step = %lld, but there are %lld time folders", folder, (long long)step,
                      (long long)times.n));
    int64_t at = (step > 0 ? step : times.n) - 1;
    double t = 0;
    if (at >= 0 && (step > 0 || (time_of(times.name[at], &t) && t > 0)))
        (void)snprintf(out, 2 * PATH, "%s/%s", root, times.name[at]);
done:
    names_free(&times);
    return st;
}

ff_status foam_fields(const char *folder, int64_t step, const foam_place *place, int64_t n_places,
                      int64_t n_volume_cells, ff_mesh *m)
{
    char time[2 * PATH];
    names files = {0};
    ff_status st;
    field w = {.place = place, .n_places = n_places, .n_volume_cells = n_volume_cells};
    FF_GO(choose_time(folder, step, time));
    if (time[0] != 0) FF_GO(list_folder(time, false, &files));
    for (int64_t i = 0; i < files.n; i++) {
        if (i > 0 && strcmp(files.name[i], files.name[i - 1]) == 0) continue; /* plain and .gz */
        w.name = files.name[i];
        FF_GO(read_field(&w, time, m));
    }
    if (m->cell_data.n > 0) ff_debug("%s: %d fields of the time folder %s", folder, m->cell_data.n, time);
done:
    names_free(&files);
    return st;
}
