#include "ff_json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void quoted(ff_text *t, const char *s)
{
    ff_text_put(t, "\"", 1);
    for (; *s != 0; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            ff_text_add(t, "\\%c", c);
        else if (c < 0x20)
            ff_text_add(t, "\\u%04x", c);
        else
            ff_text_put(t, s, 1);
    }
    ff_text_put(t, "\"", 1);
}

/* Comma, line break and key before a value. Objects take a line a value, arrays stay on one line. */
static void begin(ff_json *j, const char *key)
{
    if (j->depth == 0) return;
    int d = j->depth - 1;
    bool object = j->close[d] == '}';
    assert(object == (key != NULL));
    if (j->some[d]) ff_text_add(&j->text, object ? "," : ", ");
    j->some[d] = true;
    if (!object) return;
    ff_text_add(&j->text, "\n%*s", 2 * j->depth, "");
    quoted(&j->text, key);
    ff_text_add(&j->text, ": ");
}

void ff_json_open(ff_json *j, const char *key, char kind)
{
    assert(j->depth < FF_JSON_DEPTH && (kind == '{' || kind == '['));
    begin(j, key);
    ff_text_put(&j->text, &kind, 1);
    j->close[j->depth] = kind == '{' ? '}' : ']';
    j->some[j->depth++] = false;
}

void ff_json_close(ff_json *j)
{
    assert(j->depth > 0);
    int d = --j->depth;
    if (j->close[d] == '}' && j->some[d]) ff_text_add(&j->text, "\n%*s", 2 * d, "");
    ff_text_put(&j->text, &j->close[d], 1);
    if (d == 0) ff_text_put(&j->text, "\n", 1);
}

void ff_json_string(ff_json *j, const char *key, const char *value)
{
    begin(j, key);
    if (value == NULL)
        ff_text_add(&j->text, "null");
    else
        quoted(&j->text, value);
}

void ff_json_int(ff_json *j, const char *key, int64_t value)
{
    begin(j, key);
    ff_text_add(&j->text, "%lld", (long long)value);
}

void ff_json_double(ff_json *j, const char *key, double value)
{
    begin(j, key);
    if (isfinite(value))
        ff_text_add(&j->text, "%.17g", value);
    else
        ff_text_add(&j->text, "null");
}

void ff_json_bool(ff_json *j, const char *key, bool value)
{
    begin(j, key);
    ff_text_add(&j->text, value ? "true" : "false");
}

void ff_json_doubles(ff_json *j, const char *key, const double *value, int64_t n)
{
    ff_json_open(j, key, '[');
    for (int64_t i = 0; i < n; i++) ff_json_double(j, NULL, value[i]);
    ff_json_close(j);
}

void ff_json_free(ff_json *j)
{
    ff_text_free(&j->text);
    memset(j, 0, sizeof *j);
}
