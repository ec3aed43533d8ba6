/* Training samples over ranks: each rank's share, drawn faces and points are those of one rank. */
#include "ff_mpi_test.h"

#include "../ff_test_scratch.h"

#include "ff_ellipsoid.h"
#include "ff_h5.h"
#include "ff_mesh_dist.h"
#include "ff_mpi_io.h"
#include "ff_sample.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static char scratch[64];

static const char *const json =
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"C_p\": 0, \"U_t\": 1, \"extra\": 0}, "
    "\"boundary_source_data_ranks\": {\"body\": {\"rough/ness\": 0}}, \"reference_length_names\": [\"L\"], "
    "\"reference_area\": 1.0, \"global_data_ranks\": {\"U_dir\": 1}, \"n_communication_hyperlayers\": 1, "
    "\"n_latent_scalars\": 2, \"n_latent_vectors\": 1, \"hidden_layer_sizes\": [8]}";

static const char *const other_json =
    "{\"n_spatial_dims\": 3, \"output_field_ranks\": {\"Cp\": 0}, \"boundary_source_data_ranks\": {\"body\": "
    "{}}, "
    "\"reference_length_names\": [\"L\"], \"reference_area\": 1.0, \"n_communication_hyperlayers\": 0, "
    "\"n_latent_scalars\": 1, \"n_latent_vectors\": 0, \"hidden_layer_sizes\": [4]}";

enum { N_POINTS = 50, WEIGHT = 2 };

static ff_status put(ff_h5 *f, const char *name, int comp, int64_t n, const double *v)
{
    int64_t dim[2] = {n, comp};
    FF_TRY(ff_h5_dataset(f, name, FF_H5_F64, comp == 1 ? 1 : 2, dim));
    return ff_h5_write(f, name, FF_H5_F64, 0, n, v);
}

/* Where targets lie: on the body or free. Field values are functions of the row, so that a row tells where it is from. */
static ff_status write_sample(const char *path, bool on_body)
{
    ff_ellipsoid e = ff_ellipsoid_random(1, 1);
    ff_mesh *m = NULL;
    ff_h5 *f = NULL;
    double one = 2.5, u[3] = {0.6, 0.8, 0}, v[3 * 320], c[3 * 320];
    int64_t version = 1, dim = 3, n = on_body ? 320 : N_POINTS;
    FF_TRY(ff_ellipsoid_mesh(&e, 1, 1, 2, &m));
    FF_TRY(ff_h5_create(ff_comm_self(), path, &f));
    FF_TRY(ff_h5_attr_write_text(f, "/", "format", "farfield-sample"));
    FF_TRY(ff_h5_attr_write_scalar(f, "/", "format_version", FF_H5_I64, &version));
    FF_TRY(ff_h5_attr_write_scalar(f, "/", "dim", FF_H5_I64, &dim));
    FF_TRY(ff_h5_group(f, "/lengths"));
    FF_TRY(ff_h5_attr_write_scalar(f, "/lengths", "L", FF_H5_F64, &one));
    FF_TRY(ff_h5_group(f, "/global"));
    FF_TRY(ff_h5_attr_write(f, "/global", "U_dir", FF_H5_F64, 3, u));
    FF_TRY(ff_h5_group(f, "/boundary/body/cell_data"));
    FF_TRY(put(f, "/boundary/body/points", 3, m->n_points, m->points));
    for (int i = 0; i < 3 * 320; i++) c[i] = (double)m->cell_pts[i];
    FF_TRY(put(f, "/boundary/body/cells", 3, 320, c));
    for (int i = 0; i < 320; i++) v[i] = i;
    FF_TRY(put(f, "/boundary/body/cell_data/rough_ness", 1, 320, v));
    for (int i = 0; i < 320; i++) v[i] = WEIGHT;
    if (!on_body) FF_TRY(put(f, "/boundary/body/cell_data/_measure_weights", 1, 320, v));
    FF_TRY(ff_h5_group(f, "/targets/fields"));
    if (on_body) FF_TRY(ff_h5_attr_write_text(f, "/targets", "boundary", "body"));
    for (int i = 0; i < 3 * n; i++) v[i] = 0.01 * i;
    if (!on_body) FF_TRY(put(f, "/targets/points", 3, n, v));
    FF_TRY(put(f, "/targets/fields/U_t", 3, n, v));
    for (int i = 0; i < n; i++) v[i] = i % 7 == 0 ? (double)NAN : i;
    FF_TRY(put(f, "/targets/fields/C_p", 1, n, v));
    if (!on_body) FF_TRY(put(f, "/targets/weights", 1, n, c));
    ff_mesh_destroy(&m);
    return ff_h5_close(&f);
}

