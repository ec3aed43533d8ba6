/* farfield check: the health of surfaces. Rank 0 works; the others wait for its verdict. */
#include "ff_app.h"
#include "ff_extract.h"
#include "ff_mesh_write.h"
#include "ff_repair.h"
#include "ff_snap.h"

#include <math.h>
#include <string.h>

/* Faults that spoil a boundary-integral evaluation or a normal; open edges and slivers are facts of a
 * surface. */
static int64_t n_defects(const ff_mesh_stats *s)
{
    return s->zero_area_cells + s->repeated_cells + s->nonmanifold_edges + s->misoriented_edges;
}

static void line(const char *what, int64_t n, const char *note)
{
    ff_print("  %-24s %12lld%s%s\n", what, (long long)n, note[0] != 0 ? "   " : "", note);
}

static ff_status print_patches(const ff_mesh *m)
{
    int64_t *n = NULL;
    if (m->n_patches < 2) return FF_OK;
    FF_TRY(FF_NEW(n, m->n_patches));
    ff_mesh_patch_cells(m, n);
    ff_print("  patches\n");
    for (int p = 0; p < m->n_patches; p++)
        ff_print("    %-40s %10lld cells\n", m->patch_name[p], (long long)n[p]);
    ff_free(n);
    return FF_OK;
}

/* The first few cells that have a fault of FF_BAD_*. */
static void first_cells(const ff_mesh *m, const uint8_t *bad, int fault)
{
    enum { SHOWN = 5 };
    int64_t n = 0;
    for (int64_t c = 0; c < m->n_cells; c++) n += (bad[c] & fault) != 0;
    if (n == 0) return;
    ff_print("  %-24s %12s   cells", "", "");
    for (int64_t c = 0, shown = 0; c < m->n_cells && shown < SHOWN; c++)
        if ((bad[c] & fault) != 0) {
            ff_print(" %lld", (long long)c);
            shown++;
        }
    ff_print(n > SHOWN ? " ... (%lld in all, counted from 0)\n" : " (counted from 0)\n", (long long)n);
}

static void print_defects(const ff_mesh *m, const ff_mesh_stats *s, const uint8_t *bad)
{
    bool curve = m->dim == 2;
    const char *edge = curve ? "end" : "edge";
    char name[48];
    line(curve ? "zero-length edges" : "zero-area cells", s->zero_area_cells,
         s->zero_area_cells > 0 ? "they carry no normal: --repair drops those without which no edge opens"
                                : "");
    first_cells(m, bad, FF_BAD_ZERO_AREA);
    if (!curve)
        line("sliver cells", s->sliver_cells,
             s->sliver_cells > 0 ? "longer than 100 times their height" : "");
    line("repeated cells", s->repeated_cells,
         s->repeated_cells > 0 ? "coincident faces: drop them with --repair" : "");
    first_cells(m, bad, FF_BAD_REPEATED);
    line("duplicate points", s->duplicate_points,
         s->duplicate_points > 0 ? "equal corners are taken for one in what follows" : "");
    line("unused points", s->unused_points, "");
    (void)snprintf(name, sizeof name, "open %ss", edge);
    line(name, s->open_edges, s->open_edges > 0 ? "the surface is not closed" : "");
    first_cells(m, bad, FF_BAD_OPEN);
    (void)snprintf(name, sizeof name, "non-manifold %ss", edge);
    line(name, s->nonmanifold_edges, s->nonmanifold_edges > 0 ? "more than two cells meet there" : "");
    first_cells(m, bad, FF_BAD_NONMANIFOLD);
    (void)snprintf(name, sizeof name, "misoriented %ss", edge);
    line(name, s->misoriented_edges,
         s->misoriented_edges > 0 ? "normals of the two cells disagree: orient them with --repair" : "");
    first_cells(m, bad, FF_BAD_WINDING);
    line("parts", s->parts, "");
    line("winding groups", s->winding_groups,
         s->winding_groups > s->parts ? "more than parts: winding is mixed" : "");
}

/* The normal of an edge (2D) is (-dy, dx): outwards on a closed curve that runs clockwise. */
static const char *side_of_normals(const ff_mesh *m, const ff_mesh_stats *s)
{
    if (!s->closed) return ", means little: not closed";
    if (s->misoriented_edges > 0 || s->volume == 0) return "";
    if (m->dim == 3) return s->volume > 0 ? ": normals point outwards" : ", negative: normals point inwards";
    return s->volume < 0 ? ", clockwise: normals point outwards"
                         : ", counter-clockwise: normals point inwards";
}

