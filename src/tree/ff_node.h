/* A tree node's box and diameter, shared by host and device. float32, never contracted: device code that includes this
 * is compiled with --fmad=false. */
#ifndef FF_NODE_H
#define FF_NODE_H

#include "ff_hd.h"

#include <stdint.h>

enum { FF_NODE_LEAF = -1, FF_NODE_CUT = -2 };

/* What the traversal reads, 32 bytes. In 2D lo[2] = hi[2] = 0: all sums keep their bits. */
typedef struct ff_node {
    float lo[3], hi[3];
    float diam2;   /* |hi - lo|^2, summed left to right, float32 */
    int32_t right; /* held index of the right child, or FF_NODE_LEAF, FF_NODE_CUT */
} ff_node;

FF_HD void ff_node_set_diameter(ff_node *n)
{
    float sum = 0.0f;
    for (int d = 0; d < 3; d++) {
        float e = n->hi[d] - n->lo[d];
        float e2 = e * e;
        sum = sum + e2;
    }
    n->diam2 = sum;
}

/* Box and diameter of a leaf from its points x [n][dim]; of an inner node from its two children. right is kept. */
FF_HD void ff_node_from_points(ff_node *node, const float *x, int64_t n, int dim)
{
    for (int d = 0; d < 3; d++) {
        float lo = d < dim ? x[d] : 0.0f, hi = lo;
        for (int64_t i = 1; d < dim && i < n; i++) {
            float v = x[i * dim + d];
            if (v < lo) lo = v;
            if (v > hi) hi = v;
        }
        node->lo[d] = lo;
        node->hi[d] = hi;
    }
    ff_node_set_diameter(node);
}

FF_HD void ff_node_from_children(ff_node *node, const ff_node *left, const ff_node *right)
{
    for (int d = 0; d < 3; d++) {
        node->lo[d] = right->lo[d] < left->lo[d] ? right->lo[d] : left->lo[d];
        node->hi[d] = right->hi[d] > left->hi[d] ? right->hi[d] : left->hi[d];
    }
    ff_node_set_diameter(node);
}

#endif
