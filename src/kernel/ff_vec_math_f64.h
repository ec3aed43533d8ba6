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
LANE_BY_LANE(v_log1p, log1p(x))
LANE_BY_LANE(v_s, -expm1(-x) * log1p(x))
LANE_BY_LANE(v_silu2, x / (1.0 + exp2(-x)))
LANE_BY_LANE(v_tanh, tanh(x))
#undef LANE_BY_LANE

INLINE void v_silu2_diff(vr *z, vr *diff, const int n)
{
    for (int i = 0; i < n; i++) {
        vr d = v_set1(0);
        for (int l = 0; l < FF_W; l++) {
            double s = 1.0 / (1.0 + exp2(-z[i][l]));
            d[l] = s + z[i][l] * 0.69314718055994531 * s * (1.0 - s);
        }
        diff[i] = d;
    }
    v_silu2(z, n);
}

static inline vr v_abs(vr x)
{
    for (int l = 0; l < FF_W; l++) x[l] = fabs(x[l]);
    return x;
}
