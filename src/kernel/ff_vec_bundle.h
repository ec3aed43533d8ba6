/* Code written out over a bundle of n <= BUNDLE vectors, n a constant of the caller: EACH(n, statements with i).
 * Written out by the preprocessor, not by a loop, since clang 14 keeps arrays of such loops in memory. XYZ does the
 * same for components c < dim. Included by every ff_vec_*.h. */
#ifndef FF_VEC_BUNDLE_H
#define FF_VEC_BUNDLE_H

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { BUNDLE = 3 };

#define EACH(n, ...)                                                                                         \
    do {                                                                                                     \
        {                                                                                                    \
            enum { i = 0 };                                                                                  \
            __VA_ARGS__;                                                                                     \
        }                                                                                                    \
        if ((n) > 1) {                                                                                       \
            enum { i = 1 };                                                                                  \
            __VA_ARGS__;                                                                                     \
        }                                                                                                    \
        if ((n) > 2) {                                                                                       \
            enum { i = 2 };                                                                                  \
            __VA_ARGS__;                                                                                     \
        }                                                                                                    \
    } while (0)

#define XYZ(dim, ...)                                                                                        \
    do {                                                                                                     \
        {                                                                                                    \
            enum { c = 0 };                                                                                  \
            __VA_ARGS__;                                                                                     \
        }                                                                                                    \
        {                                                                                                    \
            enum { c = 1 };                                                                                  \
            __VA_ARGS__;                                                                                     \
        }                                                                                                    \
        if ((dim) > 2) {                                                                                     \
            enum { c = 2 };                                                                                  \
            __VA_ARGS__;                                                                                     \
        }                                                                                                    \
    } while (0)

#endif
