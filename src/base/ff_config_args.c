/* The command line after the verb. The same walk is made twice: to check its form and find the deck, then,
 * once the deck is in, to set values: first --set, then flags and files. */
#include "ff_config_impl.h"

#include "ff_mem.h"

#include <stdio.h>
#include <string.h>

enum { STAGE_SCAN = 0, STAGE_SET = 2, STAGE_FLAGS = 3 };

typedef struct walk {
    ff_config *c;
    int stage, i; /* i: argument being looked at */
    bool plain;   /* after "--": files only */
} walk;

static ff_status take_deck(walk *w, const char *value)
{
    if (w->stage != STAGE_SCAN) return FF_OK;
    if (w->c->deck != NULL)
        return ff_fail(FF_E_ARG, "command line: a second deck \"%s\", expected at most one -c", value);
    w->c->deck = value;
    return FF_OK;
}

static ff_status take_set(walk *w, const char *text)
{
    ff_config_source src = {"--set", NULL, STAGE_SET};
    const char *eq = strchr(text, '='), *map_name = NULL;
    if (eq == NULL || eq == text)
        return ff_fail(FF_E_ARG, "command line: --set %s, expected --set key=value", text);
    if (w->stage == STAGE_FLAGS) return FF_OK;
    ff_status st = FF_OK;
    char *key = ff_strdup(text);
    if (key == NULL) return FF_E_MEM;
    key[eq - text] = 0;
    int option = ff_config_find(w->c->verb, key, &map_name);
    if (option < 0)
        st = ff_config_unknown(FF_E_ARG, src.where, key);
    else if (w->stage == STAGE_SET)
        st = ff_config_assign_text(w->c, &src, option, map_name, eq + 1);
    ff_free(key);
    return st;
}

static ff_status assign_flag(walk *w, int option, const char *map_name, const char *value)
{
    ff_config_source src = {"command line", NULL, STAGE_FLAGS};
    if (w->stage != STAGE_FLAGS) return FF_OK;
    return ff_config_assign_text(w->c, &src, option, map_name, value);
}

static ff_status take_file(walk *w, const char *arg)
{
    ff_config *c = w->c;
    const ff_value *v = &c->value[c->files_option];
    bool one = ff_options[c->files_option].type != FF_OPT_FILES;
    if (one && w->stage == STAGE_FLAGS && v->stage == STAGE_FLAGS)
        return ff_fail(FF_E_ARG, "command line: \"%s\" after \"%s\", expected one %s", arg, v->item[0],
                       ff_option_leaf(&ff_options[c->files_option]));
    char *item = (char *)(uintptr_t)arg; /* only read: a file's name is never split as a list */
    ff_config_source src = {"command line", NULL, STAGE_FLAGS};
    return w->stage == STAGE_FLAGS ? ff_config_assign(c, &src, c->files_option, NULL, &item, 1, false)
                                   : FF_OK;
}

/* The value of a flag: after '=', or the next argument. */
static ff_status flag_value(walk *w, const char *after_eq, const char *bare, const char **out)
{
    const char *next = w->i + 1 < w->c->n_args ? w->c->args[w->i + 1] : NULL;
    *out = after_eq;
    if (after_eq != NULL) return FF_OK;
    if (bare != NULL && (next == NULL || (next[0] == '-' && next[1] != 0))) {
        *out = bare;
        return FF_OK;
    }
    if (next == NULL) return ff_fail(FF_E_ARG, "command line: %s needs a value", w->c->args[w->i]);
    w->i++;
    *out = next;
    return FF_OK;
}

static ff_status unknown_flag(const walk *w, const char *name)
{
    char flag[64];
    (void)snprintf(flag, sizeof flag, "%s", ff_config_nearest(w->c->verb, name));
    char *leaf = strrchr(flag, '.') != NULL ? strrchr(flag, '.') + 1 : flag;
    for (char *p = leaf; *p != 0; p++)
        if (*p == '_') *p = '-';
    return ff_fail(FF_E_ARG, "command line: unknown option \"%s\", nearest is \"--%s\"", w->c->args[w->i],
                   leaf);
}

/* --name, --name=value, --no-name; name holds the part before '='. */
static ff_status take_long(walk *w, const char *name, const char *after_eq)
{
    const char *map_name = NULL, *value = NULL, *said = "true";
    if (strcmp(name, "help") == 0) {
        w->c->want_help = true;
        return FF_OK;
    }
    if (strcmp(name, "set") == 0 || strcmp(name, "deck") == 0) {
        FF_TRY(flag_value(w, after_eq, NULL, &value));
        return name[0] == 's' ? take_set(w, value) : take_deck(w, value);
    }
    int option = ff_config_find(w->c->verb, name, &map_name);
    if (option < 0 && strncmp(name, "no-", 3) == 0) {
        option = ff_config_find(w->c->verb, name + 3, &map_name);
        if (option >= 0 && ff_options[option].type != FF_OPT_BOOL) option = -1;
        said = "false";
    }
    if (option < 0) return unknown_flag(w, name);
    const ff_option *o = &ff_options[option];
    if ((o->verbs & w->c->verb) == 0)
        return ff_fail(FF_E_ARG, "command line: %s does not belong to this verb; see its --help",
                       w->c->args[w->i]);
    if (o->type == FF_OPT_BOOL && after_eq == NULL)
        value = said;
    else
        FF_TRY(flag_value(w, after_eq, o->bare, &value));
    return assign_flag(w, option, map_name, value);
}

static ff_status take_short(walk *w, const char *arg)
{
    const char *value = NULL;
    if (arg[2] == 0 && arg[1] == 'h') return take_long(w, "help", NULL);
    if (arg[2] == 0 && arg[1] == 'c') return take_long(w, "deck", NULL);
    for (int i = 0; i < ff_n_options; i++) {
        const ff_option *o = &ff_options[i];
        if (arg[2] != 0 || o->letter != arg[1] || (o->verbs & w->c->verb) == 0) continue;
        FF_TRY(flag_value(w, NULL, o->bare, &value));
        return assign_flag(w, i, NULL, value);
    }
    return unknown_flag(w, arg + 1);
}

static ff_status take(walk *w)
{
    const char *arg = w->c->args[w->i];
    if (w->plain || arg[0] != '-' || arg[1] == 0) return take_file(w, arg);
    if (strcmp(arg, "--") == 0) {
        w->plain = true;
        return FF_OK;
    }
    if (arg[1] != '-') return take_short(w, arg);
    char *name = ff_strdup(arg + 2);
    if (name == NULL) return FF_E_MEM;
    char *eq = strchr(name, '=');
    if (eq != NULL) *eq = 0;
    ff_status st = take_long(w, name, eq != NULL ? arg + 2 + (eq - name) + 1 : NULL);
    ff_free(name);
    return st;
}

static ff_status walk_args(ff_config *c, int stage)
{
    walk w = {c, stage, 0, false};
    for (; w.i < c->n_args; w.i++) FF_TRY(take(&w));
    return FF_OK;
}

ff_status ff_config_scan(ff_config *c, int n_args, char *const *args, const char *files_key)
{
    const char *map_name = NULL;
    c->n_args = n_args;
    c->args = args;
    c->files_option = ff_config_find(c->verb, files_key, &map_name);
    return walk_args(c, STAGE_SCAN);
}

const char *ff_config_deck(const ff_config *c)
{
    return c->deck;
}
bool ff_config_want_help(const ff_config *c)
{
    return c->want_help;
}

ff_status ff_config_apply(ff_config *c)
{
    FF_TRY(walk_args(c, STAGE_SET));
    return walk_args(c, STAGE_FLAGS);
}