static ff_status print_report(const char *path, const ff_mesh *m, const ff_mesh_stats *s, const uint8_t *bad)
{
    bool curve = m->dim == 2;
    double v = sqrt(s->vector_area[0] * s->vector_area[0] + s->vector_area[1] * s->vector_area[1] +
                    s->vector_area[2] * s->vector_area[2]);
    ff_print("%s: %s, %s\n", path, curve ? "curve" : "surface", s->closed ? "closed" : "open");
    line("points", s->points, "");
    line(curve ? "edges" : "cells", s->cells, "");
    if (!curve && s->triangles != s->cells) line("triangles", s->triangles, "");
    ff_print("  box                      [%.9g %.9g %.9g] to [%.9g %.9g %.9g]\n", s->lo[0], s->lo[1],
             s->lo[2], s->hi[0], s->hi[1], s->hi[2]);
    ff_print("  %-24s %.9g, of %s %.4g to %.4g\n", curve ? "length" : "area", s->area,
             curve ? "an edge" : "a cell", s->area_min, s->area_max);
    ff_print("  %-24s %.4g of the %s%s\n", "vector area", s->area > 0 ? v / s->area : 0,
             curve ? "length" : "area",
             s->closed && v > 1e-6 * s->area ? ": closed, but winding is not consistent" : "");
    ff_print("  %-24s %.9g%s\n", curve ? "enclosed area" : "volume", s->volume, side_of_normals(m, s));
    FF_TRY(print_patches(m));
    print_defects(m, s, bad);
    return FF_OK;
}

static void json_report(ff_json *j, const char *path, const ff_mesh_stats *s)
{
    ff_json_open(j, NULL, '{');
    ff_json_string(j, "file", path);
    ff_json_int(j, "points", s->points);
    ff_json_int(j, "cells", s->cells);
    ff_json_int(j, "triangles", s->triangles);
    ff_json_double(j, "area", s->area);
    ff_json_double(j, "area_min", s->area_min);
    ff_json_double(j, "area_max", s->area_max);
    ff_json_double(j, "volume", s->volume);
    ff_json_doubles(j, "vector_area", s->vector_area, 3);
    ff_json_doubles(j, "box_min", s->lo, 3);
    ff_json_doubles(j, "box_max", s->hi, 3);
    ff_json_bool(j, "closed", s->closed);
    ff_json_int(j, "zero_area_cells", s->zero_area_cells);
    ff_json_int(j, "sliver_cells", s->sliver_cells);
    ff_json_int(j, "repeated_cells", s->repeated_cells);
    ff_json_int(j, "duplicate_points", s->duplicate_points);
    ff_json_int(j, "unused_points", s->unused_points);
    ff_json_int(j, "open_edges", s->open_edges);
    ff_json_int(j, "nonmanifold_edges", s->nonmanifold_edges);
    ff_json_int(j, "misoriented_edges", s->misoriented_edges);
    ff_json_int(j, "parts", s->parts);
    ff_json_int(j, "winding_groups", s->winding_groups);
    ff_json_int(j, "defects", n_defects(s));
    ff_json_close(j);
}

/* The cells with a defect and, as a cell field "defect", the sum of its FF_BAD_* numbers. */
static ff_status write_bad(const ff_mesh *m, const uint8_t *bad, const char *path)
{
    ff_status st = FF_OK;
    ff_mesh *part = NULL;
    double *why = NULL;
    int64_t n = 0;
    for (int64_t c = 0; c < m->n_cells; c++) n += bad[c] != 0;
    FF_GO(ff_mesh_extract(m, bad, NULL, NULL, &part));
    FF_GO(FF_NEW(why, n));
    n = 0;
    for (int64_t c = 0; c < m->n_cells; c++)
        if (bad[c] != 0) why[n++] = bad[c];
    FF_GO(ff_field_set_add(&part->cell_data, "defect", 1, n, &why));
    FF_GO(ff_mesh_write(part, path));
    ff_print("  wrote %lld cells with a defect to %s (field \"defect\": 1 zero area, 2 sliver, 4 repeated, 8 "
             "open, 16 "
             "non-manifold, 32 winding)\n",
             (long long)n, path);
done:
    ff_free(why);
    ff_mesh_destroy(&part);
    return st;
}

