/* The sgemm rate of this machine, the yardstick CPU figures are given against. Loads a BLAS at run time. */
#ifndef BENCH_BLAS_H
#define BENCH_BLAS_H

/* GFLOP/s of C = A B at n^3 in float32 with the given threads, best of three; 0 if no BLAS library is found.
 */
double bench_sgemm_gflops(int n, int threads);

#endif
