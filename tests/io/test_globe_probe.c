/* Feature order and network of the GLOBE kernel against the public reference, if its files are at hand: the
 * first 32 rows the network of layer 1, first boundary, first length saw, in float64 and float32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_globe.h"
#include "ff_mem.h"

#include <hdf5.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char golden_dir[] = FF_SOURCE_DIR "/../shared/golden";
static const char *const files[] = {"nonreg3d",    "drivaer_small", "drivaer_quadrants", "airfoil2d",
                                    "mlp_exact3d", "degenerate3d",  "many_latents"};

enum { N_ROW = 32, MAX_LEAF = 64, MAX_NAME = 160, MAX_PATH = 512 };

/* One leaf of the inputs: the name the reference sorts by, and where its values stand. */
typedef struct leaf {
    char name[MAX_NAME];
    int rank;
    bool global;
    double value[N_ROW][3]; /* per pair; global ones: row 0 */
} leaf;

typedef struct probe_case {
    hid_t file;
    json_t *config, *lengths;
    const char *bc, *length, *precision;
    int dim, layer, n_comm;
    double length_eff;
    int64_t target[N_ROW], source[N_ROW];
    double dx[N_ROW][3];
    leaf leaves[MAX_LEAF];
    int n_leaf;
    ff_globe_shape s;
    int rank[MAX_LEAF];
    float *w[FF_GLOBE_MAX_LAYERS + 1], *b[FF_GLOBE_MAX_LAYERS + 1];
} probe_case;

/* ---- reading ---- */

static double *read_f64(const probe_case *c, const char *path, hsize_t dims[2])
{
    hid_t set = H5Dopen2(c->file, path, H5P_DEFAULT);
    if (set < 0) fail_msg("%s: not found", path);
    hid_t space = H5Dget_space(set);
    dims[0] = dims[1] = 1;
    H5Sget_simple_extent_dims(space, dims, NULL);
    double *p = calloc((size_t)(dims[0] * dims[1]) + 1, sizeof *p);
    assert_non_null(p);
    assert_true(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, p) >= 0);
    H5Sclose(space);
    H5Dclose(set);
    return p;
}

static json_t *read_json(hid_t file, const char *name)
{
    char *text = NULL;
    hid_t attr = H5Aopen(file, name, H5P_DEFAULT), type = H5Aget_type(attr);
    assert_true(H5Aread(attr, type, &text) >= 0);
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(attr);
    return j;
}

static int config_int(const probe_case *c, const char *key, int otherwise)
{
    json_t *j = json_object_get(c->config, key);
    return json_is_integer(j) ? (int)json_integer_value(j) : otherwise;
}

static double config_real(const probe_case *c, const char *key, double otherwise)
{
    json_t *j = json_object_get(c->config, key);
    return json_is_number(j) ? json_number_value(j) : otherwise;
}

static void bars_for_slashes(char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '/') *text = '|';
}

static leaf *add_leaf(probe_case *c, const char *name, int rank, bool global)
{
    assert_true(c->n_leaf < MAX_LEAF);
    leaf *l = &c->leaves[c->n_leaf++];
    snprintf(l->name, sizeof l->name, "%s", name);
    l->rank = rank;
    l->global = global;
    return l;
}

/* Values of the pairs' sources (or the one value of a global leaf) from the dataset at path. */
static void fill_leaf(const probe_case *c, leaf *l, const char *path)
{
    hsize_t dims[2];
    double *p = read_f64(c, path, dims);
    int n_comp = l->rank == 0 ? 1 : c->dim;
    for (int i = 0; i < (l->global ? 1 : N_ROW); i++)
        for (int k = 0; k < n_comp; k++) l->value[i][k] = p[(l->global ? 0 : c->source[i] * n_comp) + k];
    free(p);
}

/* Leaves of a nested table {name: rank or table}, dotted, under prefix; values from dir/<dotted name>. */
static void add_ranks(probe_case *c, json_t *table, const char *sort_prefix, const char *dotted,
                      const char *dir, bool global)
{
    const char *key;
    json_t *value;
    json_object_foreach(table, key, value)
    {
        char name[MAX_NAME / 2], full[MAX_NAME], path[MAX_PATH];
        snprintf(name, sizeof name, "%s%s%s", dotted, dotted[0] != '\0' ? "." : "", key);
        if (json_is_object(value)) {
            add_ranks(c, value, sort_prefix, name, dir, global);
            continue;
        }
        snprintf(full, sizeof full, "%s%s", sort_prefix, name);
        leaf *l = add_leaf(c, full, (int)json_integer_value(value), global);
        bars_for_slashes(name);
        snprintf(path, sizeof path, "%s/%s", dir, name);
        fill_leaf(c, l, path);
    }
}