static ff_status repair(const ff_mesh *m, bool outward, const char *path)
{
    ff_status st = FF_OK;
    ff_mesh *out = NULL;
    ff_repair_counts n;
    FF_TRY(ff_mesh_repair(m, outward, &n, &out));
    FF_GO(ff_mesh_write(out, path));
    ff_print("  repaired: %lld points welded, %lld dropped; %lld repeated and %lld zero-area cells dropped; "
             "%lld cells "
             "flipped\n",
             (long long)n.welded_points, (long long)n.dropped_points, (long long)n.dropped_repeated,
             (long long)n.dropped_zero_area, (long long)n.flipped_cells);
    if (n.kept_zero_area > 0)
        ff_print("  kept %lld zero-area cells: without them edges would be open\n",
                 (long long)n.kept_zero_area);
    if (n.turned_parts > 0) ff_print("  %lld closed parts turned outwards\n", (long long)n.turned_parts);
    if (n.twisted_parts > 0)
        ff_print("  %lld parts cannot be wound consistently (like a Moebius band): left alone\n",
                 (long long)n.twisted_parts);
    ff_print("  wrote %s\n", path);
done:
    ff_mesh_destroy(&out);
    return st;
}

/* --weld-tolerance: points that lie closer become equal before anything is counted. */
static ff_status snap(const ff_config *c, ff_mesh *m, bool print)
{
    int64_t n = 0;
    if (!ff_config_has(c, "check.weld_tolerance")) return FF_OK;
    FF_TRY(ff_mesh_snap(m, ff_config_double(c, "check.weld_tolerance"), &n));
    if (print)
        ff_print("%lld points moved onto another within %g\n", (long long)n,
                 ff_config_double(c, "check.weld_tolerance"));
    return FF_OK;
}

/* On rank 0 alone. */
static ff_status check_file(ff_app *app, const char *path, int64_t *defects)
{
    ff_status st = FF_OK;
    ff_mesh *m = NULL;
    ff_mesh_stats s;
    uint8_t *bad = NULL;
    ff_read_opts opts = ff_app_read_opts(app);
    const ff_config *c = app->config;
    const char *json = ff_app_json_path(app);
    bool print = json == NULL || strcmp(json, "-") != 0;
    FF_TRY(ff_mesh_read(path, &opts, &m));
    FF_GO(snap(c, m, print));
    FF_GO(ff_mesh_measure(m, &s));
    FF_GO(FF_NEW(bad, m->n_cells));
    FF_GO(ff_mesh_find_bad(m, bad));
    if (print) FF_GO(print_report(path, m, &s, bad));
    ff_mesh_warn_units(path, &s);
    json_report(&app->json, path, &s);
    *defects += n_defects(&s);
    if (ff_config_has(c, "check.write_bad")) FF_GO(write_bad(m, bad, ff_config_string(c, "check.write_bad")));
    if (ff_config_bool(c, "check.repair"))
        FF_GO(repair(m, ff_config_bool(c, "check.outward"), ff_config_string(c, "output")));
done:
    ff_free(bad);
    ff_mesh_destroy(&m);
    return st;
}

/* Outputs belong to one input and must be writable before anything is read. */
static ff_status check_outputs(ff_app *app)
{
    const ff_config *c = app->config;
    bool repairs = ff_config_bool(c, "check.repair"), writes = repairs || ff_config_has(c, "check.write_bad");
    if (writes && ff_config_count(c, "mesh") != 1)
        return ff_fail(FF_E_ARG, "command line: %d files, expected one with --repair or --write-bad",
                       ff_config_count(c, "mesh"));
    if (repairs) FF_TRY(ff_config_need(c, "output"));
    if (!repairs && ff_config_has(c, "output"))
        return ff_config_bad(c, "output", "--repair with it: nothing else is written there");
    if (ff_config_has(c, "check.write_bad")) {
        FF_TRY(ff_mesh_can_write(ff_config_string(c, "check.write_bad")));
        FF_TRY(ff_app_may_write(app, ff_config_string(c, "check.write_bad")));
    }
    if (!repairs) return FF_OK;
    FF_TRY(ff_mesh_can_write(ff_config_string(c, "output")));
    return ff_app_may_write(app, ff_config_string(c, "output"));
}

ff_status cmd_check(ff_app *app)
{
    ff_status st = FF_OK;
    int64_t defects = 0;
    FF_TRY(check_outputs(app));
    ff_json_open(&app->json, "files", '[');
    for (int i = 0; i < ff_config_count(app->config, "mesh") && st == FF_OK; i++) {
        int len = 0;
        const char *path = ff_config_split_name(ff_config_file(app->config, "mesh", i), &len);
        if (ff_comm_rank(app->comm) == 0) st = check_file(app, path, &defects);
        st = ff_agree(app->comm, st);
    }
    FF_TRY(st);
    ff_json_close(&app->json);
    FF_TRY(ff_comm_bcast(app->comm, &defects, sizeof defects, 0));
    if (ff_config_bool(app->config, "check.strict") && defects > 0)
        return ff_fail(FF_E_CHECK, "%lld defects found", (long long)defects);
    return FF_OK;
}
