/* Functions of double vectors: the C library lane by lane, for the verification mode. Same names as
 * ff_vec_math_f32.h. */
#define LANE_BY_LANE(name, expression)                                                                       \
    static inline vr name(vr x)                                                                              \
    {                                                                                                        \
        for (int i = 0; i < FF_W; i++) x[i] = (expression);                                                  \
        return x;                                                                                            \
    }
LANE_BY_LANE(v_abs, fabs(x[i]))
LANE_BY_LANE(v_em1, -expm1(-x[i]))
LANE_BY_LANE(v_s, -expm1(-x[i]) * log1p(x[i]))
LANE_BY_LANE(v_silu2, x[i] / (1.0 + exp2(-x[i])))
LANE_BY_LANE(v_tanh, tanh(x[i]))
#undef LANE_BY_LANE
