/* Types, ranges and choices of option values. */
#include "ff_config_impl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool read_double(const char *text, double *out)
{
    char *end = NULL;
    if (text[0] == 0) return false;
    *out = strtod(text, &end);
    return *end == 0 && isfinite(*out);
}

static bool read_int(const char *text, int64_t *out)
{
    char *end = NULL;
    if (text[0] == 0) return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *end == 0 && errno == 0;
}

static bool read_bytes(const char *text, int64_t *out)
{
    static const struct {
        const char *name;
        double factor;
    } suffix[] = {{"", 1},     {"B", 1},        {"K", 1e3},      {"M", 1e6},      {"G", 1e9},
                  {"T", 1e12}, {"KiB", 1024.0}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char *end = NULL;
    double v = strtod(text, &end);
    if (end == text || !isfinite(v)) return false;
    while (*end == ' ') end++;
    for (size_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++) {
        if (strcasecmp(end, suffix[i].name) != 0) continue;
        v *= suffix[i].factor;
        if (fabs(v) >= 0x1p62) return false;
        *out = (int64_t)v;
        return true;
    }
    return false;
}

static bool read_bool(const char *text, bool *out)
{
    static const char *const word[2][4] = {{"false", "no", "off", "0"}, {"true", "yes", "on", "1"}};
    for (int v = 0; v < 2; v++)
        for (int i = 0; i < 4; i++)
            if (strcasecmp(text, word[v][i]) == 0) {
                *out = v == 1;
                return true;
            }
    return false;
}

double ff_value_double(const char *text)
{
    double v = 0;
    (void)read_double(text, &v);
    return v;
}

int64_t ff_value_int(const ff_option *o, const char *text)
{
    int64_t v = 0;
    (void)(o->type == FF_OPT_BYTES ? read_bytes(text, &v) : read_int(text, &v));
    return v;
}

bool ff_value_bool(const char *text)
{
    bool v = false;
    (void)read_bool(text, &v);
    return v;
}

/* Ranges are written ">= a", "> a" or "a .. b". */
static bool in_range(const char *range, double v)
{
    char *end = NULL;
    if (range == NULL) return true;
    if (strncmp(range, ">= ", 3) == 0) return v >= strtod(range + 3, NULL);
    if (strncmp(range, "> ", 2) == 0) return v > strtod(range + 2, NULL);
    double lo = strtod(range, &end);
    return v >= lo && v <= strtod(end + 4, NULL);
}

bool ff_value_is_choice(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *p = choices; p != NULL && n > 0; p = strchr(p, '|')) {
        if (*p == '|') p++;
        if (strncmp(p, text, n) == 0 && (p[n] == 0 || p[n] == '|')) return true;
    }
    return false;
}

/* What an item must be, or NULL if it is that. */
static const char *item_fault(const ff_option *o, const char *text)
{
    double v = 0;
    int64_t i = 0;
    bool b;
    switch (o->type) {
    case FF_OPT_BOOL:
        return read_bool(text, &b) ? NULL : "true or false";
    case FF_OPT_INT:
        if (!read_int(text, &i)) return "an integer";
        return in_range(o->range, (double)i) ? NULL : o->range;
    case FF_OPT_BYTES:
        if (!read_bytes(text, &i)) return "a number of bytes such as 500M or 2GiB";
        return in_range(o->range, (double)i) ? NULL : o->range;
    case FF_OPT_DOUBLE:
    case FF_OPT_VECTOR:
    case FF_OPT_MAP:
        if (!read_double(text, &v)) return "a finite number";
        return in_range(o->range, v) ? NULL : o->range;
    case FF_OPT_ENUM:
        return ff_value_is_choice(o->choices, text) ? NULL : o->choices;
    case FF_OPT_STRING:
    case FF_OPT_PATH:
    case FF_OPT_FILES:
        break;
    }
    return text[0] != 0 ? NULL : "a text that is not empty";
}

static ff_status value_fail(const ff_option *o, const char *map_name, const char *where, char *const *items,
                            int n, bool list, const char *expected)
{
    ff_text shown = {0};
    for (int i = 0; i < n && i < 8; i++) ff_text_add(&shown, "%s%s", i > 0 ? ", " : "", items[i]);
    if (n > 8) ff_text_add(&shown, ", ...");
    const char *name = map_name != NULL ? map_name : ff_option_leaf(o), *link = " ";
    if (expected == o->range && expected != NULL && strstr(expected, "..") != NULL) link = " in ";
    bool plain = expected != o->range; /* a kind of value, not a range of the named one */
    ff_status st = ff_fail(FF_E_ARG, "%s: %s%s%s = %s%s%s, expected %s%s%s%s", where, o->key,
                           map_name != NULL ? "." : "", map_name != NULL ? map_name : "", list ? "[" : "",
                           ff_text_get(&shown), list ? "]" : "", expected == o->choices ? "one of " : "",
                           plain ? "" : name, plain ? "" : link, expected);
    ff_text_free(&shown);
    return st;
}

ff_status ff_value_check(const ff_option *o, const char *map_name, const char *where, char *const *items,
                         int n, bool list)
{
    bool many =
        o->type == FF_OPT_VECTOR || o->type == FF_OPT_FILES || (o->type == FF_OPT_MAP && o->n_items != 1);
    if (!many && list && !(n == 1 && o->type == FF_OPT_MAP))
        return value_fail(o, map_name, where, items, n, list, "a single value, not a list");
    for (int i = 0; i < n; i++) {
        const char *fault = item_fault(o, items[i]);
        if (fault != NULL) return value_fail(o, map_name, where, items, n, list, fault);
    }
    if (n == 0) return value_fail(o, map_name, where, items, n, list, "a value");
    if (o->n_items != 0 && n != o->n_items) {
        char expected[48];
        (void)snprintf(expected, sizeof expected, "%d number%s", o->n_items, o->n_items > 1 ? "s" : "");
        return value_fail(o, map_name, where, items, n, list, expected);
    }
    return FF_OK;
}
