#include "ff_loss.h"

#include "ff_exact.h"

#include <math.h>

enum { WEIGHT, ERROR, SQUARE, N_SUMS };

/* Components [at, at + comp) of row i are known. */
static bool known(const double *truth, int comp)
{
    for (int d = 0; d < comp; d++)
        if (isnan(truth[d])) return false;
    return true;
}

static double norm2(const double *a, const double *b, int comp)
{
    double s = 0;
    for (int d = 0; d < comp; d++) {
        double v = a[d] - (b != NULL ? b[d] : 0);
        s += v * v;
    }
    return s;
}

ff_status ff_loss_run(ff_comm *comm, const ff_name_list *outputs, int dim, int64_t n, const double *rows,
                      const double *truth, const double *weight, const ff_loss_opts *opts, double *part,
                      double *cotangent)
{
    ff_exact sum[FF_LOSS_FIELDS_MAX][N_SUMS] = {{{0}}};
    int n_comp = ff_names_comp(outputs, dim), at = 0;
    if (outputs->n > FF_LOSS_FIELDS_MAX)
        return ff_fail(FF_E_ARG, "loss: %d output fields, expected at most %d", outputs->n,
                       FF_LOSS_FIELDS_MAX);
    for (int f = 0; f < outputs->n; f++) {
        int comp = outputs->item[f].rank == 0 ? 1 : dim;
        for (int64_t i = 0; i < n; i++) {
            const double *y = rows + i * n_comp + at, *t = truth + i * n_comp + at;
            double w = weight != NULL ? weight[i] : 1;
            if (!known(t, comp)) continue;
            ff_exact_add(&sum[f][WEIGHT], w);
            ff_exact_add(&sum[f][ERROR], w * norm2(y, t, comp));
            ff_exact_add(&sum[f][SQUARE], w * norm2(t, NULL, comp));
        }
        at += comp;
    }
    FF_TRY(ff_exact_allreduce(comm, &sum[0][0], outputs->n * N_SUMS));
    at = 0;
    for (int f = 0; f < outputs->n; f++) {
        int comp = outputs->item[f].rank == 0 ? 1 : dim;
        double total = ff_exact_value(&sum[f][WEIGHT]), s2 = opts->scale[f] * opts->scale[f], per = s2;
        if (opts->relative)
            per = (total > 0 ? ff_exact_value(&sum[f][SQUARE]) / total : 0) + opts->floor * s2;
        part[f] = total > 0 ? ff_exact_value(&sum[f][ERROR]) / total / per : 0;
        for (int64_t i = 0; i < n && cotangent != NULL; i++) {
            const double *y = rows + i * n_comp + at, *t = truth + i * n_comp + at;
            double w = weight != NULL ? weight[i] : 1,
                   factor = total > 0 && known(t, comp) ? 2 * w / (total * per) : 0;
            for (int d = 0; d < comp; d++)
                cotangent[i * n_comp + at + d] = factor != 0 ? factor * (y[d] - t[d]) : 0;
        }
        at += comp;
    }
    return FF_OK;
}
