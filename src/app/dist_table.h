/* The distribution of a run over ranks: faces, pairs, peers, bytes, hidden share of the exchange, imbalance.
 */
#ifndef DIST_TABLE_H
#define DIST_TABLE_H

#include "ff_app.h"
#include "ff_eval.h"

/* Prints one line a rank (the first 16; then the extremes) and adds the figures to the JSON. Collective */
ff_status dist_table(ff_app *app, const ff_eval *e);

#endif
