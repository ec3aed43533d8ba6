#include "ff_train_keep.h"

#include "ff_mem.h"

typedef struct place {
    train_body body;
    int taken;
    bool kept;
} place;

struct train_keep {
    int64_t n, bytes;
    place *place; /* [n] */
};

void train_body_clear(train_body *b)
{
    ff_grad_destroy(&b->g);
    ff_eval_destroy(&b->e);
    ff_sample_destroy(&b->s);
}

ff_status train_keep_create(int64_t n, int64_t bytes, train_keep **out)
{
    train_keep *k = NULL;
    *out = NULL;
    FF_TRY(FF_NEW0(k, 1));
    if (FF_NEW0(k->place, n + 1) != FF_OK) {
        ff_free(k);
        return FF_E_MEM;
    }
    k->n = n;
    k->bytes = bytes;
    *out = k;
    return FF_OK;
}

void train_keep_destroy(train_keep **kp)
{
    train_keep *k = *kp;
    if (k == NULL) return;
    for (int64_t i = 0; i < k->n; i++) train_body_clear(&k->place[i].body);
    ff_free(k->place);
    FF_FREE(*kp);
}

train_body *train_keep_take(train_keep *k, int64_t i)
{
    int before;
    if (k->bytes == 0) return NULL;
#pragma omp atomic capture seq_cst
    {
        before = k->place[i].taken;
        k->place[i].taken = 1;
    }
    return before == 0 ? &k->place[i].body : NULL;
}

void train_keep_give(train_keep *k, int64_t i, int64_t device_peak)
{
    place *p = &k->place[i];
    p->kept = p->kept || ((int64_t)ff_mem_used() < k->bytes && device_peak < k->bytes);
    if (!p->kept) train_body_clear(&p->body);
#pragma omp atomic write seq_cst
    p->taken = 0;
}
