/* Vectors of FF_W reals in the compilers' own vector language: any processor, no fused multiply-add (v_fma
 * rounds twice). Includer defines real and FF_W. Convention of all ff_vec_*.h: v_max(bound, x) and
 * v_min(bound, x) return x where x is NaN, so a clamp never hides one. */
#include "ff_vec_bundle.h"

#include <math.h>

typedef real vr __attribute__((vector_size(sizeof(real) * FF_W), may_alias));
typedef real vr_u __attribute__((vector_size(sizeof(real) * FF_W), may_alias, aligned(sizeof(real))));

enum { FF_J = 4, FF_V = 2 }; /* register block of the network product: outputs x vectors */

static inline vr v_set1(real x)
{
    vr v;
    for (int i = 0; i < FF_W; i++) v[i] = x;
    return v;
}
static inline vr v_load(const real *p)
{
    return *(const vr_u *)p;
}
static inline void v_store(real *p, vr x)
{
    *(vr_u *)p = x;
}
static inline vr v_fma(vr a, vr b, vr c)
{
    return a * b + c;
}
static inline vr v_max(vr bound, vr x)
{
    for (int i = 0; i < FF_W; i++) x[i] = bound[i] > x[i] ? bound[i] : x[i];
    return x;
}
static inline vr v_min(vr bound, vr x)
{
    for (int i = 0; i < FF_W; i++) x[i] = bound[i] < x[i] ? bound[i] : x[i];
    return x;
}
static inline vr v_sqrt(vr x)
{
    for (int i = 0; i < FF_W; i++)
        x[i] = (real)sqrt((double)x[i]); /* in double, then rounded: the same bits as sqrtf */
    return x;
}
static inline void v_transpose(vr t[FF_W])
{
    for (int i = 0; i < FF_W; i++)
        for (int j = 0; j < i; j++) {
            real x = t[i][j];
            t[i][j] = t[j][i];
            t[j][i] = x;
        }
}