static void add_latents(probe_case *c)
{
    double scale = config_real(c, "latent_compression_scale", 0.0);
    for (int rank = 0; rank < 2; rank++) {
        const char *kind = rank == 0 ? "scalars" : "vectors";
        int n = rank == 0 ? config_int(c, "n_latent_scalars", 12) : config_int(c, "n_latent_vectors", 6);
        for (int i = 0; i < n; i++) {
            char name[MAX_NAME], path[MAX_PATH];
            snprintf(name, sizeof name, "latent.%s.%d", kind, i);
            snprintf(path, sizeof path, "%s/layers/%d/%s/%s", c->precision, c->layer - 1, c->bc, name);
            leaf *l = add_leaf(c, name, rank, false);
            fill_leaf(c, l, path);
            for (int p = 0; p < N_ROW && scale > 0.0; p++) {
                double *v = l->value[p], m = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + 1e-16);
                if (rank == 0)
                    v[0] = scale * asinh(v[0] / scale);
                else
                    for (int k = 0; k < 3; k++) v[k] *= scale * asinh(m / scale) / m;
            }
        }
    }
}

static void add_length_ratios(probe_case *c)
{
    json_t *names = json_object_get(c->config, "reference_length_names");
    for (size_t i = 0; i < json_array_size(names); i++)
        for (size_t j = i + 1; j < json_array_size(names); j++) {
            const char *a = json_string_value(json_array_get(names, i)),
                       *b = json_string_value(json_array_get(names, j));
            char name[MAX_NAME];
            snprintf(name, sizeof name, "log_reference_length_ratios.%s_%s", a, b);
            add_leaf(c, name, 0, true)->value[0][0] = log(json_number_value(json_object_get(c->lengths, a)) /
                                                          json_number_value(json_object_get(c->lengths, b)));
        }
}

/* ---- geometry ---- */

/* Centroids and unit normals of the boundary's faces, from its float32 points in double. */
static void faces(const probe_case *c, double **centroid, double **normal)
{
    char path[MAX_PATH];
    hsize_t dims[2], cell_dims[2];
    snprintf(path, sizeof path, "inputs/boundary/%s/points", c->bc);
    double *p = read_f64(c, path, dims);
    snprintf(path, sizeof path, "inputs/boundary/%s/cells", c->bc);
    double *cells = read_f64(c, path, cell_dims);
    int dim = c->dim;
    *centroid = calloc((size_t)(cell_dims[0] * 3), sizeof(double));
    *normal = calloc((size_t)(cell_dims[0] * 3), sizeof(double));
    for (hsize_t f = 0; f < cell_dims[0]; f++) {
        double *x = *centroid + f * 3, *n = *normal + f * 3, e[2][3] = {{0}}, length;
        const double *q[3] = {0};
        for (int k = 0; k < dim; k++) q[k] = p + (size_t)cells[f * (hsize_t)dim + (hsize_t)k] * (size_t)dim;
        for (int i = 0; i < dim; i++) {
            for (int k = 0; k < dim; k++) x[i] += q[k][i];
            for (int k = 0; k < dim - 1; k++) e[k][i] = q[k + 1][i] - q[0][i];
            x[i] /= dim;
        }
        n[0] = dim == 3 ? e[0][1] * e[1][2] - e[0][2] * e[1][1] : -e[0][1];
        n[1] = dim == 3 ? e[0][2] * e[1][0] - e[0][0] * e[1][2] : e[0][0];
        n[2] = dim == 3 ? e[0][0] * e[1][1] - e[0][1] * e[1][0] : 0.0;
        length = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
        for (int i = 0; i < 3; i++) n[i] = length > 0.0 ? n[i] / length : 0.0;
    }
    free(p);
    free(cells);
}

static void read_pairs(probe_case *c)
{
    char path[MAX_PATH];
    hsize_t dims[2];
    const char *dst = c->layer < c->n_comm ? c->bc : "prediction";
    for (int side = 0; side < 2; side++) {
        snprintf(path, sizeof path, "plans/%s/%s/near_%s_ids", dst, c->bc, side == 0 ? "target" : "source");
        double *ids = read_f64(c, path, dims);
        assert_true(dims[0] >= N_ROW);
        for (int i = 0; i < N_ROW; i++) (side == 0 ? c->target : c->source)[i] = (int64_t)ids[i];
        free(ids);
    }
    double *centroid, *normal, *points = read_f64(c, "inputs/prediction_points", dims);
    faces(c, &centroid, &normal);
    leaf *l = add_leaf(c, "normals", 1, false);
    for (int i = 0; i < N_ROW; i++)
        for (int k = 0; k < c->dim; k++) {
            double x =
                c->layer < c->n_comm ? centroid[c->target[i] * 3 + k] : points[c->target[i] * c->dim + k];
            c->dx[i][k] = x - centroid[c->source[i] * 3 + k];
            l->value[i][k] = normal[c->source[i] * 3 + k];
        }
    free(centroid);
    free(normal);
    free(points);
}

