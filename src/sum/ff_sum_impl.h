/* Parts of the treecode; for src/sum only.
 *
 * One operation serves sums and their adjoint: in (charges, dipoles or forces of sources) -> out (values and
 * derivatives at targets). The adjoint exchanges the roles of the two sets; the criterion and the rule of splitting know
 * no direction, so both ways have the same pairs.
 *
 *     in at points -- up --> weights at the proxies of each node of the sources' tree     (ff_sum_up.c)
 *                            exchange of weights and points of others                     (ff_let_push)
 *     a row of the plan:     far:  proxies of sources -> proxies of the target node       (ff_sum_rows.c)
 *                            near: points of leaves  -> points of the target leaf
 *     out at points <- down - values at the proxies of each node of the targets' tree     (ff_sum_down.c)
 *
 * Positions are those given minus the centre of the box of all points; in 2D z = 0. */
#ifndef FF_SUM_IMPL_H
#define FF_SUM_IMPL_H

#include "ff_let.h"
#include "ff_plan.h"
#include "ff_sum.h"
#include "ff_sum_harm.h"
#include "ff_sum_tile.h"

enum { FF_SUM_ORDER_MAX = 12, FF_SUM_N1 = FF_SUM_ORDER_MAX + 1 };

/* Chebyshev points of the first kind in [-1, 1] and what turns the polynomials T_m at a place into the values of the
 * cardinal functions there: L_k(t) = sum over m of c[k][m] T_m(t), exact, without a division. */
typedef struct sum_basis {
    int n1; /* order + 1 */
    double t[FF_SUM_N1], c[FF_SUM_N1][FF_SUM_N1];
} sum_basis;

void ff_sum_basis_init(sum_basis *b, int order);
void ff_sum_basis_at(const sum_basis *b, double t, double *l); /* l [n1] */

/* Points that coincide (ff_sum_merge.c): all points, and for each own one which of those that are left stands for it. */
typedef struct sum_merge {
    ff_cloud *cloud;
    int64_t *row; /* [cloud->n_own] */
    int64_t n;    /* points left here, which are at home here */
    double *x;    /* [n][3] */
} sum_merge;

/* One point set with its tree. */
typedef struct sum_side {
    ff_cloud *cloud;
    sum_merge *merge; /* cloud has fewer points than the caller gave; NULL: the same */
    ff_let *let;
    int64_t *wanted;    /* [size + 1] a cut by work, or NULL: by counts */
    double *x;          /* [n_held][3] */
    double *mid, *half; /* [n_nodes][3] box of the proxies; order 0: mid is the centroid */
    double *radius;     /* [n_nodes] half the box's diagonal; only with harmonics */
    double *corner;     /* [n_held][3][3] triangles of the sources; only with exact_within > 0 */
    double *reach2;     /* [n_held] square of the distance below which they are exact; likewise */
} sum_side;

struct ff_sum {
    ff_comm *comm;
    ff_sum_opts o;
    double centre[3];
    sum_basis basis;
    ff_harm *harm; /* expansions in solid harmonics, NULL: interpolation */
    int n_proxy;   /* numbers of an expansion */
    bool quick;    /* ff_sum_spec */
    bool leaf_open;
    int order_leaf; /* points are ordered down to leaves of this size, o.leaf_size or less */
    int n_side;     /* 1: targets are the sources */
    sum_side side[2];
    ff_plan *plan, *plan_back; /* of the last side as targets; of the first side, NULL where it is the same */
    ff_sum_info info;
};

static inline sum_side *ff_sum_sources(ff_sum *s)
{
    return &s->side[0];
}
static inline sum_side *ff_sum_targets(ff_sum *s)
{
    return &s->side[s->n_side - 1];
}

/* Proxies of a node: x [3][ld], the first n_proxy entries, minus origin. Local */
void ff_sum_proxies(const ff_sum *s, const sum_side *side, int32_t node, const double origin[3], int64_t ld,
                    double *x);

/* Takes cloud away from a side some of whose points are to be merged, and sets merge; else leaves both alone. home [n_home][3].
 * Collective */
ff_status ff_sum_merge(ff_sum *s, sum_side *side, const double *home);
void ff_sum_merge_destroy(sum_merge **m);
/* The points as the caller has them. */
const ff_cloud *ff_sum_home(const sum_side *side);
/* Rows of n numbers of the caller to own points, those of points that coincide added up; and back to all of them. Collective */
ff_status ff_sum_to_own(const sum_side *side, int64_t n, const double *home, double *own);
ff_status ff_sum_to_home(const sum_side *side, int64_t n, const double *own, double *home);

/* Order of points (ff_sum_code.c, ff_sum_order.c): a set is divided into 2^levels groups, its cuts lie between them. */
enum { FF_SUM_GROUP_LEVELS = 7 };
int ff_sum_group_levels(int64_t n, int leaf_size);
int ff_sum_group_starts(int64_t n, int leaf_size, int64_t *start); /* [n_groups + 1]; n_groups */
/* Group of each home point. Collective */
ff_status ff_sum_codes(ff_comm *comm, const float *x, int64_t n, int dim, int leaf_size, uint64_t *code);
/* Cuts between groups, near wanted [size + 1] or (NULL) by counts, and orders points inside them. Collective */
ff_status ff_sum_order_points(ff_cloud *c, const int64_t *wanted);
/* Work of ranks by the lists as they are; again: sides have better cuts to be made with (ff_sum_balance.c). Collective */
ff_status ff_sum_balance(ff_sum *s, bool *again);

