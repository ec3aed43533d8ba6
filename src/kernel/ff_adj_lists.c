/* Lists of pairs for the adjoint: grown unit by unit, joined over samples. */
#include "ff_mem.h"
#include "ff_pair_adjoint.h"

#include <string.h>

enum { G = FF_ADJ_GROUP };

struct ff_adj_builder {
    ff_adj_lists *l;
    int64_t cap_x_s, cap_x_t, cap_off, cap_slot, cap_target, cap_block, cap_unit; /* elements */
    int64_t cap_at;
    int64_t *at; /* groups of a unit's slots */
};

void ff_adj_lists_destroy(ff_adj_lists **lp)
{
    ff_adj_lists *l = *lp;
    if (l == NULL) return;
    ff_free(l->x_s);
    ff_free(l->x_t);
    ff_free(l->group_off);
    ff_free(l->group_slot);
    ff_free(l->target);
    ff_free(l->block_off);
    ff_free(l->block_part);
    ff_free(l->unit_off);
    FF_FREE(*lp);
}

void ff_adj_builder_destroy(ff_adj_builder **bp)
{
    ff_adj_builder *b = *bp;
    if (b == NULL) return;
    ff_adj_lists_destroy(&b->l);
    ff_free(b->at);
    FF_FREE(*bp);
}

ff_status ff_adj_builder_create(ff_adj_builder **out)
{
    ff_status st = FF_OK;
    ff_adj_builder *b = NULL;
    *out = NULL;
    FF_GO(FF_NEW0(b, 1));
    FF_GO(FF_NEW0(b->l, 1));
    FF_GO(ff_mem_reserve(&b->l->group_off, &b->cap_off, 1, sizeof *b->l->group_off));
    FF_GO(ff_mem_reserve(&b->l->block_off, &b->cap_block, 1, sizeof *b->l->block_off));
    FF_GO(ff_mem_reserve(&b->l->unit_off, &b->cap_unit, 1, sizeof *b->l->unit_off));
    b->l->group_off[0] = b->l->block_off[0] = b->l->unit_off[0] = 0;
    b->l->n_part = 1;
    *out = b;
    b = NULL;
done:
    ff_adj_builder_destroy(&b);
    return st;
}

ff_status ff_adj_builder_slots(ff_adj_builder *b, int64_t n, const double *x)
{
    ff_adj_lists *l = b->l;
    FF_TRY(ff_mem_reserve(&l->x_s, &b->cap_x_s, 4 * (l->n_slot + n), sizeof *l->x_s));
    FF_TRY(ff_mem_reserve(&l->group_off, &b->cap_off, l->n_slot + n + 1, sizeof *l->group_off));
    memcpy(l->x_s + 4 * l->n_slot, x, (size_t)(4 * n) * sizeof *x);
    for (int64_t k = 1; k <= n; k++) l->group_off[l->n_slot + k] = l->n_group;
    l->n_slot += n;
    return FF_OK;
}

ff_status ff_adj_builder_target(ff_adj_builder *b, const double x[4], int32_t *index)
{
    ff_adj_lists *l = b->l;
    FF_TRY(ff_to_i32(l->n_target, "targets of the adjoint", index));
    FF_TRY(ff_mem_reserve(&l->x_t, &b->cap_x_t, 4 * (l->n_target + 1), sizeof *l->x_t));
    memcpy(l->x_t + 4 * l->n_target++, x, 4 * sizeof *x);
    return FF_OK;
}

/* Stable counting sort by slot; every slot begins a group. */
ff_status ff_adj_builder_pairs(ff_adj_builder *b, int64_t n_slots, int64_t n, const int32_t *slot,
                               const int32_t *target)
{
    ff_adj_lists *l = b->l;
    int64_t base = l->n_slot - n_slots, first = l->n_group, end = first;
    int32_t last;
    FF_TRY(ff_to_i32(l->n_slot, "sources of the adjoint", &last));
    FF_TRY(ff_mem_reserve(&l->unit_off, &b->cap_unit, l->n_unit + 2, sizeof *l->unit_off));
    FF_TRY(ff_mem_reserve(&b->at, &b->cap_at, n_slots + 1, sizeof *b->at));
    memset(b->at, 0, (size_t)n_slots * sizeof *b->at);
    for (int64_t k = 0; k < n; k++) b->at[slot[k]]++;
    for (int64_t s = 0; s < n_slots; s++) end += (b->at[s] + G - 1) / G;
    FF_TRY(ff_mem_reserve(&l->group_slot, &b->cap_slot, end + 1, sizeof *l->group_slot));
    FF_TRY(ff_mem_reserve(&l->target, &b->cap_target, G * (end + 1), sizeof *l->target));
    int64_t blocks = (end - first + FF_ADJ_BLOCK - 1) / FF_ADJ_BLOCK;
    FF_TRY(ff_mem_reserve(&l->block_off, &b->cap_block, l->n_block + blocks + 1, sizeof *l->block_off));
    for (int64_t s = 0, g = first; s < n_slots; s++) {
        int64_t groups = (b->at[s] + G - 1) / G;
        b->at[s] = G * g;
        for (int64_t k = 0; k < groups; k++) l->group_slot[g++] = (int32_t)(base + s);
        l->group_off[base + s + 1] = g;
    }
    for (int64_t k = G * first; k < G * end; k++) l->target[k] = -1;
    for (int64_t k = 0; k < n; k++) l->target[b->at[slot[k]]++] = target[k];
    for (int64_t g = first; g < end; g += FF_ADJ_BLOCK)
        l->block_off[++l->n_block] = g + FF_ADJ_BLOCK < end ? g + FF_ADJ_BLOCK : end;
    l->unit_off[++l->n_unit] = l->n_slot;
    l->n_group = end;
    l->pairs += n;
    return FF_OK;
}

