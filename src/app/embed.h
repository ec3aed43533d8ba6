/* Parts of the embed verb. */
#ifndef EMBED_H
#define EMBED_H

#include "ff_app.h"

#include "app_graph.h"
#include "app_head.h"
#include "ff_embed.h"
#include "ff_head.h"

typedef struct embed {
    ff_app *app;
    int64_t n_home, n_points; /* this rank's share, and all */
    double *x;                /* [n_home][3] */
    ff_cell cell;
    bool periodic;
    app_head h; /* parameters and weights, the same on all ranks */
    bool f64, gradients;
    app_graph graph;
    ff_embed *e;
    /* Results; real is float or double by f64. */
    void *w1, *w2, *out, *cotangent; /* out, cotangent [n_home][D][C] */
    double *d_points;                /* [n_home][3] */
    void *d_w1, *d_w2;
} embed;

/* Points and their cell. Collective */
ff_status embed_read_points(embed *m);
/* Parameters, weights, cutoff. Collective */
ff_status embed_read_head(embed *m);
/* The cotangent's rows of this rank; features are there already. Collective */
ff_status embed_read_cotangent(embed *m);
/* Refuses the name of the output before any work. Collective */
ff_status embed_check_output(const ff_app *app);
/* Features and what else was asked for. Collective */
ff_status embed_write(embed *m);

/* name in the HDF5 group of the deck. */
const char *embed_at(const ff_app *app, const char *name, char at[512]);

#endif
