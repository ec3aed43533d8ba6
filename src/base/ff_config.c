#include "ff_config_impl.h"

#include "ff_mem.h"

#include <string.h>

const char *ff_option_leaf(const ff_option *o)
{
    const char *dot = strrchr(o->key, '.');
    return dot != NULL ? dot + 1 : o->key;
}

/* Equal but for '-' and '_'. */
static bool same_name(const char *a, const char *b)
{
    for (; *a != 0 && *b != 0; a++, b++)
        if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b)) return false;
    return *a == *b;
}

int ff_config_find(unsigned verb, const char *key, const char **map_name)
{
    *map_name = NULL;
    for (int i = 0; i < ff_n_options; i++) {
        const ff_option *o = &ff_options[i];
        size_t n = strlen(o->key);
        if (o->type == FF_OPT_MAP) {
            if (strncmp(key, o->key, n) != 0 || key[n] != '.' || key[n + 1] == 0) continue;
            *map_name = key + n + 1;
            return i;
        }
        if (same_name(o->key, key)) return i;
    }
    int other = -1;
    for (int i = 0; i < ff_n_options; i++) {
        const ff_option *o = &ff_options[i];
        if (o->type == FF_OPT_MAP || !same_name(ff_option_leaf(o), key)) continue;
        if ((o->verbs & verb) != 0) return i;
        other = i;
    }
    return other;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

int ff_edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    int row[3][LONGEST + 1], n = (int)strnlen(a, LONGEST), m = (int)strnlen(b, LONGEST);
    int *before = row[0], *last = row[1], *now = row[2];
    for (int j = 0; j <= m; j++) last[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] = smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = smaller(now[j], before[j - 2] + 1);
        }
        int *free_row = before;
        before = last, last = now, now = free_row;
    }
    return last[m];
}

const char *ff_config_nearest(unsigned verb, const char *key)
{
    const char *best = ff_options[0].key;
    int best_d = 1000;
    for (int i = 0; i < ff_n_options; i++) {
        if ((ff_options[i].verbs & verb) == 0) continue;
        int d = smaller(ff_edit_distance(key, ff_options[i].key),
                        ff_edit_distance(key, ff_option_leaf(&ff_options[i])));
        if (d < best_d) best_d = d, best = ff_options[i].key;
    }
    return best;
}

bool ff_config_is_group(const char *path)
{
    size_t n = strlen(path);
    for (int i = 0; i < ff_n_options; i++) {
        const char *key = ff_options[i].key;
        if (strncmp(key, path, n) != 0) continue;
        if (key[n] == '.' || (key[n] == 0 && ff_options[i].type == FF_OPT_MAP)) return true;
    }
    return false;
}

ff_status ff_config_unknown(ff_status code, const char *where, const char *key)
{
    if (ff_config_is_group(key))
        return ff_fail(code, "%s: \"%s\" has no value of its own, expected %s.NAME = value", where, key, key);
    return ff_fail(code, "%s: unknown key \"%s\", nearest is \"%s\"", where, key,
                   ff_config_nearest(FF_VERB_ALL, key));
}

/* ---- values ---- */

static void value_clear(ff_value *v)
{
    for (int i = 0; i < v->n; i++) ff_free(v->item[i]);
    ff_free(v->item);
    ff_free(v->where);
    memset(v, 0, sizeof *v);
}

static bool is_path(const ff_option *o, const char *text)
{
    if (o->type == FF_OPT_FILES) return true;
    return o->type == FF_OPT_PATH && strcmp(text, "-") != 0 && !ff_value_is_choice(o->choices, text);
}

/* Copy of one item; a relative path gets the source's folder in front of it (after "name="). */
static char *item_copy(const ff_option *o, const ff_config_source *src, const char *text)
{
    int name_len = 0;
    if (src->dir == NULL || src->dir[0] == 0 || !is_path(o, text)) return ff_strdup(text);
    const char *path = o->type == FF_OPT_FILES ? ff_config_split_name(text, &name_len) : text;
    if (path[0] == '/') return ff_strdup(text);
    ff_text t = {0};
    ff_text_add(&t, "%.*s%s%s/%s", name_len, text, name_len > 0 ? "=" : "", src->dir, path);
    char *copy = t.st == FF_OK ? ff_strdup(t.s) : NULL;
    ff_text_free(&t);
    return copy;
}

