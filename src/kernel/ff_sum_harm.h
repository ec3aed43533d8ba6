/* Solid harmonics: the expansions of 1/R.
 *
 *     R_lm(x) = r^l C_lm       C_lm the real spherical harmonics with  sum over m of C_lm(a) C_lm(b) = P_l(cos(a, b))
 *     1 / |X - Y| = sum over lm of R_lm(Y) C_lm(X) / |X|^(l+1),   |Y| < |X|
 *
 * A node at c with radius s stands for its sources by M_lm = sum q R_lm((y - c) / s), l <= order, and gathers at the targets
 * L_lm with phi(x) = sum L_lm R_lm((x - c) / s). M moves to a parent, M to L of another node, L to a child by: turn the
 * coordinates so that the shift lies along z, shift, turn back; O(order^3) operations. The turns are about z (cos, sin) and
 * two exchanges of x and z by fixed matrices, so vectors hold 8 (4, 2) pairs of nodes with any directions. Formulas:
 * docs/sum.md. Numbers of an expansion: for each l the cosines m = 0 .. l, then the sines m = 1 .. l, (order + 1)^2 in all.
 *
 * Every step is the transpose of another (M to M of L to L, sources to M of L to targets, M to L of itself with the nodes
 * exchanged), so adjoints are exact. */
#ifndef FF_SUM_HARM_H
#define FF_SUM_HARM_H

#include "ff_status.h"

#include <stdint.h>

enum { FF_HARM_ORDER_MAX = 20, FF_HARM_N1 = FF_HARM_ORDER_MAX + 1, FF_HARM_MAX = FF_HARM_N1 * FF_HARM_N1 };

/* Tables of an order. */
typedef struct ff_harm {
    int order, n1, n; /* n = n1^2 */
    double
        *swap;   /* exchange of x and z: of each l the blocks (cos, sin) x (even, odd m), [inputs][outputs] */
    double *far; /* of each m [n1 - m inputs][n1 - m outputs] */
    double *shift;                                               /* alike, to degrees not below the input's */
    double diagonal[FF_HARM_N1], a[FF_HARM_MAX], b[FF_HARM_MAX]; /* recursion, a and b by l^2 + m */
    double norm[FF_HARM_MAX];                                    /* sqrt((l - m)! (l + m)!), by l^2 + m */
} ff_harm;

ff_status ff_harm_create(int order, ff_harm **out); /* Local */
void ff_harm_destroy(ff_harm **h);

/* Nodes by number: mid [..][3], radius [..] > 0, expansions at row * node number. */
typedef struct ff_harm_nodes {
    const double *mid, *radius;
    double *row;
    int64_t ld; /* numbers between rows */
} ff_harm_nodes;

/* L of to += from each of the nodes list [n], in this order. Nodes do not meet. */
void ff_harm_far(const ff_harm *h, const ff_harm_nodes *from, const int32_t *list, int64_t n,
                 const ff_harm_nodes *to, int32_t target);
/* M of parent += from its children; L of the children += from the parent. */
void ff_harm_up(const ff_harm *h, const ff_harm_nodes *nodes, int32_t parent, const int32_t child[2]);
void ff_harm_down(const ff_harm *h, const ff_harm_nodes *nodes, int32_t parent, const int32_t child[2]);

/* Points of one node. x [n][3]; q and u [n][ld], of them charge (if charge) and dipole (if dipole), or potential and (if
 * grad) its gradient. M and u are added to. */
typedef struct ff_harm_points {
    int64_t n, ld;
    const double *x, *mid;
    double radius;
    int charge, dipole, grad;
} ff_harm_points;
void ff_harm_from_points(const ff_harm *h, const ff_harm_points *p, const double *q, double *m);
void ff_harm_to_points(const ff_harm *h, const ff_harm_points *p, const double *l, double *u);

#endif
