/* What the fuzzers of mesh readers share: any bytes are parsed, or refused with one line; what is parsed
 * holds what ff_mesh.h promises and can be triangulated and measured; no block of memory stays behind. */
#ifndef FF_FUZZ_MESH_H
#define FF_FUZZ_MESH_H

#include "ff_bytes.h"
#include "ff_fuzz.h"
#include "ff_mesh.h"

/* Uses m as the verbs do. */
static inline void ff_fuzz_use(const ff_mesh *m)
{
    ff_mesh *t = NULL;
    int64_t *parent = NULL;
    ff_mesh_stats s;
    for (int64_t c = 0; c < m->n_cells; c++) {
        int64_t n, at = ff_mesh_cell(m, c, &n);
        FF_FUZZ_CHECK(n >= m->dim);
        for (int64_t i = at; i < at + n; i++)
            FF_FUZZ_CHECK(m->cell_pts[i] >= 0 && m->cell_pts[i] < m->n_points);
        FF_FUZZ_CHECK(m->cell_patch == NULL || (m->cell_patch[c] >= 0 && m->cell_patch[c] < m->n_patches));
    }
    FF_FUZZ_CHECK((m->n_patches > 0) == (m->n_cells > 0));
    FF_FUZZ_CHECK(ff_mesh_measure(m, &s) == FF_OK);
    FF_FUZZ_CHECK(ff_mesh_triangulate(m, &t, &parent) == FF_OK);
    FF_FUZZ_CHECK(t->n_cells == (m->dim == 3 ? s.triangles : m->n_cells));
    ff_mesh_destroy(&t);
    ff_free(parent);
}

static inline int ff_fuzz_parse(ff_status (*parse)(ff_bytes *, ff_mesh **), const uint8_t *data, size_t size)
{
    ff_bytes *b = NULL;
    ff_mesh *m = NULL;
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_error_clear();
    ff_status st = ff_bytes_open_memory("mem", data, size, &b);
    if (st == FF_OK) st = parse(b, &m);
    if (st == FF_OK) st = ff_mesh_finish(m, "mem", &opts);
    if (st == FF_OK)
        ff_fuzz_use(m);
    else
        ff_fuzz_refused(st);
    ff_mesh_destroy(&m);
    ff_bytes_close(&b);
    FF_FUZZ_CHECK(ff_mem_blocks() == 0);
    return 0;
}

#endif
