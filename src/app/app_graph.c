#include "app_graph.h"

#include "app_backend.h"

#ifdef FF_HAVE_CUDA
#include "ff_cuda_copy.h"
#include "ff_cuda_graph.h"
#endif

ff_status app_graph_open(const ff_app *app, app_graph *g)
{
    int device = -1;
    *g = (app_graph){.pool = NULL};
    FF_TRY(app_gpu_pick(app, &device));
#ifdef FF_HAVE_CUDA
    if (device < 0) return FF_OK;
    FF_TRY(ff_agree(app->comm, ff_cuda_stream_open(device, &g->pool)));
    g->maker = (ff_graph_maker){ff_cuda_graph_build, g->pool};
#endif
    return FF_OK;
}

void app_graph_close(app_graph *g)
{
#ifdef FF_HAVE_CUDA
    ff_cuda_stream_close(&g->pool);
#endif
    *g = (app_graph){.pool = NULL};
}

const ff_graph_maker *app_graph_maker(const app_graph *g)
{
    return g->maker.build != NULL ? &g->maker : NULL;
}
