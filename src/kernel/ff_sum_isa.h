/* Tiles of each instruction set; for ff_sum_*.c only. par is a ff_radial_par; on processors or compilers without the set
 * they are those of the plain one. */
#ifndef FF_SUM_ISA_H
#define FF_SUM_ISA_H

#include "ff_sum_harm.h"
#include "ff_sum_tile.h"

typedef void ff_sum_tile_fn_f64(const ff_sum_spec *s, const void *par, const ff_sum_args_f64 *a);
typedef void ff_sum_tile_fn_f32(const ff_sum_spec *s, const void *par, const ff_sum_args_f32 *a);

ff_sum_tile_fn_f64 ff_sum_plain_f64, ff_sum_avx2_f64, ff_sum_avx512_f64;
ff_sum_tile_fn_f32 ff_sum_plain_f32, ff_sum_avx2_f32, ff_sum_avx512_f32;

/* Steps with solid harmonics (ff_sum_harm.h); gather and spread know charges and potentials only. */
typedef struct ff_harm_row {
    void (*far)(const ff_harm *h, const ff_harm_nodes *from, const int32_t *list, int64_t n,
                const ff_harm_nodes *to, int32_t target);
    void (*up)(const ff_harm *h, const ff_harm_nodes *nodes, int32_t parent, const int32_t child[2]);
    void (*down)(const ff_harm *h, const ff_harm_nodes *nodes, int32_t parent, const int32_t child[2]);
    void (*gather)(const ff_harm *h, const ff_harm_points *p, const double *q, int n_comp, double *out);
    void (*spread)(const ff_harm *h, const ff_harm_points *p, const double *in, int n_comp, double *u);
} ff_harm_row;
const ff_harm_row *ff_harm_plain(void), *ff_harm_avx2(void), *ff_harm_avx512(void);

int ff_sum_isa_level(void); /* 0 plain, 1 AVX2, 2 AVX-512 */

#endif
