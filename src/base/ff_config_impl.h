/* Shared by the ff_config_*.c files only. */
#ifndef FF_CONFIG_IMPL_H
#define FF_CONFIG_IMPL_H

#include "ff_config.h"

/* Where an assignment comes from. */
typedef struct ff_config_source {
    const char *where; /* "case.yaml:14", "--set", "command line" */
    const char *dir;   /* folder that paths are relative to, NULL: the working folder */
    int stage; /* 0 default, 1 deck, 2 --set, 3 flags: FILES of one stage add up, a later stage replaces */
} ff_config_source;

/* A value is the text of its items (one, or the entries of a list); checked when set, so reading cannot fail.
 */
typedef struct ff_value {
    char *where;
    int stage, n;
    char **item;
} ff_value;

typedef struct ff_map_entry {
    int option;
    char *name;
    ff_value v;
} ff_map_entry;

struct ff_config {
    unsigned verb;
    ff_value *value; /* [ff_n_options]; n = 0: unset. Unused for MAP */
    ff_map_entry *map;
    int64_t n_map, map_cap;
    int n_args;
    char *const *args; /* borrowed */
    int files_option;
    const char *deck; /* borrowed from args */
    bool want_help;
};

/* Index of the option that key names (full key, last part, or KEY.NAME of a map, whose NAME then starts at
 * *map_name), or -1. '-' and '_' are the same. Options of verb are preferred. */
int ff_config_find(unsigned verb, const char *key, const char **map_name);
/* The key or flag nearest to what was written, among the options of verb. */
const char *ff_config_nearest(unsigned verb, const char *key);
/* Whether some key begins with "path.". */
bool ff_config_is_group(const char *path);
/* Fails with the nearest name. */
ff_status ff_config_unknown(ff_status code, const char *where, const char *key);
/* Last part of a key. */
const char *ff_option_leaf(const ff_option *o);

/* Checks and stores items [n] for option; list: they were written as a list. */
ff_status ff_config_assign(ff_config *c, const ff_config_source *src, int option, const char *map_name,
                           char *const *items, int n, bool list);
/* The same from the text of a command line or --set. */
ff_status ff_config_assign_text(ff_config *c, const ff_config_source *src, int option, const char *map_name,
                                const char *text);

/* FF_OK if items fit the option's type, range and choices; else FF_E_ARG with the message. */
ff_status ff_value_check(const ff_option *o, const char *map_name, const char *where, char *const *items,
                         int n, bool list);
/* Numbers of checked text. */
double ff_value_double(const char *text);
int64_t ff_value_int(const ff_option *o, const char *text);
bool ff_value_bool(const char *text);
bool ff_value_is_choice(const char *choices, const char *text); /* choices: "a|b", NULL: none */

#endif
