/* Small loops the compiler must unroll completely: over a bundle of n vectors (n a constant of the caller),
 * or over any constant count. Included by the ff_vec_*.h before anything else. */
#ifndef FF_VEC_BUNDLE_H
#define FF_VEC_BUNDLE_H

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define EACH(n) UNROLL for (int i = 0; i < (n); i++)

#endif