/* ---- the network ---- */

static void read_network(probe_case *c)
{
    const char *inner = c->s.mlp ? "network.0" : "network.combined_mlp";
    char path[MAX_PATH];
    hsize_t dims[2];
    for (int l = 0; l <= c->s.n_hidden; l++)
        for (int part = 0; part < 2; part++) {
            snprintf(path, sizeof path, "weights/kernel_layers.%d.%s.kernels.%s.%s.layers.%d.%s", c->layer,
                     c->bc, c->length, inner, 2 * l, part == 0 ? "weight" : "bias");
            double *p = read_f64(c, path, dims);
            float *q = malloc((size_t)(dims[0] * dims[1]) * sizeof *q);
            for (hsize_t i = 0; i < dims[0] * dims[1]; i++) q[i] = (float)p[i];
            *(part == 0 ? &c->w[l] : &c->b[l]) = q;
            free(p);
        }
    snprintf(path, sizeof path, "weights/kernel_layers.%d.%s.log_scalefactors.%s", c->layer, c->bc,
             c->length);
    double *log_scale = read_f64(c, path, dims);
    c->length_eff = json_number_value(json_object_get(c->lengths, c->length)) * exp(log_scale[0]);
    free(log_scale);
}

static int count_outputs(probe_case *c, json_t *table, int n)
{
    const char *key;
    json_t *value;
    json_object_foreach(table, key, value)
    {
        if (json_is_object(value))
            n = count_outputs(c, value, n);
        else
            c->rank[n++] = (int)json_integer_value(value);
    }
    return n;
}

static void make_shape(probe_case *c)
{
    ff_globe_shape *s = &c->s;
    json_t *hidden = json_object_get(c->config, "hidden_layer_sizes");
    const char *type = json_string_value(json_object_get(c->config, "network_type"));
    for (int i = 0; i < c->n_leaf; i++) {
        const leaf *l = &c->leaves[i];
        int *n = l->rank == 0 ? (l->global ? &s->n_gscalar : &s->n_sscalar)
                              : (l->global ? &s->n_gvector : &s->n_svector);
        *n += 1;
    }
    s->dim = c->dim;
    s->n_harm = config_int(c, "n_spherical_harmonics", 4);
    s->n_hidden = (int)json_array_size(hidden);
    for (int l = 0; l < s->n_hidden; l++)
        s->hidden[l] = (int)json_integer_value(json_array_get(hidden, (size_t)l));
    if (c->layer < c->n_comm) {
        int n_vector = config_int(c, "n_latent_vectors", 6);
        s->n_field = config_int(c, "n_latent_scalars", 12) + n_vector + (int)json_object_size(c->lengths);
        for (int f = 0; f < s->n_field; f++) c->rank[f] = f < n_vector ? 1 : 0;
    } else {
        s->n_field = count_outputs(c, json_object_get(c->config, "output_field_ranks"), 0);
    }
    s->field_rank = c->rank;
    s->mlp = type != NULL && strcmp(type, "mlp") == 0;
    s->beta = config_real(c, "self_regularization_beta", 0.0);
    s->eps = config_real(c, "smoothing_radius", 1e-8);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const leaf *)a)->name, ((const leaf *)b)->name);
}

static void case_open(probe_case *c, const char *name, const char *precision)
{
    char path[MAX_PATH];
    memset(c, 0, sizeof *c);
    snprintf(path, sizeof path, "%s/%s.h5", golden_dir, name);
    c->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(c->file >= 0);
    c->precision = precision;
    c->config = read_json(c->file, "config_json");
    c->lengths = read_json(c->file, "reference_lengths_json");
    c->dim = config_int(c, "n_spatial_dims", 3);
    c->n_comm = config_int(c, "n_communication_hyperlayers", 2);
    c->layer = c->n_comm < 1 ? c->n_comm : 1;
    json_t *bcs = json_object_get(c->config, "boundary_source_data_ranks");
    c->bc = json_object_iter_key(json_object_iter(bcs)); /* jansson keeps the order of the text */
    c->length = json_string_value(json_array_get(json_object_get(c->config, "reference_length_names"), 0));
    read_pairs(c);
    snprintf(path, sizeof path, "inputs/boundary/%s/cell_data", c->bc);
    add_ranks(c, json_object_get(bcs, c->bc), "physical.", "", path, false);
    if (c->layer > 0) add_latents(c);
    add_ranks(c, json_object_get(c->config, "global_data_ranks"), "", "", "inputs/global_data", true);
    add_length_ratios(c);
    qsort(c->leaves, (size_t)c->n_leaf, sizeof *c->leaves, by_name);
    make_shape(c);
    read_network(c);
}

