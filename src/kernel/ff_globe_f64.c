/* GLOBE tiles in float64: the verification mode, plain arithmetic. */
#include "ff_globe_net.h"

#define FF_T(name) name##_f64
#define real       double
#define FF_W       2
#define R_TINY     0x1p-1022
#define R_FAR      1e150
#define R_BIG      1e300
#include "ff_vec_plain.h"

#include "ff_vec_math_f64.h"

#include "ff_globe_impl.h"

#include "ff_globe_adjoint_impl.h"

void ff_globe_records_f64(const ff_globe_net_f64 *net, int64_t n, const double *src, double *rec)
{
    globe_records(net, n, src, rec);
}

void ff_globe_tile_f64(const ff_globe_net_f64 *net, int n, const double *dx, const double *const *rec,
                       const double *strength, double *out, double *scratch)
{
    globe_tile(net, n, dx, rec, strength, out, scratch);
}

void ff_globe_records_adjoint_f64(const ff_globe_net_f64 *net, int n, const double *src,
                                  const double *rec_bar, double *src_bar, double *grad, double *scratch)
{
    globe_records_adjoint(net, n, src, rec_bar, src_bar, grad, scratch);
}

void ff_globe_tile_adjoint_f64(const ff_globe_net_f64 *net, int n, const double *dx, const double *const *rec,
                               const double *strength, const double *out_bar, double *rec_bar,
                               double *strength_bar, double *dx_bar, double *grad, double *scratch)
{
    globe_tile_adjoint(net, n, dx, rec, strength, out_bar, rec_bar, strength_bar, dx_bar, grad, scratch);
}

size_t ff_globe_adjoint_scratch_len_f64(const ff_globe_net_f64 *net)
{
    adjoint_work w;
    return adjoint_rows(net, NULL, &w) * LANES;
}
