/* GLOBE pair kernel: counts, checks of a shape, choice of the instruction set. */
#include "ff_globe_layout.h"
#include "ff_globe_net.h"

#include <stdatomic.h>
#include <string.h>

int ff_globe_n_vec(const ff_globe_shape *s)
{
    return s->n_gvector + s->n_svector;
}

static int n_vector_pairs(const ff_globe_shape *s) /* r included */
{
    int n = ff_globe_n_vec(s) + 1;
    return n * (n - 1) / 2;
}

int ff_globe_n_in(const ff_globe_shape *s)
{
    return s->n_gscalar + s->n_sscalar + ff_globe_n_vec(s) + 1 + n_vector_pairs(s) * s->n_harm;
}

int ff_globe_n_coef(const ff_globe_shape *s)
{
    int n = 0;
    for (int f = 0; f < s->n_field; f++) n += s->field_rank[f] == 0 ? 1 : 1 + 2 * ff_globe_n_vec(s);
    return n;
}

int ff_globe_n_net_out(const ff_globe_shape *s)
{
    return (s->mlp ? 1 : 2) * ff_globe_n_coef(s);
}

int ff_globe_n_comp(const ff_globe_shape *s)
{
    int n = 0;
    for (int f = 0; f < s->n_field; f++) n += s->field_rank[f] == 0 ? 1 : s->dim;
    return n;
}

int ff_globe_n_source(const ff_globe_shape *s)
{
    return s->n_sscalar + s->dim * s->n_svector;
}

int64_t ff_globe_pair_madds(const ff_globe_shape *s)
{
    int64_t madds = 0, n_in = 1 + ff_globe_n_vec(s) * s->n_harm;
    for (int l = 0; l < s->n_hidden; l++) {
        madds += n_in * s->hidden[l];
        n_in = s->hidden[l];
    }
    return madds + n_in * ff_globe_n_net_out(s);
}

int ff_globe_col_g(const ff_globe_shape *s, int vector)
{
    int base = s->n_gscalar + s->n_sscalar;
    if (vector == ff_globe_n_vec(s))
        return base + s->n_gvector; /* r stands between global and source vectors */
    return base + vector + (vector >= s->n_gvector ? 1 : 0);
}

int ff_globe_col_harm(const ff_globe_shape *s, int n, int a, int b)
{
    int n_vectors = ff_globe_n_vec(s) + 1;
    int base = s->n_gscalar + s->n_sscalar + n_vectors;
    return base + ff_globe_harm_place(n, s->n_harm) * n_vector_pairs(s) + a * n_vectors - a * (a + 1) / 2 +
           (b - a - 1);
}

static ff_status in_range(const char *what, int value, int lo, int hi)
{
    if (value >= lo && value <= hi) return FF_OK;
    return ff_fail(FF_E_ARG, "GLOBE network: %s = %d, expected %d to %d", what, value, lo, hi);
}

ff_status ff_globe_shape_check(const ff_globe_shape *s)
{
    FF_TRY(in_range("spatial dimension", s->dim, 2, 3));
    FF_TRY(in_range("hidden layers", s->n_hidden, 1, FF_GLOBE_MAX_LAYERS));
    for (int l = 0; l < s->n_hidden; l++)
        FF_TRY(in_range("width of a hidden layer", s->hidden[l], 1, FF_GLOBE_MAX_HIDDEN));
    FF_TRY(in_range("harmonics", s->n_harm, 0, FF_GLOBE_MAX_HARM));
    FF_TRY(in_range("global vectors", s->n_gvector, 0, FF_GLOBE_MAX_VEC));
    FF_TRY(in_range("source vectors", s->n_svector, 0, FF_GLOBE_MAX_VEC - s->n_gvector));
    FF_TRY(in_range("global scalars", s->n_gscalar, 0, 1 << 20));
    FF_TRY(in_range("source scalars", s->n_sscalar, 0, 1 << 20));
    FF_TRY(in_range("output fields", s->n_field, 1, 1 << 16));
    for (int f = 0; f < s->n_field; f++) FF_TRY(in_range("rank of an output field", s->field_rank[f], 0, 1));
    if (!(s->beta >= 0.0)) return ff_fail(FF_E_ARG, "GLOBE network: beta = %g, expected >= 0", s->beta);
    if (!(s->eps >= 0.0))
        return ff_fail(FF_E_ARG, "GLOBE network: smoothing radius = %g, expected >= 0", s->eps);
    return FF_OK;
}

/* ---- instruction sets ---- */

static bool runs_here(const ff_globe_isa_row *row)
{
    if (row->tile == NULL) return false;
#if defined(__x86_64__)
    if (row == &ff_globe_isa_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
    if (row == &ff_globe_isa_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return true;
}

static const ff_globe_isa_row *const isa_rows[] = {&ff_globe_isa_avx512, &ff_globe_isa_avx2,
                                                   &ff_globe_isa_generic};
enum { N_ISA = sizeof isa_rows / sizeof *isa_rows };

static _Atomic(const ff_globe_isa_row *)
    isa_now; /* NULL until first asked; every thread finds the same row */

static const ff_globe_isa_row *isa(void)
{
    const ff_globe_isa_row *row = atomic_load_explicit(&isa_now, memory_order_acquire);
    if (row != NULL) return row;
    for (int i = 0; i < N_ISA; i++) {
        row = isa_rows[i];
        if (runs_here(row)) break;
    }
    atomic_store_explicit(&isa_now, row, memory_order_release);
    return row;
}

const char *ff_globe_isa(void)
{
    return isa()->name;
}

ff_status ff_globe_set_isa(const char *name)
{
    if (strcmp(name, "auto") == 0) {
        atomic_store(&isa_now, NULL);
        return FF_OK;
    }
    for (int i = 0; i < N_ISA; i++) {
        if (strcmp(name, isa_rows[i]->name) != 0) continue;
        if (!runs_here(isa_rows[i]))
            return ff_fail(FF_E_UNSUPPORTED, "instruction set %s: not offered by this processor or build",
                           name);
        atomic_store(&isa_now, isa_rows[i]);
        return FF_OK;
    }
    return ff_fail(FF_E_ARG, "instruction set \"%s\" is unknown, expected avx512, avx2, generic or auto",
                   name);
}

void ff_globe_records_f32(const ff_globe_net_f32 *net, int64_t n, const float *src, float *rec)
{
    isa()->records(net, n, src, rec);
}

void ff_globe_tile_f32(const ff_globe_net_f32 *net, int n, const float *dx, const float *const *rec,
                       const float *strength, float *out, float *scratch)
{
    isa()->tile(net, n, dx, rec, strength, out, scratch);
}

void ff_globe_records_adjoint_f32(const ff_globe_net_f32 *net, int n, const float *src, const float *rec_bar,
                                  float *src_bar, float *grad, float *scratch)
{
    isa()->records_adjoint(net, n, src, rec_bar, src_bar, grad, scratch);
}

void ff_globe_tile_adjoint_f32(const ff_globe_net_f32 *net, int n, const float *dx, const float *const *rec,
                               const float *strength, const float *out_bar, float *rec_bar,
                               float *strength_bar, float *dx_bar, float *grad, float *scratch)
{
    isa()->tile_adjoint(net, n, dx, rec, strength, out_bar, rec_bar, strength_bar, dx_bar, grad, scratch);
}
