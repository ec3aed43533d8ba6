/* Lists of pairs for the adjoint: grown unit by unit, joined over samples. */
#include "ff_mem.h"
#include "ff_pair_adjoint.h"

#include <string.h>

enum { G = FF_ADJ_GROUP };

struct ff_adj_builder {
    ff_adj_lists *l;
    int64_t cap_x_s, cap_x_t, cap_off, cap_run_off, cap_run, cap_block, cap_unit; /* elements */
    int64_t cap_at;
    int64_t *at; /* [2][slots of a unit] pairs; runs, then places */
};

void ff_adj_lists_destroy(ff_adj_lists **lp)
{
    ff_adj_lists *l = *lp;
    if (l == NULL) return;
    ff_free(l->x_s);
    ff_free(l->x_t);
    ff_free(l->group_off);
    ff_free(l->run_off);
    ff_free(l->run);
    ff_free(l->block_off);
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
    FF_GO(ff_mem_reserve(&b->l->run_off, &b->cap_run_off, 1, sizeof *b->l->run_off));
    FF_GO(ff_mem_reserve(&b->l->block_off, &b->cap_block, 1, sizeof *b->l->block_off));
    FF_GO(ff_mem_reserve(&b->l->unit_off, &b->cap_unit, 1, sizeof *b->l->unit_off));
    b->l->group_off[0] = b->l->run_off[0] = b->l->block_off[0] = b->l->unit_off[0] = 0;
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
    FF_TRY(ff_mem_reserve(&l->run_off, &b->cap_run_off, l->n_slot + n + 1, sizeof *l->run_off));
    memcpy(l->x_s + 4 * l->n_slot, x, (size_t)(4 * n) * sizeof *x);
    for (int64_t k = 1; k <= n; k++) {
        l->group_off[l->n_slot + k] = l->n_group;
        l->run_off[l->n_slot + k] = l->n_run;
    }
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

/* Groups and blocks of a unit's slots from base on, pairs [slots] of each; every slot begins a group. */
static ff_status unit_groups(ff_adj_builder *b, int64_t base, const int64_t *pairs)
{
    ff_adj_lists *l = b->l;
    int64_t first = l->n_group, end = first;
    for (int64_t s = base; s < l->n_slot; s++) {
        end += (pairs[s - base] + G - 1) / G;
        l->group_off[s + 1] = end;
        l->pairs += pairs[s - base];
    }
    int64_t blocks = (end - first + FF_ADJ_BLOCK - 1) / FF_ADJ_BLOCK;
    FF_TRY(ff_mem_reserve(&l->block_off, &b->cap_block, l->n_block + blocks + 1, sizeof *l->block_off));
    for (int64_t g = first; g < end; g += FF_ADJ_BLOCK)
        l->block_off[++l->n_block] = g + FF_ADJ_BLOCK < end ? g + FF_ADJ_BLOCK : end;
    l->n_group = end;
    return FF_OK;
}

/* Stable counting sort by slot. */
ff_status ff_adj_builder_runs(ff_adj_builder *b, int64_t n_slots, int64_t n, const ff_adj_run *run)
{
    ff_adj_lists *l = b->l;
    int64_t base = l->n_slot - n_slots, at = l->n_run;
    int32_t last;
    FF_TRY(ff_to_i32(l->n_slot, "sources of the adjoint", &last));
    FF_TRY(ff_mem_reserve(&l->unit_off, &b->cap_unit, l->n_unit + 2, sizeof *l->unit_off));
    FF_TRY(ff_mem_reserve(&b->at, &b->cap_at, 2 * n_slots + 1, sizeof *b->at));
    FF_TRY(ff_mem_reserve(&l->run, &b->cap_run, l->n_run + n + 1, sizeof *l->run));
    int64_t *pairs = b->at, *place = b->at + n_slots;
    memset(b->at, 0, (size_t)(2 * n_slots) * sizeof *b->at);
    for (int64_t k = 0; k < n; k++) {
        pairs[run[k].slot] += run[k].n;
        place[run[k].slot]++;
    }
    for (int64_t s = 0; s < n_slots; s++) {
        int64_t runs = place[s];
        place[s] = at;
        at += runs;
        l->run_off[base + s + 1] = at;
    }
    for (int64_t k = 0; k < n; k++)
        l->run[place[run[k].slot]++] = (ff_adj_run){(int32_t)base + run[k].slot, run[k].first, run[k].n};
    l->n_run = at;
    l->unit_off[++l->n_unit] = l->n_slot;
    return unit_groups(b, base, pairs);
}

void ff_adj_lists_expand(const ff_adj_lists *l, int32_t *target, int32_t *group_slot)
{
    for (int64_t k = 0; k < G * l->n_group; k++) target[k] = -1;
    for (int64_t s = 0; s < l->n_slot; s++) {
        int64_t at = G * l->group_off[s];
        for (int64_t k = l->run_off[s]; k < l->run_off[s + 1]; k++)
            for (int32_t i = 0; i < l->run[k].n; i++) target[at++] = l->run[k].first + i;
        for (int64_t g = l->group_off[s]; g < l->group_off[s + 1]; g++) group_slot[g] = (int32_t)s;
    }
}

ff_status ff_adj_builder_finish(ff_adj_builder **b, ff_adj_lists **out)
{
    *out = (*b)->l;
    (*b)->l = NULL;
    ff_adj_builder_destroy(b);
    return FF_OK;
}

/* ---- several units or samples ---- */

typedef struct place {
    int64_t slot, target, group, block, unit, run;
} place;

/* Where each part begins; place n is behind the last one. */
static void places(int64_t n_fixed, const ff_adj_lists *const *part, int64_t n, place *at)
{
    at[0] = (place){0, n_fixed, 0, 0, 0, 0};
    for (int64_t k = 0; k < n; k++)
        at[k + 1] = (place){at[k].slot + part[k]->n_slot,   at[k].target + part[k]->n_target,
                            at[k].group + part[k]->n_group, at[k].block + part[k]->n_block,
                            at[k].unit + part[k]->n_unit,   at[k].run + part[k]->n_run};
}

static void put_part(const ff_adj_lists *l, const ff_adj_lists *p, const place *at, int64_t n_fixed)
{
    int32_t slot = (int32_t)at->slot, fixed = (int32_t)n_fixed, own = (int32_t)(at->target - n_fixed);
    if (p->n_slot > 0) memcpy(l->x_s + 4 * at->slot, p->x_s, (size_t)(4 * p->n_slot) * sizeof *p->x_s);
    if (p->n_target > 0) memcpy(l->x_t + 4 * at->target, p->x_t, (size_t)(4 * p->n_target) * sizeof *p->x_t);
    for (int64_t s = 1; s <= p->n_slot; s++) {
        l->group_off[at->slot + s] = at->group + p->group_off[s];
        l->run_off[at->slot + s] = at->run + p->run_off[s];
    }
    for (int64_t k = 0; k < p->n_run; k++) {
        ff_adj_run r = p->run[k];
        l->run[at->run + k] = (ff_adj_run){r.slot + slot, r.first < fixed ? r.first : r.first + own, r.n};
    }
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
    FF_GO(FF_NEW0(l->run_off, at[n].slot + 1));
    FF_GO(FF_NEW(l->run, at[n].run + 1));
    FF_GO(FF_NEW0(l->block_off, at[n].block + 1));
    FF_GO(FF_NEW0(l->unit_off, at[n].unit + 1));
    l->n_unit = at[n].unit;
    l->n_slot = at[n].slot;
    l->n_target = at[n].target;
    l->n_group = at[n].group;
    l->n_run = at[n].run;
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
