#include "ff_points.h"

#include "ff_bytes.h"
#include "ff_mem.h"
#include "ff_mesh_dist.h"
#include "ff_xyz.h"

#include <string.h>
#include <strings.h>

static bool is_table(const char *path)
{
    size_t n = strlen(path);
    if (n > 3 && strcasecmp(path + n - 3, ".gz") == 0) n -= 3;
    return n > 4 && (strncasecmp(path + n - 4, ".csv", 4) == 0 || strncasecmp(path + n - 4, ".txt", 4) == 0);
}

typedef struct {
    ff_bytes *b;
    ff_mesh *m;
    int64_t cap, n_columns; /* n_columns: 0 before the first row */
    bool names_seen;
} table;

/* Numbers of a line into x; *n: columns, -1 if the first word is no number. */
static ff_status split_line(const table *t, char *line, double x[3], int *n)
{
    size_t len;
    *n = 0;
    line[strcspn(line, "#")] = 0;
    for (char *p = line; *p != 0; p++)
        if (*p == ',' || *p == ';') *p = ' ';
    for (char *p = line, *w; (w = ff_word(&p, &len)) != NULL; (*n)++) {
        double v;
        if (!ff_word_double(w, len, &v)) {
            if (*n > 0)
                return ff_bytes_fail(t->b, "column %d is \"%s\", expected a number", *n + 1,
                                     ff_show(w, len).s);
            *n = -1;
            return FF_OK;
        }
        if (*n < 3) x[*n] = v;
    }
    return FF_OK;
}

static ff_status add_row(table *t, char *line)
{
    double x[3] = {0, 0, 0};
    int n;
    ff_mesh *m = t->m;
    FF_TRY(split_line(t, line, x, &n));
    if (n == 0) return FF_OK;
    if (n < 0 && t->n_columns == 0 && !t->names_seen) {
        t->names_seen = true;
        return FF_OK;
    }
    if (n != 2 && n != 3) return ff_bytes_fail(t->b, "%d columns of numbers, expected 2 or 3", n < 0 ? 0 : n);
    if (t->n_columns != 0 && n != t->n_columns)
        return ff_bytes_fail(t->b, "%d columns, expected %d as above", n, (int)t->n_columns);
    t->n_columns = n;
    FF_TRY(ff_mem_reserve(&m->points, &t->cap, 3 * (m->n_points + 1), sizeof *m->points));
    memcpy(m->points + 3 * m->n_points++, x, sizeof x);
    return FF_OK;
}

static ff_status read_table(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    table t = {0};
    char *line;
    size_t len;
    ff_status st;
    FF_GO(ff_bytes_open(path, &t.b));
    FF_GO(ff_mesh_create(&t.m));
    for (;;) {
        FF_GO(ff_bytes_line(t.b, &line, &len));
        if (line == NULL) break;
        FF_GO(add_row(&t, line));
    }
    FF_GO(ff_mesh_finish(t.m, path, opts));
    if (t.n_columns == 2) t.m->dim = 2;
    *out = t.m;
    t.m = NULL;
done:
    ff_mesh_destroy(&t.m);
    ff_bytes_close(&t.b);
    return st;
}

/* Leaves points and point fields. */
static void drop_cells(ff_mesh *m)
{
    FF_FREE(m->cell_off);
    FF_FREE(m->cell_pts);
    FF_FREE(m->cell_patch);
    for (int i = 0; i < m->n_patches; i++) ff_free(m->patch_name[i]);
    FF_FREE(m->patch_name);
    ff_field_set_free(&m->cell_data);
    m->n_patches = 0;
    m->n_cells = m->n_cells_global = 0;
    m->dim = 3; /* the points of a curve stand in space */
}

ff_status ff_points_read(const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_read_opts in_space = *opts;
    *out = NULL;
    FF_TRY(ff_mesh_check_name(path));
    in_space.keep_z = true;
    if (is_table(path)) {
        FF_TRY(read_table(path, &in_space, out));
    } else if (ff_xyz_named(path)) {
        FF_TRY(ff_xyz_read(path, &in_space, out, NULL));
    } else {
        FF_TRY(ff_mesh_read(path, &in_space, out));
        drop_cells(*out);
    }
    return FF_OK;
}

ff_status ff_points_read_dist(ff_comm *comm, const char *path, const ff_read_opts *opts, ff_mesh **out)
{
    ff_mesh *whole = NULL;
    *out = NULL;
    if (comm->size == 1) return ff_points_read(path, opts, out);
    FF_TRY(ff_agree(comm, comm->rank == 0 ? ff_points_read(path, opts, &whole) : FF_OK));
    return ff_mesh_scatter(comm, &whole, out);
}