static void case_close(probe_case *c)
{
    for (int l = 0; l <= c->s.n_hidden; l++) {
        free(c->w[l]);
        free(c->b[l]);
    }
    json_decref(c->config);
    json_decref(c->lengths);
    H5Fclose(c->file);
}

/* Values of all leaves of one kind for pair i, in order; returns how many. */
static int collect(const probe_case *c, int rank, bool global, int i, double *out)
{
    int n = 0;
    for (int k = 0; k < c->n_leaf; k++) {
        const leaf *l = &c->leaves[k];
        if (l->rank != rank || l->global != global) continue;
        for (int d = 0; d < (rank == 0 ? 1 : c->dim); d++) out[n++] = l->value[global ? 0 : i][d];
    }
    return n;
}

/* Largest difference to the dataset, as a part of its largest value. */
static double compare(const probe_case *c, const char *what, const double *got, int n_col)
{
    char path[MAX_PATH];
    hsize_t dims[2];
    snprintf(path, sizeof path, "%s/probe/%s", c->precision, what);
    double *want = read_f64(c, path, dims), worst = 0.0, top = 0.0;
    assert_int_equal(dims[0], N_ROW);
    assert_int_equal(dims[1], n_col);
    for (int i = 0; i < N_ROW * n_col; i++) {
        worst = fmax(worst, fabs(got[i] - want[i]));
        top = fmax(top, fabs(want[i]));
        assert_true(isfinite(got[i]));
    }
    free(want);
    return worst / top;
}

/* Both precisions from one text. */
#define PROBE(T, real)                                                                                       \
    static void probe_##T(probe_case *c, double *in, double *out)                                            \
    {                                                                                                        \
        enum { MAX = 4096 };                                                                                 \
        ff_globe_net_##T *net = NULL;                                                                        \
        double gscalar[MAX_LEAF], gvector[3 * MAX_LEAF], src[MAX_LEAF * 3];                                  \
        real dx[3], s[MAX_LEAF * 3], f[MAX], y[MAX];                                                         \
        int n_in = ff_globe_n_in(&c->s), n_coef = ff_globe_n_coef(&c->s);                                    \
        collect(c, 0, true, 0, gscalar);                                                                     \
        collect(c, 1, true, 0, gvector);                                                                     \
        assert_int_equal(ff_globe_create_##T(&c->s, (const float *const *)c->w, (const float *const *)c->b,  \
                                             gscalar, gvector, c->length_eff, &net),                         \
                         FF_OK);                                                                             \
        for (int i = 0; i < N_ROW; i++) {                                                                    \
            int n = collect(c, 0, false, i, src);                                                            \
            n += collect(c, 1, false, i, src + n);                                                           \
            for (int k = 0; k < n; k++) s[k] = (real)src[k];                                                 \
            for (int k = 0; k < c->dim; k++) dx[k] = (real)c->dx[i][k];                                      \
            assert_int_equal(ff_globe_probe_##T(net, 1, dx, s, f, y), FF_OK);                                \
            for (int k = 0; k < n_in; k++) in[i * n_in + k] = (double)f[k];                                  \
            for (int k = 0; k < n_coef; k++) out[i * n_coef + k] = (double)y[k];                             \
        }                                                                                                    \
        ff_globe_destroy_##T(&net);                                                                          \
    }
PROBE(f32, float)
PROBE(f64, double)

static void golden_probe(void **state)
{
    (void)state;
    FILE *probe = fopen(FF_SOURCE_DIR "/../shared/golden/nonreg3d.h5", "rb");
    if (probe == NULL) {
        printf("skipped: %s is not there\n", golden_dir);
        skip();
    }
    fclose(probe);
    for (size_t k = 0; k < 2 * sizeof files / sizeof *files; k++) {
        bool f64 = k % 2 == 0;
        /* double: rounding of sums of some 100 terms; float: globe.md section 8 */
        double limit = f64 ? 1e-12 : 5e-6;
        probe_case *c = malloc(sizeof *c);
        case_open(c, files[k / 2], f64 ? "f64" : "f32");
        int n_in = ff_globe_n_in(&c->s), n_coef = ff_globe_n_coef(&c->s);
        double *in = calloc((size_t)(N_ROW * n_in), sizeof *in),
               *out = calloc((size_t)(N_ROW * n_coef), sizeof *out);
        (f64 ? probe_f64 : probe_f32)(c, in, out);
        double e_in = compare(c, "network_in", in, n_in), e_out = compare(c, "network_out", out, n_coef);
        printf("%s %s: features used %.3f, network %.3f of %g\n", files[k / 2], c->precision, e_in / limit,
               e_out / limit, limit);
        assert_true(e_in <= limit && e_out <= limit);
        free(in);
        free(out);
        case_close(c);
        free(c);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_probe)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
