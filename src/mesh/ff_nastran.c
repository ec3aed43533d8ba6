#include "ff_nastran.h"

#include "ff_builder.h"
#include "ff_idmap.h"
#include "ff_log.h"
#include "ff_mem.h"
#include "ff_nastran_card.h"
#include "ff_nastran_cord.h"

#include <stdio.h>
#include <string.h>

typedef struct shell { /* an element, before its points are known */
    int64_t id, pid, line, corner[4];
    int n_corners;
} shell;

typedef struct nastran {
    ff_card_reader r;
    ff_card card;
    ff_builder mesh;                    /* points as in the file until all coordinate systems are known */
    int64_t *grid_id, *grid_cp;         /* [n_points]; grid_cp -1: as GRDSET says */
    int64_t cap_id, cap_cp, default_cp; /* default_cp: of GRDSET, 0 without */
    shell *shells;
    int64_t n_shells, cap_shells;
    ff_cords cords;
    ff_idmap grids;
    int64_t n_left_out; /* surface elements of kinds that are not read */
    bool in_control, has_begin, at_end, has_grdset;
} nastran;

/* ---- entries ---- */

static ff_status read_grid(nastran *s)
{
    const ff_card *c = &s->card;
    int64_t n = s->mesh.m->n_points, id, cp;
    double x[3];
    FF_TRY(ff_card_int(&s->r, c, 0, "ID", FF_CARD_MUST, &id));
    FF_TRY(ff_card_int(&s->r, c, 1, "CP", -1, &cp));
    if (id < 1) return ff_card_fail(&s->r, c, "ID = %lld, expected 1 or more", (long long)id);
    if (cp < -1 || (cp == -1 && c->field[1][0] != 0))
        return ff_card_fail(&s->r, c, "CP = %lld, expected 0 or more", (long long)cp);
    if (c->n <= 4 && ff_card_is_open(c))
        return ff_card_fail(&s->r, c, "continuation \"%s\" does not follow; put the lines in order",
                            ff_show(c->label, strlen(c->label)).s);
    static const char *const names[] = {"X1", "X2", "X3"};
    for (int k = 0; k < 3; k++) FF_TRY(ff_card_real(&s->r, c, 2 + k, names[k], &x[k]));
    FF_TRY(ff_mem_reserve(&s->grid_id, &s->cap_id, n + 1, sizeof *s->grid_id));
    FF_TRY(ff_mem_reserve(&s->grid_cp, &s->cap_cp, n + 1, sizeof *s->grid_cp));
    s->grid_id[n] = id;
    s->grid_cp[n] = cp;
    return ff_builder_point(&s->mesh, x);
}

static ff_status read_grdset(nastran *s)
{
    if (s->has_grdset) return ff_card_fail(&s->r, &s->card, "a second one, expected one");
    s->has_grdset = true;
    FF_TRY(ff_card_int(&s->r, &s->card, 1, "CP", 0, &s->default_cp));
    if (s->default_cp >= 0) return FF_OK;
    return ff_card_fail(&s->r, &s->card, "CP = %lld, expected 0 or more", (long long)s->default_cp);
}

static ff_cord_kind kind_of(const ff_card *c)
{
    char last = c->name[5]; /* of CORD1R and its like */
    return last == 'C' ? FF_CORD_CYLINDRICAL : last == 'S' ? FF_CORD_SPHERICAL : FF_CORD_RECTANGULAR;
}

static ff_status add_cord(nastran *s, ff_cord c)
{
    ff_cords *all = &s->cords;
    c.kind = kind_of(&s->card);
    c.line = s->card.line;
    if (c.id < 1) return ff_card_fail(&s->r, &s->card, "CID = %lld, expected 1 or more", (long long)c.id);
    FF_TRY(ff_mem_reserve(&all->cord, &all->cap, all->n + 1, sizeof *all->cord));
    all->cord[all->n++] = c;
    return FF_OK;
}

/* One or two systems of four fields each: number and three points. */
static ff_status read_cord1(nastran *s)
{
    static const char *const names[] = {"CIDA", "G1A", "G2A", "G3A", "CIDB", "G1B", "G2B", "G3B"};
    for (int at = 0; at < 8; at += 4) {
        ff_cord c = {.by_points = true};
        if (at > 0 && (at >= s->card.n || s->card.field[at][0] == 0)) break;
        FF_TRY(ff_card_int(&s->r, &s->card, at, names[at], FF_CARD_MUST, &c.id));
        for (int i = 0; i < 3; i++) {
            FF_TRY(ff_card_int(&s->r, &s->card, at + 1 + i, names[at + 1 + i], FF_CARD_MUST, &c.point[i]));
            if (c.point[i] < 1)
                return ff_card_fail(&s->r, &s->card, "%s = %lld, expected 1 or more", names[at + 1 + i],
                                    (long long)c.point[i]);
        }
        FF_TRY(add_cord(s, c));
    }
    return FF_OK;
}

