/* Functions of double vectors: the C library lane by lane, for the verification mode. Same names and bundles
 * as ff_vec_math_f32.h. */
#define LANE_BY_LANE(name, expression)                                                                       \
    INLINE void name(vr *v, const int n)                                                                     \
    {                                                                                                        \
        for (int i = 0; i < n; i++) {                                                                        \
            vr y = v_set1(0);                                                                                \
            for (int l = 0; l < FF_W; l++) {                                                                 \
                double x = v[i][l];                                                                          \
                y[l] = (expression);                                                                         \
            }                                                                                                \
            v[i] = y;                                                                                        \
        }                                                                                                    \
    }
LANE_BY_LANE(v_em1, -expm1(-x))
LANE_BY_LANE(v_s, -expm1(-x) * log1p(x))
LANE_BY_LANE(v_silu2, x / (1.0 + exp2(-x)))
LANE_BY_LANE(v_tanh, tanh(x))
#undef LANE_BY_LANE

static inline vr v_abs(vr x)
{
    for (int l = 0; l < FF_W; l++) x[l] = fabs(x[l]);
    return x;
}
