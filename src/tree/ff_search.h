/* Neighbours within a cutoff: what a search needs to know of all points, and the walk through a tree.
 *
 * Points are float64; the tree holds them in float32, wrapped into the cell and taken from the middle of all points.
 * The walk finds every leaf that can hold a neighbour: reach2 allows for the rounding. Who is a neighbour is decided
 * from the float64 points as given (ff_search_edge), so the edges depend neither on the tree nor on its frame; the GPU
 * walks with the same text.
 *
 *     image m of a source: wrapped source + m . cell; seen from the destination it is the edge with
 *     k = m - wrap(source) + wrap(destination) */
#ifndef FF_SEARCH_H
#define FF_SEARCH_H

#include "ff_lattice.h"
#include "ff_lbvh.h"

#include <math.h>

enum { FF_SEARCH_IMAGE_BITS = 20, FF_SEARCH_DEPTH = 64 };

typedef struct ff_search {
    double cutoff;
    ff_lattice lattice;
    int n_image[3];   /* images -n .. n of each axis are sought */
    int64_t n_images; /* of all axes together, at most 2^FF_SEARCH_IMAGE_BITS */
    double lo[3], hi[3],
        largest; /* box of all wrapped points and largest |coordinate| as given; 0 without points */
    double origin[3], reach2; /* middle of the box; (cutoff + rounding)^2 */
} ff_search;

/* Checks cutoff and cell. Errors: FF_E_ARG cutoff not positive and finite, cell (ff_lattice_create), so many images
 * that they cannot be numbered.                                                                              Local */
ff_status ff_search_start(double cutoff, const ff_cell *cell, ff_search *s);
/* Box and largest coordinate of these points (none: +inf, -inf, 0). Errors: FF_E_INPUT not finite or beyond 1e18, with
 * the point's number, counted from first. Local */
ff_status ff_search_box(ff_search *s, const double *x, int64_t n, int64_t first);
/* Origin and reach from box and largest, which are those of all points now; n_all of them. Local */
void ff_search_finish(ff_search *s, int64_t n_all);

/* Wraps points into the tree's frame: x_tree [n][3], wrap [n][3] (NULL if the lattice is open). Local */
void ff_search_frame(const ff_search *s, const double *x, int64_t n, float *x_tree, int32_t *wrap);

/* Image number i of n_images, in lexicographic order of m. */
FF_HD void ff_search_image(const ff_search *s, int64_t i, int32_t m[3])
{
    for (int a = 2; a >= 0; a--) {
        int64_t n = 2 * s->n_image[a] + 1;
        m[a] = (int32_t)(i % n) - s->n_image[a];
        i /= n;
    }
}

/* The image of an edge that was found in image m of its source. */
FF_HD void ff_search_image_of(const int32_t m[3], const int32_t w_src[3], const int32_t w_dst[3],
                              int32_t k[3])
{
    for (int a = 0; a < 3; a++) k[a] = m[a] - w_src[a] + w_dst[a];
}

/* Whether src in image k is a neighbour of dst; v the edge's vector. */
FF_HD bool ff_search_edge(const ff_search *s, const double x_src[3], const double x_dst[3],
                          const int32_t k[3], double v[3])
{
    if (s->lattice.open) {
        for (int i = 0; i < 3; i++) v[i] = x_src[i] - x_dst[i];
    } else {
        ff_lattice_edge(s->lattice.vector, x_src, x_dst, k, v);
    }
    return sqrt(ff_lattice_norm2(v)) < s->cutoff;
}

/* ---- walk ---- */
typedef struct ff_search_walk {
    const ff_node *node;
    double lo[3], hi[3], reach2; /* the asking box, in the tree's frame */
    int32_t stack[FF_SEARCH_DEPTH];
    int n;
} ff_search_walk;

/* node [n_nodes]: those of the tree, which is complete. */
FF_HD void ff_search_begin(ff_search_walk *w, const ff_search *s, const ff_node *node, int32_t n_nodes,
                           const double lo[3], const double hi[3], const double shift[3])
{
    w->node = node;
    w->reach2 = s->reach2;
    for (int d = 0; d < 3; d++) w->lo[d] = lo[d] - shift[d], w->hi[d] = hi[d] - shift[d];
    w->n = n_nodes > 0;
    w->stack[0] = 0;
}

FF_HD double ff_search_distance2(const ff_search_walk *w, const ff_node *node)
{
    double d2 = 0;
    for (int d = 0; d < 3; d++) {
        double below = (double)node->lo[d] - w->hi[d], above = w->lo[d] - (double)node->hi[d];
        double gap = below > above ? below : above;
        if (gap > 0) d2 += gap * gap;
    }
    return d2;
}

/* Next leaf that may hold a neighbour, -1 at the end. */
FF_HD int32_t ff_search_leaf(ff_search_walk *w)
{
    while (w->n > 0) {
        int32_t i = w->stack[--w->n];
        while (ff_search_distance2(w, &w->node[i]) <= w->reach2) {
            if (w->node[i].right == FF_NODE_LEAF) return i;
            w->stack[w->n++] = w->node[i].right;
            i++;
        }
    }
    return -1;
}

#endif
