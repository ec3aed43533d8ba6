/* Status codes and the error record.
 * One record a process, guarded by a lock: any thread may fail, the first text since ff_error_clear() stays,
 * so that the cause is reported and not what followed from it. */
#ifndef FF_STATUS_H
#define FF_STATUS_H

#include "farfield.h"

/* Records a message and returns code. Format: `file: place: what = value, expected what; what to do`. Local
 */
ff_status ff_fail(ff_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Replaces the text (used by ff_agree to spread the text of the lowest failing rank). Local */
void ff_error_set(const char *text);

/* Return at once, in a function that owns nothing. */
#define FF_TRY(call)                                                                                         \
    do {                                                                                                     \
        ff_status ff_try_ = (call);                                                                          \
        if (ff_try_ != FF_OK) return ff_try_;                                                                \
    } while (0)

/* Jump to the label done with st set, in a function that owns something. */
#define FF_GO(call)                                                                                          \
    do {                                                                                                     \
        st = (call);                                                                                         \
        if (st != FF_OK) goto done;                                                                          \
    } while (0)

/* Narrow to int32, failing instead of wrapping; what names the quantity. */
ff_status ff_to_i32(int64_t value, const char *what, int32_t *out);

#endif