ff_status ff_adj_builder_finish(ff_adj_builder **b, ff_adj_lists **out)
{
    FF_TRY(FF_NEW0((*b)->l->block_part, (*b)->l->n_block + 1));
    *out = (*b)->l;
    (*b)->l = NULL;
    ff_adj_builder_destroy(b);
    return FF_OK;
}

/* ---- several units or samples ---- */

typedef struct place {
    int64_t slot, target, group, block, unit;
} place;

/* Where each part begins; place n is behind the last one. */
static void places(int64_t n_fixed, const ff_adj_lists *const *part, int64_t n, place *at)
{
    at[0] = (place){0, n_fixed, 0, 0, 0};
    for (int64_t k = 0; k < n; k++)
        at[k + 1] = (place){at[k].slot + part[k]->n_slot, at[k].target + part[k]->n_target,
                            at[k].group + part[k]->n_group, at[k].block + part[k]->n_block,
                            at[k].unit + part[k]->n_unit};
}

static void put_part(const ff_adj_lists *l, const ff_adj_lists *p, const place *at, int64_t n_fixed)
{
    int32_t slot = (int32_t)at->slot, fixed = (int32_t)n_fixed, own = (int32_t)(at->target - n_fixed);
    if (p->n_slot > 0) memcpy(l->x_s + 4 * at->slot, p->x_s, (size_t)(4 * p->n_slot) * sizeof *p->x_s);
    if (p->n_target > 0) memcpy(l->x_t + 4 * at->target, p->x_t, (size_t)(4 * p->n_target) * sizeof *p->x_t);
    for (int64_t s = 1; s <= p->n_slot; s++) l->group_off[at->slot + s] = at->group + p->group_off[s];
    for (int64_t g = 0; g < p->n_group; g++) l->group_slot[at->group + g] = p->group_slot[g] + slot;
    for (int64_t k = 0; k < G * p->n_group; k++)
        l->target[G * at->group + k] = p->target[k] < fixed ? p->target[k] : p->target[k] + own;
    for (int64_t k = 1; k <= p->n_unit; k++) l->unit_off[at->unit + k] = at->slot + p->unit_off[k];
    for (int64_t k = 1; k <= p->n_block; k++) l->block_off[at->block + k] = at->group + p->block_off[k];
}

ff_status ff_adj_lists_join(int64_t n_fixed, const double *x_fixed, const ff_adj_lists *const *part,
                            int64_t n, ff_adj_lists **out)
{
    ff_status st = FF_OK;
    ff_adj_lists *l = NULL;
    place *at = NULL;
    int32_t fits;
    *out = NULL;
    FF_GO(FF_NEW(at, n + 1));
    places(n_fixed, part, n, at);
    FF_GO(ff_to_i32(at[n].slot, "sources of the adjoint", &fits));
    FF_GO(ff_to_i32(at[n].target, "targets of the adjoint", &fits));
    FF_GO(ff_to_i32(at[n].group, "groups of the adjoint", &fits));
    FF_GO(FF_NEW0(l, 1));
    FF_GO(FF_NEW(l->x_s, 4 * at[n].slot + 1));
    FF_GO(FF_NEW(l->x_t, 4 * at[n].target + 1));
    FF_GO(FF_NEW0(l->group_off, at[n].slot + 1));
    FF_GO(FF_NEW(l->group_slot, at[n].group + 1));
    FF_GO(FF_NEW(l->target, G * at[n].group + 1));
    FF_GO(FF_NEW0(l->block_off, at[n].block + 1));
    FF_GO(FF_NEW0(l->block_part, at[n].block + 1));
    FF_GO(FF_NEW0(l->unit_off, at[n].unit + 1));
    l->n_part = 1;
    l->n_unit = at[n].unit;
    l->n_slot = at[n].slot;
    l->n_target = at[n].target;
    l->n_group = at[n].group;
    l->n_block = at[n].block;
    if (n_fixed > 0) memcpy(l->x_t, x_fixed, (size_t)(4 * n_fixed) * sizeof *x_fixed);
    for (int64_t k = 0; k < n; k++) l->pairs += part[k]->pairs;
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t k = 0; k < n; k++) put_part(l, part[k], &at[k], n_fixed);
    *out = l;
    l = NULL;
done:
    ff_free(at);
    ff_adj_lists_destroy(&l);
    return st;
}
