#include "ff_schedule.h"

#include <math.h>

ff_schedule_state ff_schedule_start(void)
{
    return (ff_schedule_state){.scale = 1, .best = HUGE_VAL, .bad = 0, .smooth = (double)NAN};
}

double ff_schedule_rate(const ff_schedule_opts *o, const ff_schedule_state *s, int64_t step)
{
    if (step < o->warmup) return o->lr * (double)(step + 1) / (double)o->warmup;
    if (o->kind == FF_LR_PLATEAU) return fmax(o->lr * s->scale, o->lr_end);
    if (o->kind == FF_LR_CONSTANT) return o->lr;
    const double pi = 3.14159265358979323846;
    double span = (double)(o->steps - o->warmup - 1), x = span > 0 ? (double)(step - o->warmup) / span : 1;
    double left = o->kind == FF_LR_LINEAR ? 1 - fmin(x, 1) : (1 + cos(pi * fmin(x, 1))) / 2;
    return o->lr_end + (o->lr - o->lr_end) * left;
}

bool ff_schedule_loss(const ff_schedule_opts *o, ff_schedule_state *s, double loss)
{
    if (o->kind != FF_LR_PLATEAU || !isfinite(loss)) return false;
    /* losses of single steps are noisy: compare a running mean over about a tenth of the patience */
    double w = 1 / fmax((double)o->patience / 10, 1);
    s->smooth = isnan(s->smooth) ? loss : s->smooth + w * (loss - s->smooth);
    if (s->smooth < s->best * (1 - o->threshold)) {
        s->best = s->smooth;
        s->bad = 0;
        return false;
    }
    if (++s->bad <= o->patience) return false;
    s->bad = 0;
    s->scale *= o->factor;
    return true;
}
