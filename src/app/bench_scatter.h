/* `bench scatter`: the fused zonal scatter on random edges. */
#ifndef BENCH_SCATTER_H
#define BENCH_SCATTER_H

#include "ff_app.h"

/* Edges sorted by destination and in random order; every rank times its own. Collective */
ff_status bench_scatter(ff_app *app);

#endif
