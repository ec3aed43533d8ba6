/* What a caller asks of a resolved configuration. */
#include "ff_config_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Index of the option with exactly this key. */
static int index_of(const char *key)
{
    for (int i = 0; i < ff_n_options; i++)
        if (strcmp(ff_options[i].key, key) == 0) return i;
    assert(false && "no such option");
    return 0;
}

static const ff_value *value_of(const ff_config *c, const char *key)
{
    return &c->value[index_of(key)];
}

static const char *first_item(const ff_config *c, const char *key)
{
    const ff_value *v = value_of(c, key);
    return v->n > 0 ? v->item[0] : NULL;
}

bool ff_config_has(const ff_config *c, const char *key)
{
    return ff_config_count(c, key) > 0;
}

bool ff_config_given(const ff_config *c, const char *key)
{
    int option = index_of(key);
    if (ff_options[option].type == FF_OPT_MAP) return ff_config_count(c, key) > 0;
    return c->value[option].n > 0 && c->value[option].stage > 0;
}

bool ff_config_bool(const ff_config *c, const char *key)
{
    const char *s = first_item(c, key);
    assert(ff_options[index_of(key)].type == FF_OPT_BOOL);
    return s != NULL && ff_value_bool(s);
}

int64_t ff_config_int(const ff_config *c, const char *key)
{
    const char *s = first_item(c, key);
    const ff_option *o = &ff_options[index_of(key)];
    assert(o->type == FF_OPT_INT || o->type == FF_OPT_BYTES);
    return s != NULL ? ff_value_int(o, s) : 0;
}

double ff_config_double(const ff_config *c, const char *key)
{
    const char *s = first_item(c, key);
    assert(ff_options[index_of(key)].type == FF_OPT_DOUBLE);
    return s != NULL ? ff_value_double(s) : 0;
}

const char *ff_config_string(const ff_config *c, const char *key)
{
    return first_item(c, key);
}

int ff_config_count(const ff_config *c, const char *key)
{
    int option = index_of(key), n = 0;
    if (ff_options[option].type != FF_OPT_MAP) return c->value[option].n;
    for (int64_t i = 0; i < c->n_map; i++) n += c->map[i].option == option;
    return n;
}

const char *ff_config_file(const ff_config *c, const char *key, int i)
{
    const ff_value *v = value_of(c, key);
    assert(i >= 0 && i < v->n);
    return v->item[i];
}

double ff_config_item(const ff_config *c, const char *key, int i)
{
    return ff_value_double(ff_config_file(c, key, i));
}

static const ff_map_entry *map_entry(const ff_config *c, const char *key, int i)
{
    int option = index_of(key);
    for (int64_t k = 0; k < c->n_map; k++)
        if (c->map[k].option == option && i-- == 0) return &c->map[k];
    assert(false && "no such map entry");
    return c->map;
}

const char *ff_config_map_name(const ff_config *c, const char *key, int i)
{
    return map_entry(c, key, i)->name;
}

int ff_config_map_find(const ff_config *c, const char *key, const char *name)
{
    int n = ff_config_count(c, key);
    for (int i = 0; i < n; i++)
        if (strcmp(map_entry(c, key, i)->name, name) == 0) return i;
    return -1;
}

int ff_config_map_len(const ff_config *c, const char *key, int i)
{
    return map_entry(c, key, i)->v.n;
}

double ff_config_map_item(const ff_config *c, const char *key, int i, int k)
{
    const ff_value *v = &map_entry(c, key, i)->v;
    assert(k >= 0 && k < v->n);
    return ff_value_double(v->item[k]);
}

ff_status ff_config_bad(const ff_config *c, const char *key, const char *expected)
{
    const ff_value *v = value_of(c, key);
    return ff_fail(FF_E_ARG, "%s: %s = %s, expected %s", v->n > 0 ? v->where : "default", key,
                   v->n > 0 ? v->item[0] : "(nothing)", expected);
}

/* "--leaf-size" of "plan.leaf_size". */
static void flag_of(const ff_option *o, char *out, size_t n)
{
    (void)snprintf(out, n, "--%s", ff_option_leaf(o));
    for (char *p = out; *p != 0; p++)
        if (*p == '_') *p = '-';
}

ff_status ff_config_need(const ff_config *c, const char *key)
{
    char flag[64];
    const ff_option *o = &ff_options[index_of(key)];
    if (ff_config_has(c, key)) return FF_OK;
    if (o->type == FF_OPT_FILES)
        return ff_fail(FF_E_ARG, "command line: no %s given, expected at least one", o->key);
    flag_of(o, flag, sizeof flag);
    return ff_fail(FF_E_ARG, "command line: %s is missing; give %s %s or %s in the deck", key, flag,
                   o->type == FF_OPT_PATH ? "FILE" : "VALUE", key);
}

const char *ff_config_split_name(const char *arg, int *name_len)
{
    const char *eq = strchr(arg, '='), *slash = strchr(arg, '/');
    *name_len = 0;
    if (eq == NULL || eq == arg) return arg;
    if (access(arg, F_OK) == 0) return arg; /* a file of that whole name */
    if (slash != NULL && slash < eq && access(eq + 1, F_OK) != 0) return arg;
    *name_len = (int)(eq - arg);
    return eq + 1;
}