/* Rows of the ranks, in rank order, are those of one rank that reads alone. */
static void same_rows(ff_mt *t, const ff_sample *all, const ff_sample *mine)
{
    int64_t before = 0, n = mine->n, counts[64];
    FF_EXPECT_OK(t, ff_comm_allgather(t->world, &n, sizeof n, counts));
    for (int r = 0; r < t->rank; r++) before += counts[r];
    int64_t total = n;
    FF_EXPECT_OK(t, ff_comm_allreduce(t->world, &total, 1, FF_SUM_I64));
    FF_EXPECT(t, total == all->n, "%lld targets, expected %lld", (long long)total, (long long)all->n);
    if (total != all->n) return;
    FF_EXPECT(t, memcmp(all->truth + 5 * before, mine->truth, (size_t)(5 * n) * sizeof(double)) == 0,
              "truth");
    FF_EXPECT(t, memcmp(all->weight + before, mine->weight, (size_t)n * sizeof(double)) == 0, "weights");
    const ff_source *a = &all->c->source[0], *b = &mine->c->source[0];
    int64_t begin = 0;
    n = b->n;
    FF_EXPECT_OK(t, ff_comm_allgather(t->world, &n, sizeof n, counts));
    for (int r = 0; r < t->rank; r++) begin += counts[r];
    FF_EXPECT(t, memcmp(a->x + 3 * begin, b->x, (size_t)(3 * n) * sizeof(double)) == 0, "centroids");
    FF_EXPECT(t, memcmp(a->mu + begin, b->mu, (size_t)n * sizeof(double)) == 0, "measures");
    FF_EXPECT(t, memcmp(a->field + begin, b->field, (size_t)n * sizeof(double)) == 0, "source field");
    FF_EXPECT(t, mine->c->length[0] == 2.5 && mine->c->global[1] == 0.8, "length and global");
    if (mine->c->target_source < 0)
        FF_EXPECT(t,
                  memcmp(all->c->target_x + 3 * before, mine->c->target_x,
                         (size_t)(3 * mine->n) * sizeof(double)) == 0,
                  "points of targets");
}