/* Harmonics: what the criterion is to see of a tree, before anything is marked. Local */
void ff_sum_middles(ff_tree *t);
/* Boxes of proxies, or spheres of harmonics, of the nodes held in the end. Local */
ff_status ff_sum_boxes(const ff_sum *s, sum_side *side);
/* Order 0: centroids in place of middles. Collective */
ff_status ff_sum_centroids(const sum_side *side);

/* One operation between two sides. */
typedef struct sum_job {
    const ff_sum *s;
    const sum_side *from, *to;
    const ff_plan *plan;
    bool back; /* from is the targets */
    ff_sum_spec spec;
    int n_dens, n_in, n_out; /* numbers of one density */
    int n_w, n_a; /* expansions of a node: interpolation n_dens * n_in and n_dens * n_out, harmonics n_dens */
    double *q;    /* [n_held][n_dens * n_in] */
    double *w;    /* [n_nodes][n_w][n_proxy] */
    double *a;    /* [n_nodes][n_a][n_proxy] */
    double *u;    /* [n_own][n_dens * n_out] */
} sum_job;

/* Expansions of node i. */
static inline double *ff_sum_row_w(const sum_job *j, int32_t i)
{
    return j->w + (int64_t)i * j->n_w * j->s->n_proxy;
}
static inline double *ff_sum_row_a(const sum_job *j, int32_t i)
{
    return j->a + (int64_t)i * j->n_a * j->s->n_proxy;
}

/* w of own subtrees, all bottoms and the nodes above, from q. Collective */
ff_status ff_sum_up(const sum_job *job);

/* a is destroyed; adds what it says at own points to u. Collective */
ff_status ff_sum_down(const sum_job *job);

/* Steps of one node, of either kind of expansion. tmp [2][n_proxy]. */
typedef struct sum_steps {
    void (*leaf_up)(const sum_job *j, int32_t i);
    void (*children_up)(const sum_job *j, int32_t i, double *tmp);
    void (*children_down)(const sum_job *j, int32_t i,
                          double *tmp); /* children need not be own: what they get is theirs */
    void (*leaf_down)(const sum_job *j, int32_t i);
} sum_steps;
const sum_steps *ff_sum_steps(const ff_sum *s);
extern const sum_steps ff_sum_steps_harm;

/* a of node t from its far nodes. Harmonics only. */
void ff_sum_far_harm(const sum_job *j, const ff_dtt_lists *l);

/* Near and far pairs of all rows of the plan. Local */
ff_status ff_sum_rows_f64(const sum_job *job);
ff_status ff_sum_rows_f32(const sum_job *job);

/* Triangles as sources (ff_sum_exact.c). Options; corners [n_home][3][3] of the sources to where they are held. Collective */
ff_status ff_sum_check_triangles(const ff_sum_opts *o);
ff_status ff_sum_place_triangles(ff_sum *s, const double *corners);
/* Adds all pairs of leaf t with leaf s to u [count of t][n_dens * n_out] if some of them are exact; else false. */
bool ff_sum_exact_leaf(const sum_job *j, int32_t t, int32_t s, double *u);
/* Direct sum at x of held sources [first, first + n), q their densities; adds to out. */
void ff_sum_exact_pairs(const ff_sum *s, const ff_sum_spec *spec, const double x[3], int64_t first, int64_t n,
                        const double *q, double *out);

/* home_in [n_home][n_dens * n_in] -> home_out [n_home][n_dens * n_out]. Collective */
ff_status ff_sum_operate(ff_sum *s, bool back, const ff_sum_spec *spec, const double *home_in,
                         double *home_out);

/* Parts of the operators between a node and its child: m[d][k][j], cardinal function k of the parent at point j of the
 * child. */
typedef struct sum_shift {
    double m[3][FF_SUM_N1][FF_SUM_N1];
} sum_shift;
void ff_sum_shift_init(const ff_sum *s, const sum_side *side, int32_t parent, int32_t child, sum_shift *out);
/* to [n_proxy] += what from [n_proxy] says; up: child to parent, else parent to child. tmp [2][n_proxy]. */
void ff_sum_shift_add(const ff_sum *s, const sum_shift *m, bool up, const double *from, double *to,
                      double *tmp);

/* Cardinal functions of a point in a node: l [dim][n1]. */
void ff_sum_point_basis(const ff_sum *s, const sum_side *side, int32_t node, const double *x,
                        double l[3][FF_SUM_N1]);

/* Whether these sums take solid harmonics: 1/R in 3 dimensions from order 1. */
static inline bool ff_sum_harmonic(const ff_sum_opts *o)
{
    return o->kernel == FF_SUM_INV_R && o->dim == 3 && o->order > 0;
}

/* Fills what the user left open (rtol, leaf_size); says why not. Local */
ff_status ff_sum_choose(ff_sum_opts *o);
/* How points lie in boxes (ff_sum_spread.c): the largest spread of any level, 0 to 1; shrinking of boxes; size of leaves. */
typedef struct sum_spread {
    double spread, shrinking, size;
} sum_spread;
ff_status ff_sum_spread(const ff_cloud *c, sum_spread *out); /* Collective */
/* theta with rtol, and with harmonics a leaf size left open, for the points as they lie. Collective */
ff_status ff_sum_adapt(ff_sum *s);

#endif
