#include "bench_blas.h"

#include "ff_mem.h"
#include "ff_timer.h"

#include <dlfcn.h>
#include <string.h>

/* CblasRowMajor 101, CblasNoTrans 111. */
typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                         float *, int);
typedef void (*threads_fn)(int);

/* Not libblas.so.3: where that is none of these it is the reference BLAS, twenty times slower than the machine. */
static void *load(void)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libmkl_rt.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (lib != NULL && dlsym(lib, "cblas_sgemm") != NULL) return lib;
        if (lib != NULL) (void)dlclose(lib);
    }
    return NULL;
}

double bench_sgemm_gflops(int n, int threads)
{
    double best = 0;
    float *a = NULL, *b = NULL, *c = NULL;
    void *lib = load();
    if (lib == NULL) return 0;
    void *sym = dlsym(lib, "cblas_sgemm"), *set = dlsym(lib, "openblas_set_num_threads");
    sgemm_fn sgemm;
    threads_fn set_threads;
    memcpy(&sgemm, &sym, sizeof sgemm);
    memcpy(&set_threads, &set, sizeof set_threads);
    if (set != NULL) set_threads(threads);
    size_t m = (size_t)n * (size_t)n;
    if (FF_NEW0(a, m) == FF_OK && FF_NEW0(b, m) == FF_OK && FF_NEW0(c, m) == FF_OK) {
        for (size_t i = 0; i < m; i++) a[i] = b[i] = (float)(i % 97) * 0.01f;
        for (int k = 0; k < 4; k++) {
            double t = ff_now_s();
            sgemm(101, 111, 111, n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
            double rate = 2e-9 * (double)n * (double)n * (double)n / (ff_now_s() - t);
            if (k > 0 && rate > best) best = rate;
        }
    }
    ff_free(a);
    ff_free(b);
    ff_free(c);
    return best; /* the library stays loaded: its threads may not be unloaded safely */
}