/* Adds items to v, after dropping what an earlier stage (or, unless keep, anyone) has put there. */
static ff_status value_put(ff_value *v, const ff_option *o, const ff_config_source *src, char *const *items,
                           int n, bool keep)
{
    if (!(keep && v->stage == src->stage)) value_clear(v);
    char **grown = ff_mem_resize(v->item, (size_t)(v->n + n), sizeof *grown);
    if (grown == NULL) return FF_E_MEM;
    v->item = grown;
    for (int i = 0; i < n; i++) {
        v->item[v->n] = item_copy(o, src, items[i]);
        if (v->item[v->n] == NULL) return FF_E_MEM;
        v->n++;
    }
    v->stage = src->stage;
    ff_free(v->where);
    v->where = ff_strdup(src->where);
    return v->where != NULL ? FF_OK : FF_E_MEM;
}

/* The value slot of option (and map_name, added if new). */
static ff_status value_slot(ff_config *c, int option, const char *map_name, ff_value **out)
{
    *out = &c->value[option];
    if (map_name == NULL) return FF_OK;
    for (int64_t i = 0; i < c->n_map; i++)
        if (c->map[i].option == option && strcmp(c->map[i].name, map_name) == 0) {
            *out = &c->map[i].v;
            return FF_OK;
        }
    FF_TRY(ff_mem_reserve(&c->map, &c->map_cap, c->n_map + 1, sizeof *c->map));
    ff_map_entry *e = &c->map[c->n_map];
    memset(e, 0, sizeof *e);
    e->option = option;
    e->name = ff_strdup(map_name);
    if (e->name == NULL) return FF_E_MEM;
    c->n_map++;
    *out = &e->v;
    return FF_OK;
}

ff_status ff_config_assign(ff_config *c, const ff_config_source *src, int option, const char *map_name,
                           char *const *items, int n, bool list)
{
    const ff_option *o = &ff_options[option];
    ff_value *v = NULL;
    FF_TRY(ff_value_check(o, map_name, src->where, items, n, list));
    FF_TRY(value_slot(c, option, map_name, &v));
    return value_put(v, o, src, items, n, o->type == FF_OPT_FILES);
}

/* Cuts text at commas (and blanks) in place; item has room for max pointers. Returns the number found. */
static int split_list(char *text, char **item, int max)
{
    int n = 0;
    char *save = NULL;
    for (char *p = strtok_r(text, ", \t", &save); p != NULL && n < max; p = strtok_r(NULL, ", \t", &save))
        item[n++] = p;
    return n;
}

ff_status ff_config_assign_text(ff_config *c, const ff_config_source *src, int option, const char *map_name,
                                const char *text)
{
    ff_status st = FF_OK;
    const ff_option *o = &ff_options[option];
    size_t len = strlen(text);
    bool list = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    bool numbers = o->type == FF_OPT_VECTOR || o->type == FF_OPT_MAP;
    char *copy = ff_strdup(text), **item = NULL;
    if (copy == NULL) return FF_E_MEM;
    FF_GO(FF_NEW(item, len / 2 + 2));
    int n = 1;
    item[0] = copy;
    if (list || (numbers && strpbrk(text, ", ") != NULL)) {
        if (list) copy[len - 1] = 0;
        n = split_list(copy + (list ? 1 : 0), item, (int)(len / 2) + 2);
        list = true;
    }
    FF_GO(ff_config_assign(c, src, option, map_name, item, n, list));
done:
    ff_free(item);
    ff_free(copy);
    return st;
}

ff_status ff_config_set(ff_config *c, const char *where, const char *key, const char *value)
{
    const char *map_name = NULL;
    ff_config_source src = {where, NULL, 2};
    int option = ff_config_find(c->verb, key, &map_name);
    if (option < 0) return ff_config_unknown(FF_E_ARG, where, key);
    return ff_config_assign_text(c, &src, option, map_name, value);
}

ff_status ff_config_create(unsigned verb, ff_config **out)
{
    ff_status st = FF_OK;
    ff_config *c = NULL;
    ff_config_source src = {"default", NULL, 0};
    *out = NULL;
    FF_TRY(FF_NEW0(c, 1));
    c->verb = verb;
    FF_GO(FF_NEW0(c->value, ff_n_options));
    for (int i = 0; i < ff_n_options; i++)
        if (ff_options[i].value != NULL) FF_GO(ff_config_assign_text(c, &src, i, NULL, ff_options[i].value));
done:
    if (st != FF_OK) ff_config_destroy(&c);
    *out = c;
    return st;
}

void ff_config_destroy(ff_config **cp)
{
    ff_config *c = *cp;
    if (c == NULL) return;
    for (int i = 0; i < ff_n_options && c->value != NULL; i++) value_clear(&c->value[i]);
    for (int64_t i = 0; i < c->n_map; i++) {
        ff_free(c->map[i].name);
        value_clear(&c->map[i].v);
    }
    ff_free(c->map);
    ff_free(c->value);
    FF_FREE(*cp);
}
