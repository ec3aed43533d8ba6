/* farfield convert: from one mesh format to another. Rank 0 works; the others wait for its verdict. */
#include "ff_app.h"
#include "ff_mesh_write.h"

static ff_status convert(ff_app *app, const char *in, const char *out)
{
    ff_mesh *m = NULL;
    ff_read_opts opts = ff_app_read_opts(app);
    FF_TRY(ff_mesh_read(in, &opts, &m));
    ff_status st = ff_mesh_write(m, out);
    if (st == FF_OK)
        ff_info("%s: %lld points, %lld cells, written to %s", in, (long long)m->n_points,
                (long long)m->n_cells, out);
    ff_mesh_destroy(&m);
    return st;
}

ff_status cmd_convert(ff_app *app)
{
    ff_status st = FF_OK;
    const char *in = ff_config_file(app->config, "file", 0), *out = ff_config_file(app->config, "file", 1);
    FF_TRY(ff_mesh_can_write(out));
    FF_TRY(ff_app_may_write(app, out));
    if (ff_comm_rank(app->comm) == 0) st = convert(app, in, out);
    return ff_agree(app->comm, st);
}
