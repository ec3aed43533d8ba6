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

/* One point set with its tree. */
typedef struct sum_side {
    ff_cloud *cloud;
    ff_let *let;
    double *x;          /* [n_held][3] */
    double *mid, *half; /* [n_nodes][3] box of the proxies; order 0: mid is the centroid */
} sum_side;

struct ff_sum {
    ff_comm *comm;
    ff_sum_opts o;
    double centre[3];
    sum_basis basis;
    int n_proxy;
    int n_side; /* 1: targets are the sources */
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

/* Boxes of proxies. Collective */
ff_status ff_sum_boxes(const ff_sum *s, sum_side *side);

/* w [n_nodes][n_comp][n_proxy] of own subtrees, all bottoms and the nodes above, from q [n_held][n_comp]. Collective */
ff_status ff_sum_up(const ff_sum *s, const sum_side *side, int n_comp, const double *q, double *w);

/* a [n_nodes][n_comp][n_proxy], destroyed; adds what it says at own points to u [n_own][n_comp]. Collective */
ff_status ff_sum_down(const ff_sum *s, const sum_side *side, int n_comp, double *a, double *u);

/* One operation between two sides. */
typedef struct sum_job {
    const ff_sum *s;
    const sum_side *from, *to;
    const ff_plan *plan;
    ff_sum_spec spec;
    int n_dens, n_in, n_out; /* numbers of one density */
    double *q;               /* [n_held][n_dens * n_in] */
    double *w;               /* [n_nodes][n_dens * n_in][n_proxy] */
    double *a;               /* [n_nodes][n_dens * n_out][n_proxy] */
    double *u;               /* [n_own][n_dens * n_out] */
} sum_job;

/* Near and far pairs of all rows of the plan. Local */
ff_status ff_sum_rows_f64(const sum_job *job);
ff_status ff_sum_rows_f32(const sum_job *job);

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

/* Fills what the user left open (rtol, leaf_size); says why not. Local */
ff_status ff_sum_choose(ff_sum_opts *o);

#endif
