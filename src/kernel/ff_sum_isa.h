/* Tiles of each instruction set; for ff_sum_*.c only. par is a ff_radial_par; on processors or compilers without the set
 * they are those of the plain one. */
#ifndef FF_SUM_ISA_H
#define FF_SUM_ISA_H

#include "ff_sum_tile.h"

typedef void ff_sum_tile_fn_f64(const ff_sum_spec *s, const void *par, const ff_sum_args_f64 *a);
typedef void ff_sum_tile_fn_f32(const ff_sum_spec *s, const void *par, const ff_sum_args_f32 *a);

ff_sum_tile_fn_f64 ff_sum_plain_f64, ff_sum_avx2_f64, ff_sum_avx512_f64;
ff_sum_tile_fn_f32 ff_sum_plain_f32, ff_sum_avx2_f32, ff_sum_avx512_f32;

#endif
