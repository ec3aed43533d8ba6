/* Multipole acceptance criterion: the decisions of the dual traversal, float32, never contracted.
 * Shared by the CPU traversal, the locally-essential-tree selection and the CUDA traversal (--fmad=false there). All four
 * are monotone: a box inside another box is never judged nearer, in float32 arithmetic too, because
 * subtraction, squaring, addition, square root and product are each monotone under rounding to nearest. */
#ifndef FF_MAC_H
#define FF_MAC_H

#include "ff_node.h"

#include <math.h>
#include <stdbool.h>

/* theta^2 in double, then rounded: the only form in which theta enters. */
FF_HD float ff_mac_theta2(double theta)
{
    return (float)(theta * theta);
}

/* Square of the gap of two intervals along one axis, 0 if they meet. Written so that it compiles without a
 * jump: traversals spend their time here, and where intervals lie is unpredictable. */
FF_HD float ff_mac_axis_gap2(float t_lo, float t_hi, float s_lo, float s_hi)
{
    float a = t_lo - s_hi, b = s_lo - t_hi;
    float g = a > b ? a : b;
    g = g > 0.0f ? g : 0.0f;
    return g * g;
}

FF_HD float ff_mac_gap2(const ff_node *t, const ff_node *s)
{
    float sum = ff_mac_axis_gap2(t->lo[0], t->hi[0], s->lo[0], s->hi[0]);
    sum = sum + ff_mac_axis_gap2(t->lo[1], t->hi[1], s->lo[1], s->hi[1]);
    sum = sum + ff_mac_axis_gap2(t->lo[2], t->hi[2], s->lo[2], s->hi[2]);
    return sum;
}

/* Node pair: far if gap^2 theta^2 > (diam_t + diam_s)^2. */
FF_HD bool ff_mac_far(const ff_node *t, const ff_node *s, float theta2)
{
    float reach = sqrtf(t->diam2) + sqrtf(s->diam2);
    float lhs = ff_mac_gap2(t, s) * theta2, rhs = reach * reach;
    return lhs > rhs;
}

/* Point against a node's box: far if distance^2 theta^2 > diam2. x has dim components. */
FF_HD bool ff_mac_point_far(const float *x, int dim, const ff_node *n, float theta2)
{
    float sum = 0.0f;
    for (int d = 0; d < dim; d++) sum = sum + ff_mac_axis_gap2(x[d], x[d], n->lo[d], n->hi[d]);
    float lhs = sum * theta2;
    return lhs > n->diam2;
}

/* Which side of an undecided pair is split (both may be). */
FF_HD bool ff_mac_split_target(const ff_node *t, const ff_node *s)
{
    return t->right != FF_NODE_LEAF && (s->right == FF_NODE_LEAF || t->diam2 >= s->diam2);
}
FF_HD bool ff_mac_split_source(const ff_node *t, const ff_node *s)
{
    return s->right != FF_NODE_LEAF && (t->right == FF_NODE_LEAF || s->diam2 >= t->diam2);
}

#endif
