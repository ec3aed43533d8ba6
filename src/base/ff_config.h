/* Typed options: one table gives the parser, --help, docs/config.md, the man page and the resolved deck.
 *
 * A key is dotted (plan.theta). Its flag is the last part with '-' for '_' (--theta, --leaf-size), and the
 * last part alone also names it in a deck or in --set; --plan.theta works too. Flags of type bool take no
 * value; --no-NAME says false. Sources, later ones win: default < deck (-c case.yaml) < --set key=value <
 * flags and files. Names of files in a deck are relative to the deck's folder. Every value remembers where it
 * came from, so that each error can say so. All functions are Local. */
#ifndef FF_CONFIG_H
#define FF_CONFIG_H

#include "ff_text.h"

#include <stdbool.h>

typedef enum ff_opt_type {
    FF_OPT_BOOL,
    FF_OPT_INT,    /* int64 */
    FF_OPT_BYTES,  /* int64 with a suffix: K, M, G (powers of 1000), KiB, MiB, GiB (powers of 1024), B */
    FF_OPT_DOUBLE, /* finite */
    FF_OPT_STRING,
    FF_OPT_PATH, /* a string; relative to the deck if it comes from one, unless it is one of choices or "-" */
    FF_OPT_ENUM, /* one of choices */
    FF_OPT_VECTOR, /* list of doubles: [1, 0, 0] */
    FF_OPT_FILES,  /* list of paths or name=path; a deck may also write a mapping name: path */
    FF_OPT_MAP     /* key.NAME = double or list of doubles, any NAME (which may contain dots) */
} ff_opt_type;

/* Bits of ff_option.verbs. */
enum {
    FF_VERB_PREDICT = 1,
    FF_VERB_PLAN = 2,
    FF_VERB_CHECK = 4,
    FF_VERB_INFO = 8,
    FF_VERB_CONVERT = 16,
    FF_VERB_VERIFY = 32,
    FF_VERB_BENCH = 64,
    FF_VERB_FORCES = 128,
    FF_VERB_EMBED = 256,
    FF_VERB_TRAIN = 512,
    FF_VERB_GRADIENT = 1024,
    FF_VERB_SUM = 2048,
    FF_VERB_ALL = 4095
};

typedef struct ff_option {
    const char *key;
    ff_opt_type type;
    char letter;         /* short flag, 0: none */
    const char *value;   /* default as a deck would write it; NULL: unset */
    const char *range;   /* of each number: ">= 0", "> 0", "1 .. 64"; NULL: any. VECTOR: see n_items */
    int n_items;         /* VECTOR, MAP: number of items asked for, 0: any (at least 1) */
    const char *choices; /* ENUM (and words a PATH may be): "auto|cpu|cuda" */
    const char *unit;    /* as printed in the help, NULL: none */
    const char *bare;    /* value of the flag when nothing, or another flag, follows; NULL: one must follow */
    unsigned verbs;      /* FF_VERB_* it belongs to */
    const char *help;
} ff_option;

extern const ff_option ff_options[];
extern const int ff_n_options;

/* What the doc functions need to know of a verb; the program's table of verbs begins each row with it. */
typedef struct ff_verb_text {
    unsigned bit; /* FF_VERB_* */
    const char *name;
    const char *args;    /* "MESH... -m MODEL -o OUT" */
    const char *summary; /* one line */
    const char *text;    /* a paragraph for --help */
} ff_verb_text;

typedef struct ff_config ff_config;

/* All options at their defaults, to be read for one verb. */
ff_status ff_config_create(unsigned verb, ff_config **out);
void ff_config_destroy(ff_config **c);

/* Reads the command line after the verb, in three steps so that the caller may fetch the deck in between:
 *   1 ff_config_scan   checks the form of every argument, finds the deck and --help
 *   2 ff_config_yaml   sets what the deck says (text [n] of a file called name)
 *   3 ff_config_apply  sets what --set, then flags and files say; files go to the option files_key
 * args is borrowed until ff_config_destroy.
 * Errors: FF_E_ARG, FF_E_INPUT with place, key, value, what was expected, the nearest name. */
ff_status ff_config_scan(ff_config *c, int n_args, char *const *args, const char *files_key);
const char *ff_config_deck(const ff_config *c); /* NULL: none was given */
bool ff_config_want_help(const ff_config *c);
ff_status ff_config_yaml(ff_config *c, const char *name, const char *text, int64_t n);
ff_status ff_config_apply(ff_config *c);

/* One assignment, as if from a source called where ("deck.yaml:3", "test"). value: as --set takes it. */
ff_status ff_config_set(ff_config *c, const char *where, const char *key, const char *value);

/* ---- reading. key is the full key of the table; a wrong key or type is a bug of the caller (assert). ----
 */
bool ff_config_has(const ff_config *c, const char *key);           /* a value, default included */
bool ff_config_given(const ff_config *c, const char *key);         /* by the user, not by default */
bool ff_config_bool(const ff_config *c, const char *key);          /* false if unset */
int64_t ff_config_int(const ff_config *c, const char *key);        /* INT, BYTES; 0 if unset */
double ff_config_double(const ff_config *c, const char *key);      /* 0 if unset */
const char *ff_config_string(const ff_config *c, const char *key); /* STRING, PATH, ENUM; NULL if unset */
int ff_config_count(const ff_config *c, const char *key); /* FILES: files; VECTOR: items; MAP: names */
const char *ff_config_file(const ff_config *c, const char *key, int i);
double ff_config_item(const ff_config *c, const char *key, int i); /* VECTOR */
const char *ff_config_map_name(const ff_config *c, const char *key,
                               int i); /* MAP, in order of first mention */
int ff_config_map_find(const ff_config *c, const char *key, const char *name); /* -1: absent */
int ff_config_map_len(const ff_config *c, const char *key, int i);
double ff_config_map_item(const ff_config *c, const char *key, int i, int k);

/* FF_E_ARG `where: key = value, expected what`, for conditions the table cannot express. */
ff_status ff_config_bad(const ff_config *c, const char *key, const char *expected);
/* FF_E_ARG naming key and flag if it has no value. */
ff_status ff_config_need(const ff_config *c, const char *key);

/* Splits "name=path": *name_len characters of arg are the name (0: none), the path follows. With a '/' before '=' all
 * of it is a path, unless no such file is there but one named by what follows the '=': a name may have a '/' too. */
const char *ff_config_split_name(const char *arg, int *name_len);

/* ---- text made from the table ---- */
/* Every option of the verb that has a value, as a deck that gives the same run when read again. */
void ff_config_print(const ff_config *c, ff_text *out);
void ff_doc_program(const ff_verb_text *const *verbs, int n_verbs, ff_text *out);  /* farfield --help */
void ff_doc_verb(const ff_verb_text *verb, ff_text *out);                          /* farfield VERB --help */
void ff_doc_markdown(const ff_verb_text *const *verbs, int n_verbs, ff_text *out); /* docs/config.md */
void ff_doc_man(const ff_verb_text *const *verbs, int n_verbs, ff_text *out);      /* farfield.1 */
void ff_doc_completion(const ff_verb_text *const *verbs, int n_verbs, ff_text *out); /* farfield.bash */
/* Edit distance (insert, delete, replace, swap of neighbours), for "nearest is ...". */
int ff_edit_distance(const char *a, const char *b);

#endif
