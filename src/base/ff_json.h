/* A small JSON writer on ff_text (reading JSON is the model room's affair). Values are added in order; key is
 * NULL inside an array. Numbers keep all their digits; one that is not finite is written as null. Start with
 * {0}. ff_json j = {0}; ff_json_open(&j, NULL, '{');  ff_json_int(&j, "cells", 12); ff_json_open(&j, "box",
 * '[');  ff_json_double(&j, NULL, 0.5);  ff_json_close(&j); ff_json_close(&j); -> {"cells": 12, "box": [0.5]}
 */
#ifndef FF_JSON_H
#define FF_JSON_H

#include "ff_text.h"

#include <stdbool.h>

enum { FF_JSON_DEPTH = 16 };

typedef struct ff_json {
    ff_text text;
    int depth;
    char close[FF_JSON_DEPTH]; /* what closes each open level */
    bool some[FF_JSON_DEPTH];  /* whether the level holds a value already */
} ff_json;

void ff_json_open(ff_json *j, const char *key, char kind); /* kind '{' or '[' */
void ff_json_close(ff_json *j);
void ff_json_string(ff_json *j, const char *key, const char *value); /* NULL is null */
void ff_json_int(ff_json *j, const char *key, int64_t value);
void ff_json_double(ff_json *j, const char *key, double value);
void ff_json_bool(ff_json *j, const char *key, bool value);
void ff_json_doubles(ff_json *j, const char *key, const double *value, int64_t n); /* an array */
void ff_json_free(ff_json *j);

#endif
