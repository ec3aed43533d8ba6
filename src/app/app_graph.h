/* Who finds the neighbours of a run: the CPU, or this rank's GPU. */
#ifndef APP_GRAPH_H
#define APP_GRAPH_H

#include "ff_app.h"
#include "ff_graph.h"

typedef struct app_graph {
    ff_graph_maker maker; /* build NULL: the CPU */
    struct ff_cuda_pool *pool;
} app_graph;

/* By run.backend, whatever the precision: edges are the same everywhere. Errors as app_gpu_pick. Collective */
ff_status app_graph_open(const ff_app *app, app_graph *g);
void app_graph_close(app_graph *g);
/* For ff_embed_create. */
const ff_graph_maker *app_graph_maker(const app_graph *g);

#endif
