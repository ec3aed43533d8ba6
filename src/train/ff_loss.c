#include "ff_loss.h"

#include "ff_exact.h"
#include "ff_sums.h"

#include <math.h>

enum { WEIGHT, ERROR, SQUARE, N_SUMS };

/* Components [at, at + comp) of row i are known. */
static bool known(const double *truth, int comp)
{
    for (int d = 0; d < comp; d++)
        if (isnan(truth[d])) return false;
    return true;
}

/* |a - b|^2 of vectors times unit; b NULL: 0. */
static double norm2(const double *a, const double *b, int comp, double unit)
{
    double s = 0;
    for (int d = 0; d < comp; d++) {
        double v = unit * (a[d] - (b != NULL ? b[d] : 0));
        s += v * v;
    }
    return s;
}

/* unit [outputs + 1]: of each field, then of the weights, a power of two that brings the largest value of all ranks below 2:
 * sums have a fixed unit, fields and areas any.                                                       Collective */
static ff_status find_units(ff_comm *comm, const ff_name_list *outputs, int dim, int64_t n,
                            const double *rows, const double *truth, const double *weight, double *unit)
{
    enum { MOST = 1000 }; /* 2^MOST and its inverse are numbers */
    int n_comp = ff_names_comp(outputs, dim), at = 0, e[FF_LOSS_FIELDS_MAX + 1];
    double top[FF_LOSS_FIELDS_MAX + 1] = {0};
    for (int f = 0; f < outputs->n; f++) {
        int comp = outputs->item[f].rank == 0 ? 1 : dim;
        for (int64_t i = 0; i < n; i++) {
            const double *y = rows + i * n_comp + at, *t = truth + i * n_comp + at;
            if (!known(t, comp)) continue;
            for (int d = 0; d < comp; d++) top[f] = fmax(top[f], fmax(fabs(y[d]), fabs(t[d])));
        }
        at += comp;
    }
    for (int64_t i = 0; i < n; i++) top[outputs->n] = fmax(top[outputs->n], weight != NULL ? weight[i] : 1);
    FF_TRY(ff_sums_exponents(comm, outputs->n + 1, top, e));
    for (int f = 0; f <= outputs->n; f++)
        unit[f] = ldexp(1, 1 - (e[f] > MOST ? MOST : e[f] < -MOST ? -MOST : e[f]));
    return FF_OK;
}

typedef struct field_sums {
    ff_exact sum[N_SUMS];
} field_sums;

/* Field of comp columns from column `at` on: this rank's sums. */
static void add_field(int64_t n, int n_comp, int at, int comp, const double *rows, const double *truth,
                      const double *weight, double unit, double w_unit, field_sums *s)
{
    for (int64_t i = 0; i < n; i++) {
        const double *y = rows + i * n_comp + at, *t = truth + i * n_comp + at;
        double w = w_unit * (weight != NULL ? weight[i] : 1);
        if (!known(t, comp)) continue;
        ff_exact_add(&s->sum[WEIGHT], w);
        ff_exact_add(&s->sum[ERROR], w * norm2(y, t, comp, unit));
        ff_exact_add(&s->sum[SQUARE], w * norm2(t, NULL, comp, unit));
    }
}

ff_status ff_loss_run(ff_comm *comm, const ff_name_list *outputs, int dim, int64_t n, const double *rows,
                      const double *truth, const double *weight, const ff_loss_opts *opts, double *part,
                      double *cotangent)
{
    field_sums sum[FF_LOSS_FIELDS_MAX] = {{{{0}}}};
    double unit[FF_LOSS_FIELDS_MAX + 1] = {0};
    int n_comp = ff_names_comp(outputs, dim), at = 0;
    if (outputs->n > FF_LOSS_FIELDS_MAX)
        return ff_fail(FF_E_ARG, "loss: %d output fields, expected at most %d", outputs->n,
                       FF_LOSS_FIELDS_MAX);
    FF_TRY(find_units(comm, outputs, dim, n, rows, truth, weight, unit));
    double w_unit = unit[outputs->n];
    for (int f = 0; f < outputs->n; f++) {
        int comp = outputs->item[f].rank == 0 ? 1 : dim;
        add_field(n, n_comp, at, comp, rows, truth, weight, unit[f], w_unit, &sum[f]);
        at += comp;
    }
    FF_TRY(ff_exact_allreduce(comm, sum[0].sum, outputs->n * N_SUMS));
    at = 0;
    for (int f = 0; f < outputs->n; f++) {
        int comp = outputs->item[f].rank == 0 ? 1 : dim;
        double total = ff_exact_value(&sum[f].sum[WEIGHT]), s = unit[f] * opts->scale[f], per = s * s;
        bool any = total > 0;
        if (opts->relative)
            per = (any ? ff_exact_value(&sum[f].sum[SQUARE]) / total : 0) + opts->floor * s * s;
        part[f] = any ? ff_exact_value(&sum[f].sum[ERROR]) / total / per : 0;
        if (opts->blank && !(any && per > 0)) part[f] = (double)NAN;
        for (int64_t i = 0; i < n && cotangent != NULL; i++) {
            const double *y = rows + i * n_comp + at, *t = truth + i * n_comp + at;
            double w = w_unit * (weight != NULL ? weight[i] : 1),
                   factor = any && known(t, comp) ? 2 * w / total * (unit[f] / per) * unit[f] : 0;
            for (int d = 0; d < comp; d++)
                cotangent[i * n_comp + at + d] = factor != 0 ? factor * (y[d] - t[d]) : 0;
        }
        at += comp;
    }
    return FF_OK;
}
