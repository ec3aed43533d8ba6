/* Arithmetic of one edge, shared by all rows of the zonal scatter. Device code that includes this is compiled with
 * --fmad=false: multiply and add round separately, so all rows give the same bits. */
#ifndef FF_SCATTER_MATH_H
#define FF_SCATTER_MATH_H

#include "ff_hd.h"

/* Rows of all degrees 1 .. lmax: D - 1. */
FF_HD int ff_scatter_n_rows(int lmax)
{
    return (lmax + 1) * (lmax + 1) - 1;
}

/* First row of degree l (of 2 l + 1). */
FF_HD int ff_scatter_first_row(int l)
{
    return l * l - 1;
}

/* What edge e adds to its node; spin is 0 and gate 1 where they are not given: both leave the value as it is, but for
 * the sign of a zero, which the sum does not keep. */
FF_HD float ff_scatter_message_f32(float coupling, float radial, float spin, float gate)
{
    return (coupling * radial + spin) * gate;
}

FF_HD double ff_scatter_message_f64(double coupling, double radial, double spin, double gate)
{
    return (coupling * radial + spin) * gate;
}

#endif
