#include "embed.h"

#include <string.h>

/* Arrays of the run's precision. Local */
static ff_status alloc_results(embed *m)
{
    const size_t real = m->f64 ? sizeof(double) : sizeof(float);
    const ff_head_opts *o = &m->h.o;
    const size_t n_w1 = (size_t)ff_head_n_w1(o), n_w2 = (size_t)ff_head_n_w2(o);
    m->out = ff_mem_alloc((size_t)(m->n_home * ff_head_n_out(o)) + 1, real);
    m->w1 = ff_mem_alloc(n_w1, real);
    m->w2 = ff_mem_alloc(n_w2, real);
    if (m->out == NULL || m->w1 == NULL || m->w2 == NULL) return FF_E_MEM;
    for (size_t i = 0; i < n_w1; i++)
        if (m->f64)
            ((double *)m->w1)[i] = m->h.w1[i];
        else
            ((float *)m->w1)[i] = (float)m->h.w1[i];
    for (size_t i = 0; i < n_w2; i++)
        if (m->f64)
            ((double *)m->w2)[i] = m->h.w2[i];
        else
            ((float *)m->w2)[i] = (float)m->h.w2[i];
    if (!m->gradients) return FF_OK;
    m->d_w1 = ff_mem_alloc(n_w1, real);
    m->d_w2 = ff_mem_alloc(n_w2, real);
    FF_TRY(FF_NEW(m->d_points, 3 * m->n_home + 1));
    return m->d_w1 != NULL && m->d_w2 != NULL ? FF_OK : FF_E_MEM;
}

/* Collective */
static ff_status forward(embed *m)
{
    ff_phase_begin("features");
    ff_status st = m->f64 ? ff_embed_forward_f64(m->e, &m->h.o, m->w1, m->w2, m->out)
                          : ff_embed_forward_f32(m->e, &m->h.o, m->w1, m->w2, m->out);
    ff_phase_count("features", "edges", (double)m->e->graph->n_edges, 0);
    return st;
}

/* Collective */
static ff_status backward(embed *m)
{
    FF_TRY(embed_read_cotangent(m));
    ff_phase_begin("gradients");
    ff_status st =
        m->f64
            ? ff_embed_backward_f64(m->e, &m->h.o, m->w1, m->w2, m->cotangent, m->d_points, m->d_w1, m->d_w2)
            : ff_embed_backward_f32(m->e, &m->h.o, m->w1, m->w2, m->cotangent, m->d_points, m->d_w1, m->d_w2);
    ff_phase_count("gradients", "edges", (double)m->e->graph->n_edges, 0);
    return st;
}

static void print_graph(const embed *m)
{
    const double mean = m->n_points > 0 ? (double)m->e->n_edges / (double)m->n_points : 0;
    ff_json *j = &m->app->json;
    ff_info("%lld points, %s, %lld edges closer than %g, %.1f a point", (long long)m->n_points,
            m->periodic ? "periodic" : "open space", (long long)m->e->n_edges, m->h.cutoff, mean);
    ff_info("neighbours found on the %s", app_graph_maker(&m->graph) != NULL ? "GPU" : "CPU");
    ff_info("lmax %d, %lld channels, %d radial functions, %d hidden", m->h.o.lmax,
            (long long)m->h.o.n_channels, m->h.o.n_radial, m->h.o.n_hidden);
    if (m->e->n_coincident > 0)
        ff_warn(
            "%lld pairs of points stand at one place: they have no direction, so they add to the degree only",
            (long long)(m->e->n_coincident / 2));
    ff_json_int(j, "points", m->n_points);
    ff_json_int(j, "edges", m->e->n_edges);
    ff_json_int(j, "coincident_pairs", m->e->n_coincident / 2);
    ff_json_double(j, "cutoff", m->h.cutoff);
}

/* Collective */
static ff_status run(embed *m)
{
    FF_TRY(embed_check_output(m->app));
    FF_TRY(embed_read_head(m));
    FF_TRY(embed_read_points(m));
    FF_TRY(app_graph_open(m->app, &m->graph));
    ff_phase_begin("neighbours");
    FF_TRY(ff_embed_create(m->app->comm, m->x, m->n_home, m->h.cutoff, m->periodic ? &m->cell : NULL,
                           app_graph_maker(&m->graph), &m->e));
    print_graph(m);
    FF_TRY(ff_agree(m->app->comm, alloc_results(m)));
    FF_TRY(forward(m));
    if (m->gradients) FF_TRY(backward(m));
    return embed_write(m);
}

ff_status cmd_embed(ff_app *app)
{
    embed m = {.app = app};
    m.f64 = strcmp(ff_config_string(app->config, "run.precision"), "f64") == 0;
    m.gradients = ff_config_has(app->config, "embed.cotangent");
    ff_status st = run(&m);
    void *const owned[] = {m.x, m.w1, m.w2, m.out, m.cotangent, m.d_points, m.d_w1, m.d_w2};
    for (int i = 0; i < 8; i++) ff_free(owned[i]);
    app_head_free(&m.h);
    ff_embed_destroy(&m.e);
    app_graph_close(&m.graph);
    return st;
}