static void shares_are_those_of_one_rank(void **state)
{
    ff_mt *t = *state;
    ff_model *model = NULL;
    int64_t blocks = (int64_t)ff_mem_blocks();
    FF_EXPECT_OK(t, ff_model_random(json, 1, &model));
    for (int k = 0; k < 6; k++) {
        bool on_body = k < 4;
        ff_sample_opts opts = {
            .faces = k % 2 == 1 ? 77 : 0, .targets = k == 5 ? 20 : 0, .inside = k >= 2, .seed = 9, .draw = 4};
        ff_sample *all = NULL, *mine = NULL;
        if (t->rank == 0) FF_EXPECT_OK(t, write_sample("s.h5", on_body));
        FF_EXPECT_OK(t, ff_comm_barrier(t->world));
        FF_EXPECT_OK(t, ff_sample_read(ff_comm_self(), model, "s.h5", &opts, &all));
        FF_EXPECT_OK(t, ff_sample_read(t->world, model, "s.h5", &opts, &mine));
        if (ff_mt_good(t)) {
            int64_t want = on_body ? (opts.faces > 0 ? 77 : 320) : (opts.targets > 0 ? 20 : N_POINTS);
            FF_EXPECT(t, all->n == want, "%lld targets, expected %lld", (long long)all->n, (long long)want);
            same_rows(t, all, mine);
            double area = 0, mu = 0;
            for (int64_t i = 0; i < all->c->source[0].n; i++) {
                area += all->c->source[0].area[i];
                mu += all->c->source[0].mu[i];
            }
            mu /= on_body ? 1 : WEIGHT;
            /* the faces drawn stand for the whole area: 4 pi to 20 % for such an ellipsoid of volume 4 pi / 3 or more */
            FF_EXPECT(t, opts.faces == 0 ? fabs(mu - area) < 1e-9 : mu > 3 * area && mu > 10,
                      "measure %g of area %g", mu, area);
            for (int64_t i = 0; i < all->n; i++)
                FF_EXPECT(t, isnan(all->truth[5 * i + 4]), "a field that the file lacks is known");
        }
        ff_sample_destroy(&all);
        ff_sample_destroy(&mine);
        FF_EXPECT_OK(t, ff_comm_barrier(t->world));
        if (t->rank == 0) (void)unlink("s.h5");
    }
    ff_model_destroy(&model);
    FF_EXPECT(t, (int64_t)ff_mem_blocks() == blocks, "memory is left");
    ff_mt_verdict(t);
}

static void what_is_missing_is_named(void **state)
{
    ff_mt *t = *state;
    ff_model *model = NULL;
    ff_sample_opts opts = {0};
    ff_sample *s = NULL;
    FF_EXPECT_OK(t, ff_model_random(json, 1, &model));
    FF_EXPECT(t, ff_sample_read(t->world, model, "none.h5", &opts, &s) == FF_E_INPUT, "a missing file");
    FF_EXPECT(t, ff_sample_ellipsoid(t->world, model, 1, 1, 2, 1, false, &s) == FF_E_ARG,
              "a model that does not fit");
    FF_EXPECT(t, s == NULL, "something is left");
    ff_model_destroy(&model);
    FF_EXPECT_OK(t, ff_model_random(other_json, 1, &model));
    if (t->rank == 0) FF_EXPECT_OK(t, write_sample("o.h5", true));
    FF_EXPECT_OK(t, ff_comm_barrier(t->world));
    FF_EXPECT(t, ff_sample_read(t->world, model, "o.h5", &opts, &s) == FF_E_INPUT && s == NULL,
              "a sample without any output field");
    FF_EXPECT_OK(t, ff_comm_barrier(t->world));
    if (t->rank == 0) (void)unlink("o.h5");
    ff_model_destroy(&model);
    ff_mt_verdict(t);
}

static void enter(void **state)
{
    ff_mt *t = *state;
    FF_EXPECT(t, t->rank != 0 || ff_scratch_make(scratch), "no folder for files");
    FF_EXPECT_OK(t, ff_comm_bcast(t->world, scratch, sizeof scratch, 0));
    FF_EXPECT(t, chdir(scratch) == 0, "%s cannot be entered", scratch);
    FF_EXPECT_OK(t, ff_mpi_io_install(ff_mpi_comm_handle(t->world)));
    ff_mt_verdict(t);
}

static void leave(void **state)
{
    ff_mt *t = *state;
    ff_mpi_io_remove();
    FF_EXPECT_OK(t, ff_comm_barrier(t->world));
    FF_EXPECT(t, t->rank != 0 || ff_scratch_remove(scratch), "files are left");
    ff_mt_verdict(t);
}

static const struct CMUnitTest tests[] = {
    FF_MT(enter),
    FF_MT(shares_are_those_of_one_rank),
    FF_MT(what_is_missing_is_named),
    FF_MT(leave),
};

FF_MT_MAIN(tests)
