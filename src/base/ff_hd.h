/* Words that let host C and device C++ share one text. */
#ifndef FF_HD_H
#define FF_HD_H

#if defined(__CUDACC__)
#define FF_HD __host__ __device__ static inline
#elif defined(__GNUC__)
#define FF_HD static inline __attribute__((unused))
#else
#define FF_HD static inline
#endif

#if defined(__GNUC__) || defined(__CUDACC__)
#define FF_RESTRICT __restrict__
#elif !defined(__cplusplus)
#define FF_RESTRICT restrict
#else
#define FF_RESTRICT
#endif

#endif
