/* Kernels of the wide pair adjoint alone, one chunk of random pairs: three layers of 256 units, 5 vectors, 4 vector and 8
 * scalar fields; list blocks of 32 tiles, one group in 64 missing, every second pair padding.
 *   gpu_adj_wide [tiles [repeats]]      default: 5016 tiles of 64 pairs, 15 repeats */
#include "ff_adj_wide.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCES = 5120, TARGETS = 5120, BLOCK_TILES = 32, MOST = 1000 };

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        cudaError_t e_ = (x);                                                                                \
        if (e_ != cudaSuccess) {                                                                             \
            printf("%s: %s\n", #x, cudaGetErrorString(e_));                                                  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* Uniform in [-1/2, 1/2). */
static float draw(void)
{
    static uint64_t s = 88172645463325252ull;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return (float)((double)(s >> 40) / 16777216.0 - 0.5);
}

template <class T> static T *on_device(const T *from, size_t n)
{
    T *to = NULL;
    CHECK(cudaMalloc((void **)&to, n * sizeof *to));
    if (from != NULL) CHECK(cudaMemcpy(to, from, n * sizeof *to, cudaMemcpyHostToDevice));
    return to;
}

/* n values of `size` draws around `mean`. */
template <class T> static const T *random_array(size_t n, double mean, double size)
{
    T *v = (T *)malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = (T)(mean + size * (double)draw());
    T *d = on_device(v, n);
    free(v);
    return d;
}

static adj_wide network(void)
{
    adj_wide w;
    ff_adj_cfg *c = &w.c;
    memset(&w, 0, sizeof w);
    c->dim = 3;
    c->n_vec = 5;
    c->n_harm = 4;
    c->n_vf = 4;
    c->n_sf = 8;
    c->n_comp = 3 * c->n_vf + c->n_sf;
    c->off_m = AW_H;
    c->off_g = c->off_m + c->n_vec;
    c->off_unit = c->off_g + c->n_vec;
    c->rec_len = 288;
    c->row_len = c->off_m + 5 * c->n_vec + 5;
    c->length = 1.3f;
    c->inv_length = 1.0f / c->length;
    c->eps2 = 1e-6f;
    c->beta = 0.01f;
    for (int f = 0; f < c->n_vf; f++) {
        c->vf_comp[f] = 3 * f;
        c->vf_coef[f] = (1 + 2 * c->n_vec) * f;
    }
    for (int f = 0; f < c->n_sf; f++) {
        c->sf_comp[f] = 3 * c->n_vf + f;
        c->sf_coef[f] = (1 + 2 * c->n_vec) * c->n_vf + f;
    }
    for (int l = 0; l < 4; l++) {
        c->layer[l].n_in = l == 0 ? 1 + c->n_vec * c->n_harm : AW_H;
        c->layer[l].n_out = l < 3 ? AW_H : 2 * ((1 + 2 * c->n_vec) * c->n_vf + c->n_sf);
        c->layer[l].at_w = c->grad_len;
        c->layer[l].at_b =
            c->layer[l].at_w + (int64_t)c->layer[l].n_out * ((c->layer[l].n_in + 15) / 16 * 16);
        c->grad_len = c->layer[l].at_b + c->layer[l].n_out;
    }
    uint16_t *image = (uint16_t *)malloc(AW_IMAGE);
    for (int i = 0; i < AW_IMAGE / 2; i++) {
        float x = 0.2f * draw();
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        image[i] = (uint16_t)(bits >> 16);
    }
    w.image = (char *)on_device(image, AW_IMAGE / 2);
    w.bias = (float *)random_array<float>(AW_BIAS, 0.0, 0.2);
    free(image);
    return w;
}

static adj_wide_io chunk(const ff_adj_cfg *c, int n_tile)
{
    adj_wide_io io;
    int n_block = (n_tile + BLOCK_TILES - 1) / BLOCK_TILES, n_group = 0;
    int64_t *block_off = (int64_t *)calloc((size_t)n_block + 1, sizeof *block_off),
            *tile_off = (int64_t *)calloc((size_t)n_block + 1, sizeof *tile_off);
    int32_t *slot = (int32_t *)malloc((size_t)n_tile * AW_GROUPS * sizeof *slot),
            *target = (int32_t *)malloc((size_t)n_tile * AW_TILE * sizeof *target);
    memset(&io, 0, sizeof io);
    for (int b = 0; b < n_block; b++) {
        int tiles = n_tile - b * BLOCK_TILES < BLOCK_TILES ? n_tile - b * BLOCK_TILES : BLOCK_TILES;
        n_group += tiles * AW_GROUPS - (tiles == BLOCK_TILES ? 2 : 0);
        block_off[b + 1] = n_group;
        tile_off[b + 1] = tile_off[b] + tiles;
    }
    for (int g = 0; g < n_group; g++) slot[g] = g / 5 % SOURCES;
    for (int i = 0; i < n_group * FF_ADJ_GROUP; i++)
        target[i] = draw() > 0.0f ? -1 : (int32_t)((draw() + 0.5f) * (TARGETS - 1));
    io.pairs.rec = random_array<float>((size_t)SOURCES * (size_t)c->rec_len, 0.5, 1.0);
    io.pairs.strength = random_array<float>(SOURCES, 1.0, 1.0);
    io.pairs.out_bar = random_array<float>((size_t)TARGETS * (size_t)c->n_comp, 0.0, 1.0);
    io.pairs.x_s = random_array<double>(4 * (size_t)SOURCES, 0.0, 3.0);
    io.pairs.x_t = random_array<double>(4 * (size_t)TARGETS, 0.0, 3.0);
    io.pairs.group_slot = on_device(slot, (size_t)n_group);
    io.pairs.target = on_device(target, (size_t)n_group * FF_ADJ_GROUP);
    io.block_off = on_device(block_off, (size_t)n_block + 1);
    io.tile_off = on_device(tile_off, (size_t)n_block + 1);
    io.n_block = n_block;
    io.n_tile = n_tile;
    io.tile = on_device<int2>(NULL, (size_t)n_tile);
    io.chunk = on_device<char>(NULL, (size_t)n_tile * AW_TILE_BYTES);
    io.part = on_device<float>(NULL, (size_t)n_block * AW_PART);
    io.pairs.group_rows = on_device<float>(NULL, (size_t)n_group * (size_t)c->row_len);
    io.pairs.grad = on_device<int64_t>(NULL, 2 * (size_t)c->grad_len);
    io.pairs.bad = on_device<int>(NULL, 1);
    CHECK(cudaMemset(io.pairs.grad, 0, 2 * (size_t)c->grad_len * sizeof *io.pairs.grad));
    CHECK(cudaMemset(io.pairs.bad, 0, sizeof *io.pairs.bad));
    free(block_off);
    free(tile_off);
    free(slot);
    free(target);
    return io;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static cudaError_t squares_and_sums(const adj_wide *w, const adj_wide_io *io, int sms, cudaStream_t s)
{
    cudaError_t e = adj_wide_weights(io, sms, s);
    return e == cudaSuccess ? adj_wide_add(w, io, s) : e;
}

typedef cudaError_t (*kernels)(const adj_wide *w, const adj_wide_io *io, int sms, cudaStream_t s);

static void measure(const char *name, kernels run, const adj_wide *w, const adj_wide_io *io, int sms,
                    int repeats, double mflop)
{
    static float ms[MOST];
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int i = -3; i < repeats; i++) {
        CHECK(cudaEventRecord(begin));
        CHECK(run(w, io, sms, 0));
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        if (i >= 0) CHECK(cudaEventElapsedTime(ms + i, begin, end));
    }
    qsort(ms, (size_t)repeats, sizeof *ms, by_value);
    double ns = 1e6 * (double)ms[repeats / 2] / ((double)io->n_tile * AW_TILE);
    printf("%-24s min %.4f median %.4f max %.4f ms, %.3f ns a pair, %.0f TFLOP/s\n", name, (double)ms[0],
           (double)ms[repeats / 2], (double)ms[repeats - 1], ns, 1e3 * mflop / ns);
}

int main(int argc, char **argv)
{
    int n_tile = argc > 1 ? atoi(argv[1]) : 5016, repeats = argc > 2 ? atoi(argv[2]) : 15, sms = 0;
    if (n_tile < 1 || repeats < 1 || repeats > MOST) {
        printf("gpu_adj_wide [tiles >= 1 [repeats 1 .. %d]]\n", MOST);
        return 1;
    }
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    adj_wide w = network();
    adj_wide_io io = chunk(&w.c, n_tile);
    double multiply_adds = 0.0;
    for (int l = 0; l < 4; l++) multiply_adds += (double)w.c.layer[l].n_in * w.c.layer[l].n_out;
    measure("tiles (and their table)", adj_wide_tiles, &w, &io, sms, repeats, 4e-6 * multiply_adds);
    measure("weights (squares, sums)", squares_and_sums, &w, &io, sms, repeats, 2e-6 * multiply_adds);
    int bad = 0;
    CHECK(cudaMemcpy(&bad, io.pairs.bad, sizeof bad, cudaMemcpyDeviceToHost));
    printf("%s\n", bad ? "a sum is out of range" : "all sums in range");
    return bad != 0;
}
