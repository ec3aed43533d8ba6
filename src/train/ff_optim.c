#include "ff_optim.h"

#include "ff_mem.h"

#include <math.h>
#include <string.h>

static const double beta1 = 0.9, eps = 1e-8, momentum = 0.95;

/* ---- state ---- */

static bool is_matrix(const ff_tensor *t)
{
    return t->n_dim == 2 && strstr(t->name, ".network.") != NULL;
}

bool ff_optim_is_muon(const ff_optim *o, const ff_model *m, int i)
{
    return o->opts.muon && is_matrix(&m->tensor[i]);
}

void ff_optim_destroy(ff_optim **op)
{
    ff_optim *o = *op;
    if (o == NULL) return;
    float **sets[3] = {o->first, o->second, o->ema};
    for (int s = 0; s < 3; s++) {
        for (int i = 0; i < o->n && sets[s] != NULL; i++) ff_free(sets[s][i]);
        ff_free(sets[s]);
    }
    FF_FREE(*op);
}

ff_status ff_optim_create(const ff_model *m, const ff_optim_opts *opts, ff_optim **out)
{
    ff_status st = FF_OK;
    ff_optim *o = NULL;
    *out = NULL;
    if (!(opts->weight_decay >= 0 && opts->clip >= 0 && opts->ema >= 0 && opts->ema < 1 && opts->beta2 >= 0 &&
          opts->beta2 < 1))
        return ff_fail(FF_E_ARG,
                       "optimiser: weight decay %g, clip %g, ema %g, beta2 %g, expected >= 0, >= 0, 0 <= ema "
                       "< 1, 0 <= beta2 < 1",
                       opts->weight_decay, opts->clip, opts->ema, opts->beta2);
    FF_TRY(FF_NEW0(o, 1));
    o->opts = *opts;
    if (opts->beta2 == 0) o->opts.beta2 = 0.999;
    o->n = m->n_tensors;
    FF_GO(FF_NEW0(o->first, o->n));
    FF_GO(FF_NEW0(o->second, o->n));
    if (opts->ema > 0) FF_GO(FF_NEW0(o->ema, o->n));
    for (int i = 0; i < o->n; i++) {
        const ff_tensor *t = &m->tensor[i];
        FF_GO(FF_NEW0(o->first[i], t->n));
        if (!ff_optim_is_muon(o, m, i)) FF_GO(FF_NEW0(o->second[i], t->n));
        if (o->ema == NULL) continue;
        FF_GO(FF_NEW(o->ema[i], t->n));
        memcpy(o->ema[i], t->value, (size_t)t->n * sizeof *t->value);
    }
    *out = o;
    o = NULL;
done:
    ff_optim_destroy(&o);
    return st;
}

/* ---- Muon ---- */

/* Loops over rows of floats, written once and compiled for each instruction set; one order of operations in all. */
#define FF_INLINE static inline __attribute__((always_inline))

/* c [n][n] = x [n][k] x^T: both triangles from one sum. */
FF_INLINE void gram(const float *x, int64_t n, int64_t k, float *c)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            float lane[16] = {0};
            const float *a = x + i * k, *b = x + j * k;
            int64_t q = 0;
            for (; q + 16 <= k; q += 16)
                for (int l = 0; l < 16; l++) lane[l] += a[q + l] * b[q + l];
            for (; q < k; q++) lane[0] += a[q] * b[q];
            for (int w = 8; w > 0; w /= 2)
                for (int l = 0; l < w; l++) lane[l] += lane[l + w];
            c[i * n + j] = c[j * n + i] = lane[0];
        }
}

/* out [n][k] += s a [n][n] x [n][k] */
FF_INLINE void add_product(float s, const float *a, const float *x, int64_t n, int64_t k, float *out)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            float f = s * a[i * n + j];
            const float *from = x + j * k;
            float *restrict to = out + i * k;
            for (int64_t q = 0; q < k; q++) to[q] += f * from[q];
        }
}

/* next = a x + (b G + c G G) x with G = x x^T, which is symmetric. g1, g2 [n][n]: room */
FF_INLINE void newton_schulz(const float *x, int64_t n, int64_t k, float *g1, float *g2, float *next)
{
    const float a = 3.4445f, b = -4.7750f, c = 2.0315f;
    gram(x, n, k, g1);
    for (int64_t i = 0; i < n * n; i++) g2[i] = b * g1[i];
    add_product(c, g1, g1, n, n, g2);
    for (int64_t i = 0; i < n * k; i++) next[i] = a * x[i];
    add_product(1, g2, x, n, k, next);
}

static void step_plain(const float *x, int64_t n, int64_t k, float *g1, float *g2, float *next)
{
    newton_schulz(x, n, k, g1, g2, next);
}

#if defined(__x86_64__) && defined(__GNUC__)
static __attribute__((target("avx2"))) void step_avx2(const float *x, int64_t n, int64_t k, float *g1,
                                                      float *g2, float *next)
{
    newton_schulz(x, n, k, g1, g2, next);
}

static __attribute__((target("avx512f"))) void step_avx512(const float *x, int64_t n, int64_t k, float *g1,
                                                           float *g2, float *next)
{
    newton_schulz(x, n, k, g1, g2, next);
}

static void step(const float *x, int64_t n, int64_t k, float *g1, float *g2, float *next)
{
    if (__builtin_cpu_supports("avx512f"))
        step_avx512(x, n, k, g1, g2, next);
    else if (__builtin_cpu_supports("avx2"))
        step_avx2(x, n, k, g1, g2, next);
    else
        step_plain(x, n, k, g1, g2, next);
}
#else
static void step(const float *x, int64_t n, int64_t k, float *g1, float *g2, float *next)
{
    step_plain(x, n, k, g1, g2, next);
}
#endif

