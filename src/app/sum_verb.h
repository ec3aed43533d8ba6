/* Parts of the sum verb. */
#ifndef SUM_VERB_H
#define SUM_VERB_H

#include "ff_app.h"

#include "ff_sum.h"

typedef struct sum_verb {
    ff_app *app;
    ff_sum_opts o;
    double rtol; /* that was asked for: o.rtol becomes smaller where the check misses it, n_tries times */
    int n_tries;
    int64_t n_home, n_points; /* sources of this rank, and all */
    double *x;                /* [n_home][3] */
    int64_t n_t_home;         /* targets of this rank; xt NULL: the sources */
    double *xt;
    double *corners; /* [n_home][3][3], only with sum.exact_within */
    double *density; /* [n_home][n_in] */
    ff_sum *s;
    double *value, *gradient;
} sum_verb;

/* Kernel, accuracy. Local */
ff_status sum_options(const ff_app *app, ff_sum_opts *o);
/* Points and densities. Collective */
ff_status sum_read(sum_verb *m);
/* Densities by place, random or ones: a pure function of seed and number. Local */
ff_status sum_make_density(sum_verb *m, int n_in);
/* Values with points. Collective */
ff_status sum_write(const sum_verb *m);

/* bench sum. Collective */
ff_status bench_sum(ff_app *app);

#endif
