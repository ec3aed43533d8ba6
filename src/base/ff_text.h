/* A growing piece of text: help pages, resolved decks and JSON are built here and written at once.
 * Failures stick: after the first one every call does nothing, and ff_text_status tells. Start with {0}. */
#ifndef FF_TEXT_H
#define FF_TEXT_H

#include "ff_status.h"

typedef struct ff_text {
    char *s; /* always terminated once anything was added; NULL before */
    int64_t n, cap;
    ff_status st;
} ff_text;

void ff_text_add(ff_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ff_text_put(ff_text *t, const char *s, int64_t n); /* n bytes as they are */
ff_status ff_text_status(const ff_text *t);
const char *ff_text_get(const ff_text *t); /* "" if empty */
void ff_text_free(ff_text *t);

#endif