static void transpose(const float *a, int64_t rows, int64_t cols, float *out)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) out[j * rows + i] = a[i * cols + j];
}

void ff_muon_orthogonalise(float *g, int64_t rows, int64_t cols, float *work)
{
    int64_t n = rows < cols ? rows : cols, k = rows < cols ? cols : rows, size = rows * cols;
    float *x = work, *next = x + size, *g1 = next + size, *g2 = g1 + n * n;
    double norm = 0;
    if (rows > cols)
        transpose(g, rows, cols, x);
    else
        memcpy(x, g, (size_t)size * sizeof *x);
    for (int64_t i = 0; i < size; i++) norm += (double)x[i] * (double)x[i];
    norm = fmax(sqrt(norm), 1e-7);
    for (int64_t i = 0; i < size; i++) x[i] = (float)(x[i] / norm);
    for (int turn = 0; turn < 5; turn++) {
        step(x, n, k, g1, g2, next);
        float *swap = x;
        x = next;
        next = swap;
    }
    if (rows > cols)
        transpose(x, cols, rows, g);
    else
        memcpy(g, x, (size_t)size * sizeof *g);
}

static ff_status step_muon(ff_tensor *t, float *first, const float *grad, double lr, double decay)
{
    int64_t rows = t->shape[0], cols = t->shape[1], n = rows < cols ? rows : cols;
    float *update = NULL, beta = (float)momentum;
    FF_TRY(FF_NEW(update, 3 * t->n + 2 * n * n));
    for (int64_t i = 0; i < t->n; i++) {
        first[i] += (1 - beta) * (grad[i] - first[i]);
        update[i] = grad[i] + beta * (first[i] - grad[i]);
    }
    ff_muon_orthogonalise(update, rows, cols, update + t->n);
    double scale = lr * 0.2 * sqrt((double)(rows > cols ? rows : cols));
    for (int64_t i = 0; i < t->n; i++)
        t->value[i] = (float)((double)t->value[i] * (1 - lr * decay) - scale * (double)update[i]);
    ff_free(update);
    return FF_OK;
}

/* ---- AdamW, RAdam ---- */

/* Factor of the bias-corrected momentum and whether the mean square divides it (RAdam's first steps have none). */
static double rectification(int64_t t, double beta2, bool *adaptive)
{
    double top = 2 / (1 - beta2) - 1, power = pow(beta2, (double)t);
    double rho = top - 2 * (double)t * power / (1 - power);
    *adaptive = rho > 5;
    if (!*adaptive) return 1;
    return sqrt((rho - 4) * (rho - 2) * top / ((top - 4) * (top - 2) * rho));
}

static void step_adam(ff_tensor *t, float *first, float *second, const float *grad, double lr, double decay,
                      const ff_optim *o)
{
    int64_t step = o->step;
    bool radam = o->opts.rest == FF_REST_RADAM;
    double beta2 = o->opts.beta2;
    double c1 = 1 - pow(beta1, (double)step), c2 = sqrt(1 - pow(beta2, (double)step)), rect = 1;
    bool adaptive = true;
    if (radam) rect = rectification(step, beta2, &adaptive);
    for (int64_t i = 0; i < t->n; i++) {
        double g = (double)grad[i], m = beta1 * (double)first[i] + (1 - beta1) * g;
        double v = beta2 * (double)second[i] + (1 - beta2) * g * g;
        double move = m / c1;
        if (adaptive) move = radam ? move * rect * c2 / (sqrt(v) + eps) : move / (sqrt(v) / c2 + eps);
        first[i] = (float)m;
        second[i] = (float)v;
        t->value[i] = (float)((double)t->value[i] * (1 - lr * decay) - lr * move);
    }
}

/* ---- step ---- */

static double global_norm(const ff_model *m, float *const *grad)
{
    double sum = 0;
    for (int i = 0; i < m->n_tensors; i++)
        for (int64_t k = 0; k < m->tensor[i].n; k++) sum += (double)grad[i][k] * (double)grad[i][k];
    return sqrt(sum);
}

static ff_status step_tensor(ff_optim *o, ff_model *m, int i, float *grad, double lr, double clip)
{
    ff_tensor *t = &m->tensor[i];
    double decay = o->opts.weight_decay;
    if (clip < 1)
        for (int64_t k = 0; k < t->n; k++) grad[k] = (float)(clip * (double)grad[k]);
    if (ff_optim_is_muon(o, m, i))
        FF_TRY(step_muon(t, o->first[i], grad, lr, decay));
    else
        step_adam(t, o->first[i], o->second[i], grad, lr, is_matrix(t) ? decay : 0, o);
    if (o->ema == NULL) return FF_OK;
    for (int64_t k = 0; k < t->n; k++)
        o->ema[i][k] = (float)(o->opts.ema * (double)o->ema[i][k] + (1 - o->opts.ema) * (double)t->value[k]);
    return FF_OK;
}

ff_status ff_optim_step(ff_optim *o, ff_model *m, float *const *grad, double lr, double *norm)
{
    ff_status worst = FF_OK;
    *norm = global_norm(m, grad);
    if (!isfinite(*norm)) {
        o->skipped++;
        return FF_OK;
    }
    double clip = o->opts.clip > 0 && *norm > o->opts.clip ? o->opts.clip / *norm : 1;
    o->step++;
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < o->n; i++) {
        ff_status st = step_tensor(o, m, i, grad[i], lr, clip);
        if (st != FF_OK) {
#pragma omp critical
            worst = st;
        }
    }
    return worst;
}
