/* One dual traversal on the device for many plans at once, as dtt.cu leaves it for those who make lists or counts of
 * it. Private to cuda/.
 *
 * A PART is one plan: targets [begin, end) of one tree against one source tree. Its target nodes have SLOTS: the
 * nodes that begin inside the range, in order, from slot0 + WALK_ABOVE on; the few nodes above that begin before the
 * range at slot0 + level. So slots ascend like node ids, whatever the range, and all parts' slots lie in one array.
 * The lists of a slot lie anywhere in far and leaf, in canonical order within. */
#ifndef FF_CUDA_WALK_CUH
#define FF_CUDA_WALK_CUH

#include "ff_cuda_scan.cuh"

extern "C" {
#include "ff_cuda_tree.h"
}

enum { WALK_ABOVE = 32 };

typedef struct walk_part {
    const ff_node *t_node, *s_node;
    const int64_t *t_start, *t_count, *t_id, *s_count, *s_id;
    const int32_t *t_first, *s_first;
    const float *t_x, *s_x;
    int64_t begin, end, point0; /* targets; place of the first among the points of all parts */
    int32_t slot0, n_slots;
    int32_t node0; /* first target node that begins in the range; set on the device */
    int32_t n_t_nodes, s_held, dim;
    int masked, expand;
    int empty; /* no target or no source */
    float theta2;
} walk_part;

/* A target node that the traversal reached; zeros elsewhere. */
typedef struct walk_slot {
    int64_t far_at, leaf_at; /* in far and leaf */
    int32_t node, n_far, n_leaf;
    int32_t up;      /* slot of the nearest node above with far entries, or -1 */
    int32_t far_sum; /* far entries from the root to here, this node's included */
    int32_t n_fn;    /* leaf pairs with far-near sources */
    int32_t fn_ids;  /* and those sources */
    uint16_t part, n_above; /* n_above: nodes with far entries from the root to here, this one included */
} walk_slot;

enum { WALK_FINE = 0, WALK_S_CUT, WALK_T_CUT, WALK_S_POINTS, WALK_T_POINTS };

/* Written on the device, read by the host. The cursors go on counting where a buffer is too small. */
typedef struct walk_state {
    unsigned long long far, leaf;
    unsigned long long next[40]; /* ids handed down to each level */
    uint32_t queued[40];         /* target nodes of each level */
    int32_t error;               /* WALK_... */
    int32_t cut_short;           /* some level could not be handed down whole */
    long long error_id;
} walk_state;

/* A target node and the sources that its parent left undecided. */
typedef struct walk_item {
    int64_t list;
    int32_t n, part, node, slot, up, unused;
} walk_item;

/* What kernels get by value. */
typedef struct walk_dev {
    walk_part *part;   /* [n_parts] */
    walk_slot *slot;   /* [n_slots] */
    int32_t *end_slot; /* [n_points] at the first target of each node where the traversal ended: its slot; else -1 */
    int32_t *far, *leaf;
    uint64_t *t_mask, *s_mask; /* [cap_leaf] where some part is masked */
    int32_t *next[2];
    walk_item *queue[2];
    walk_state *state;
    int64_t n_points, cap_far, cap_leaf, cap_next;
    int32_t n_slots, n_parts;
} walk_dev;

typedef struct ff_walk {
    walk_dev d;
    walk_part *part;  /* [n_parts] host copy */
    walk_state state; /* after ff_walk_check */
    int masked, levels;
} ff_walk;

/* Traverses args' plans (all targets of args[0], then of args[1], ...), masks included, in buffers for so many entries
 * a target (zeros: a first guess). Waits for nothing.                                                        Local */
ff_status ff_walk_create(ff_cuda_pool *pool, const ff_cuda_lists_args *args, int n_args,
                         const ff_cuda_density *room, ff_walk **out);
/* Waits for the stream. *fits: everything lay in the buffers, *room says what was used; else *room says what may do.
 * FF_E_INTERNAL where the traversal met a part of a tree that is not held.                                   Local */
ff_status ff_walk_check(ff_cuda_pool *pool, ff_walk *w, ff_cuda_density *room, bool *fits);
void ff_walk_destroy(ff_cuda_pool *pool, ff_walk **w);
int64_t ff_walk_point_bytes(const ff_cuda_density *room, int masked); /* device memory a target, roughly */
/* Where a chunk of targets from at on ends that fits the budget (0: none); a block of points at least. */
int64_t ff_walk_chunk(const ff_cuda_tree *t, int64_t at, int64_t end, int64_t point_bytes, int64_t budget_bytes);

static __device__ inline bool walk_fits(const walk_dev &d)
{
    return d.state->cut_short == 0 && d.state->far <= (unsigned long long)d.cap_far &&
           d.state->leaf <= (unsigned long long)d.cap_leaf;
}

/* Everything may be read. Not for walk_masks, in which errors appear: all lanes of a warp must see the same. */
static __device__ inline bool walk_good(const walk_dev &d)
{
    return d.state->error == WALK_FINE && walk_fits(d);
}

static __device__ inline void walk_fail(walk_state *state, int error, int64_t id)
{
    if (atomicCAS(&state->error, WALK_FINE, error) == WALK_FINE) state->error_id = id;
}

#endif