static ff_status read_cord2(nastran *s)
{
    static const char *const names[] = {"A1", "A2", "A3", "B1", "B2", "B3", "C1", "C2", "C3"};
    ff_cord c = {0};
    FF_TRY(ff_card_int(&s->r, &s->card, 0, "CID", FF_CARD_MUST, &c.id));
    FF_TRY(ff_card_int(&s->r, &s->card, 1, "RID", 0, &c.in));
    if (c.in < 0) return ff_card_fail(&s->r, &s->card, "RID = %lld, expected 0 or more", (long long)c.in);
    if (s->card.n <= 8)
        return ff_card_fail(&s->r, &s->card, "C1, C2 and C3 are missing: no continuation line follows");
    for (int i = 0; i < 9; i++) FF_TRY(ff_card_real(&s->r, &s->card, 2 + i, names[i], &c.abc[i]));
    return add_cord(s, c);
}

/* Number, property (by default of the same number), corners; nodes on edges follow those. */
static ff_status read_shell(nastran *s, int n_corners)
{
    static const char *const names[] = {"G1", "G2", "G3", "G4"};
    const ff_card *c = &s->card;
    shell e = {.line = c->line, .n_corners = n_corners};
    FF_TRY(ff_card_int(&s->r, c, 0, "EID", FF_CARD_MUST, &e.id));
    FF_TRY(ff_card_int(&s->r, c, 1, "PID", e.id, &e.pid));
    if (e.id < 1 || e.pid < 1)
        return ff_card_fail(&s->r, c, "EID = %lld, PID = %lld, expected 1 or more", (long long)e.id,
                            (long long)e.pid);
    for (int i = 0; i < n_corners; i++) {
        FF_TRY(ff_card_int(&s->r, c, 2 + i, names[i], FF_CARD_MUST, &e.corner[i]));
        if (e.corner[i] < 1)
            return ff_card_fail(&s->r, c, "%s = %lld, expected 1 or more", names[i], (long long)e.corner[i]);
    }
    FF_TRY(ff_mem_reserve(&s->shells, &s->cap_shells, s->n_shells + 1, sizeof *s->shells));
    s->shells[s->n_shells++] = e;
    return FF_OK;
}

static ff_status read_triangle(nastran *s)
{
    return read_shell(s, 3);
}

static ff_status read_quad(nastran *s)
{
    return read_shell(s, 4);
}

static ff_status leave_out(nastran *s)
{
    s->n_left_out++;
    return FF_OK;
}

static const struct {
    const char *name;
    ff_status (*read)(nastran *s);
} entries[] = {
    {"GRID", read_grid},       {"GRDSET", read_grdset}, {"CTRIA3", read_triangle}, {"CQUAD4", read_quad},
    {"CTRIA6", read_triangle}, {"CQUAD8", read_quad},   {"CTRIAR", read_triangle}, {"CQUADR", read_quad},
    {"CQUAD", read_quad},      {"CORD1R", read_cord1},  {"CORD1C", read_cord1},    {"CORD1S", read_cord1},
    {"CORD2R", read_cord2},    {"CORD2C", read_cord2},  {"CORD2S", read_cord2},    {"CSHEAR", leave_out},
    {"CTRIAX", leave_out},     {"CTRIAX6", leave_out},  {"CQUADX", leave_out},     {"CQUADX4", leave_out},
    {"CQUADX8", leave_out},    {"CTRAX3", leave_out},   {"CTRAX6", leave_out},
};

static int entry_of(const char *name)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strcmp(name, entries[i].name) == 0) return (int)i;
    return -1;
}

static bool is_wanted(const char *name)
{
    return entry_of(name) >= 0;
}

/* ---- sections ---- */

static ff_status take_control(nastran *s)
{
    const ff_card *c = &s->card;
    if (strcmp(c->name, "INCLUDE") == 0)
        return ff_card_fail(&s->r, c, "files named in a file are not read (%s); put them in its place",
                            ff_show(c->field[0], strlen(c->field[0])).s);
    if (strcmp(c->name, "CEND") == 0) {
        s->in_control = true;
    } else if (strcmp(c->name, "ENDDATA") == 0) {
        s->at_end = true;
    } else if (s->has_begin) {
        return ff_card_fail(&s->r, c,
                            "a second one: superelements are not read; write the mesh as one model");
    } else {
        s->in_control = false;
        s->has_begin = true;
    }
    return FF_OK;
}

