#include "ff_builder.h"

#include "ff_mem.h"

#include <string.h>

ff_status ff_builder_begin(ff_builder *b, int dim)
{
    *b = (ff_builder){.patch = -1};
    FF_TRY(ff_mesh_create(&b->m));
    b->m->dim = dim;
    return FF_OK;
}

ff_status ff_builder_point(ff_builder *b, const double x[3])
{
    ff_mesh *m = b->m;
    FF_TRY(ff_mem_reserve(&m->points, &b->cap_points, 3 * (m->n_points + 1), sizeof *m->points));
    memcpy(m->points + 3 * m->n_points, x, 3 * sizeof *x);
    m->n_points++;
    return FF_OK;
}

static uint64_t hash_name(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *s != 0; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h ^ h >> 29;
}

/* Where name stands in the table, or the empty place where it belongs. */
static int64_t find_slot(const ff_builder *b, const char *name)
{
    int64_t i = (int64_t)(hash_name(name) & (uint64_t)(b->n_slots - 1));
    while (b->slot[i] >= 0 && strcmp(b->m->patch_name[b->slot[i]], name) != 0) i = (i + 1) & (b->n_slots - 1);
    return i;
}

static ff_status grow_table(ff_builder *b)
{
    ff_mesh *m = b->m;
    if (2 * ((int64_t)m->n_patches + 1) <= b->n_slots) return FF_OK;
    int64_t n = b->n_slots > 0 ? 2 * b->n_slots : 16;
    int32_t *slot;
    FF_TRY(FF_NEW(slot, n));
    ff_free(b->slot);
    b->slot = slot;
    b->n_slots = n;
    for (int64_t i = 0; i < n; i++) slot[i] = -1;
    for (int32_t p = 0; p < m->n_patches; p++) slot[find_slot(b, m->patch_name[p])] = p;
    return FF_OK;
}

/* Sets b->patch to the number of the named patch, which it makes if need be. */
static ff_status enter_patch(ff_builder *b)
{
    ff_mesh *m = b->m;
    const char *name = b->name != NULL ? b->name : FF_PATCH_DEFAULT;
    FF_TRY(grow_table(b));
    int64_t at = find_slot(b, name);
    if (b->slot[at] < 0) {
        if (m->n_patches == INT32_MAX) return ff_fail(FF_E_INPUT, "more than %d patches", INT32_MAX);
        FF_TRY(ff_mem_reserve(&m->patch_name, &b->cap_names, m->n_patches + 1, sizeof *m->patch_name));
        if ((m->patch_name[m->n_patches] = ff_strdup(name)) == NULL) return FF_E_MEM;
        b->slot[at] = m->n_patches++;
    }
    b->patch = b->slot[at];
    return FF_OK;
}

/* Enters the patch of the next cell, cell n_cells. */
static ff_status note_patch(ff_builder *b)
{
    ff_mesh *m = b->m;
    if (b->patch < 0) FF_TRY(enter_patch(b));
    if (m->n_patches == 1) return FF_OK;
    bool first = m->cell_patch == NULL;
    FF_TRY(ff_mem_reserve(&m->cell_patch, &b->cap_patch_cells, m->n_cells + 1, sizeof *m->cell_patch));
    if (first) memset(m->cell_patch, 0, (size_t)m->n_cells * sizeof *m->cell_patch);
    m->cell_patch[m->n_cells] = b->patch;
    return FF_OK;
}

/* Enters the end of the next cell, of n points. */
static ff_status note_size(ff_builder *b, int64_t n)
{
    ff_mesh *m = b->m;
    if (m->cell_off == NULL && n == m->dim) return FF_OK;
    bool first = m->cell_off == NULL;
    FF_TRY(ff_mem_reserve(&m->cell_off, &b->cap_off, m->n_cells + 2, sizeof *m->cell_off));
    if (first)
        for (int64_t c = 0; c <= m->n_cells; c++) m->cell_off[c] = c * m->dim;
    m->cell_off[m->n_cells + 1] = b->n_pts + n;
    return FF_OK;
}

ff_status ff_builder_cell(ff_builder *b, const int64_t *ids, int64_t n)
{
    ff_mesh *m = b->m;
    FF_TRY(note_patch(b));
    FF_TRY(note_size(b, n));
    FF_TRY(ff_mem_reserve(&m->cell_pts, &b->cap_pts, b->n_pts + n, sizeof *m->cell_pts));
    memcpy(m->cell_pts + b->n_pts, ids, (size_t)n * sizeof *ids);
    b->n_pts += n;
    m->n_cells++;
    return FF_OK;
}

ff_status ff_builder_patch(ff_builder *b, const char *name, size_t len)
{
    if (b->name != NULL && strlen(b->name) == len && memcmp(b->name, name, len) == 0) return FF_OK;
    FF_FREE(b->name);
    b->patch = -1;
    FF_TRY(FF_NEW(b->name, len + 1));
    memcpy(b->name, name, len);
    b->name[len] = 0;
    return FF_OK;
}

ff_mesh *ff_builder_take(ff_builder *b)
{
    ff_mesh *m = b->m;
    b->m = NULL;
    ff_builder_free(b);
    return m;
}

void ff_builder_free(ff_builder *b)
{
    ff_mesh_destroy(&b->m);
    FF_FREE(b->name);
    FF_FREE(b->slot);
}