static ff_status read_all(nastran *s)
{
    while (!s->at_end) {
        ff_card_kind kind;
        FF_TRY(ff_card_next(&s->r, &s->card, &kind));
        if (kind == FF_CARD_NONE) break;
        if (kind == FF_CARD_CONTROL)
            FF_TRY(take_control(s));
        else if (s->card.wanted && !s->in_control)
            FF_TRY(entries[entry_of(s->card.name)].read(s));
    }
    const char *path = ff_bytes_path(s->r.b);
    if (!s->at_end && (s->has_begin || s->in_control))
        return ff_fail(FF_E_INPUT, "%s: the file ends at line %lld without %s: cut?", path,
                       (long long)ff_bytes_line_no(s->r.b), s->has_begin ? "ENDDATA" : "BEGIN BULK");
    if (s->mesh.m->n_points == 0)
        return ff_fail(FF_E_INPUT, "%s: no GRID entry: no Nastran bulk data, or a part of some", path);
    if (!s->at_end)
        ff_warn("%s: ends at line %lld without ENDDATA; if it was cut, entries are missing", path,
                (long long)ff_bytes_line_no(s->r.b));
    if (s->n_left_out > 0)
        ff_warn("%s: %lld elements of kinds that are no shells (CSHEAR, CTRIAX, ...) are left out", path,
                (long long)s->n_left_out);
    return FF_OK;
}

/* ---- surface ---- */

/* A GRID may stand there twice if it says the same. */
static ff_status check_grids(const nastran *s)
{
    const double *x = s->mesh.m->points;
    for (int64_t i = 0; (i = ff_idmap_next_twice(&s->grids, i)) >= 0;) {
        int64_t a = s->grids.place[i - 1], b = s->grids.place[i];
        const double *p = x + 3 * a, *q = x + 3 * b;
        if (s->grid_cp[a] == s->grid_cp[b] && p[0] == q[0] && p[1] == q[1] && p[2] == q[2]) continue;
        return ff_fail(FF_E_INPUT, "%s: GRID %lld stands there twice, with different places",
                       ff_bytes_path(s->r.b), (long long)s->grid_id[a]);
    }
    return FF_OK;
}

static ff_status place_points(nastran *s)
{
    ff_mesh *m = s->mesh.m;
    for (int64_t p = 0; p < m->n_points; p++)
        if (s->grid_cp[p] < 0) s->grid_cp[p] = s->default_cp;
    FF_TRY(ff_idmap_build(&s->grids, s->grid_id, m->n_points));
    FF_TRY(check_grids(s));
    s->cords.path = ff_bytes_path(s->r.b);
    s->cords.points = &s->grids;
    s->cords.x = m->points;
    s->cords.x_cord = s->grid_cp;
    FF_TRY(ff_cords_resolve(&s->cords));
    for (int64_t p = 0; p < m->n_points; p++)
        FF_TRY(ff_cords_to_basic(&s->cords, s->grid_cp[p], "GRID", s->grid_id[p], m->points + 3 * p));
    return FF_OK;
}

static ff_status add_shells(nastran *s)
{
    int64_t pid = 0; /* of the patch entered last */
    char name[40];
    for (int64_t i = 0; i < s->n_shells; i++) {
        const shell *e = &s->shells[i];
        int64_t id[4];
        for (int k = 0; k < e->n_corners; k++) {
            id[k] = ff_idmap_find(&s->grids, e->corner[k]);
            if (id[k] < 0)
                return ff_fail(FF_E_INPUT, "%s: line %lld: element %lld uses GRID %lld, which is not there",
                               ff_bytes_path(s->r.b), (long long)e->line, (long long)e->id,
                               (long long)e->corner[k]);
        }
        if (e->pid != pid) {
            int n = snprintf(name, sizeof name, "PID %lld", (long long)e->pid);
            FF_TRY(ff_builder_patch(&s->mesh, name, (size_t)n));
            pid = e->pid;
        }
        FF_TRY(ff_builder_cell(&s->mesh, id, e->n_corners));
    }
    return FF_OK;
}

ff_status ff_nastran_parse(ff_bytes *b, ff_mesh **out)
{
    nastran *s = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(FF_NEW0(s, 1));
    s->r.b = b;
    s->r.wanted = is_wanted;
    FF_GO(ff_builder_begin(&s->mesh, 3));
    FF_GO(read_all(s));
    FF_GO(place_points(s));
    FF_GO(add_shells(s));
    *out = ff_builder_take(&s->mesh);
done:
    if (s != NULL) {
        ff_builder_free(&s->mesh);
        ff_card_free(&s->r);
        ff_cords_free(&s->cords);
        ff_idmap_free(&s->grids);
        ff_free(s->grid_id);
        ff_free(s->grid_cp);
        ff_free(s->shells);
    }
    ff_free(s);
    return st;
}

ff_status ff_nastran_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_bytes *b = NULL;
    ff_status st;
    *out = NULL;
    FF_GO(ff_bytes_open(path, &b));
    FF_GO(ff_nastran_parse(b, out));
    FF_GO(ff_mesh_finish(*out, path, opts));
done:
    if (st != FF_OK) ff_mesh_destroy(out);
    ff_bytes_close(&b);
    return st;
}
