/* Everything that is printed from the option table: the resolved deck, --help, docs/config.md, the man page.
 */
#include "ff_config_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- resolved deck ---- */

/* Text that YAML would take for something else, or that needs care, goes in quotes. */
static void put_scalar(ff_text *t, const ff_option *o, const char *s)
{
    bool text = o->type == FF_OPT_STRING || o->type == FF_OPT_PATH || o->type == FF_OPT_FILES;
    if (!text) {
        ff_text_add(t, "%s", s);
        return;
    }
    ff_text_put(t, "\"", 1);
    for (; *s != 0; s++) {
        if (*s == '"' || *s == '\\') ff_text_put(t, "\\", 1);
        if ((unsigned char)*s < 0x20)
            ff_text_add(t, "\\x%02x", (unsigned char)*s);
        else
            ff_text_put(t, s, 1);
    }
    ff_text_put(t, "\"", 1);
}

static void put_value(ff_text *t, const ff_option *o, const ff_value *v)
{
    bool list = v->n > 1 || o->type == FF_OPT_FILES || o->type == FF_OPT_VECTOR;
    if (list) ff_text_add(t, "[");
    for (int i = 0; i < v->n; i++) {
        if (i > 0) ff_text_add(t, ", ");
        put_scalar(t, o, v->item[i]);
    }
    ff_text_add(t, "%s\n", list ? "]" : "");
}

static size_t group_len(const ff_option *o)
{
    return (size_t)(ff_option_leaf(o) - o->key);
}

/* The line of the option's group, unless it is the open one, and what its own line begins with. */
static const char *open_group(const ff_option *o, const ff_option **open, ff_text *out)
{
    size_t n = group_len(o);
    bool same = *open != NULL && group_len(*open) == n && strncmp((*open)->key, o->key, n) == 0;
    if (n > 0 && !same) ff_text_add(out, "%.*s:\n", (int)n - 1, o->key);
    *open = n > 0 ? o : NULL;
    return n > 0 ? "  " : "";
}

static void print_maps(const ff_config *c, int option, const ff_option **open, ff_text *out)
{
    const ff_option *o = &ff_options[option], name = {.key = "", .type = FF_OPT_STRING};
    const char *indent = NULL;
    for (int64_t i = 0; i < c->n_map; i++) {
        if (c->map[i].option != option) continue;
        if (indent == NULL) {
            indent = open_group(o, open, out);
            ff_text_add(out, "%s%s:\n", indent, ff_option_leaf(o));
        }
        ff_text_add(out, "%s  ", indent);
        put_scalar(out, &name, c->map[i].name);
        ff_text_add(out, ": ");
        put_value(out, o, &c->map[i].v);
    }
}

void ff_config_print(const ff_config *c, ff_text *out)
{
    const ff_option *group = NULL; /* option whose group is open */
    for (int i = 0; i < ff_n_options; i++) {
        const ff_option *o = &ff_options[i];
        if ((o->verbs & c->verb) == 0) continue;
        if (o->type == FF_OPT_MAP) {
            print_maps(c, i, &group, out);
            continue;
        }
        if (c->value[i].n == 0) continue;
        const char *indent = open_group(o, &group, out);
        ff_text_add(out, "%s%s: ", indent, ff_option_leaf(o));
        put_value(out, o, &c->value[i]);
    }
}

/* ---- help ---- */

static const char *kind_name(const ff_option *o)
{
    switch (o->type) {
    case FF_OPT_BOOL:
        return "bool";
    case FF_OPT_INT:
        return "integer";
    case FF_OPT_BYTES:
        return "bytes";
    case FF_OPT_DOUBLE:
        return "number";
    case FF_OPT_STRING:
        return "text";
    case FF_OPT_PATH:
        return "file";
    case FF_OPT_ENUM:
        return "choice";
    case FF_OPT_VECTOR:
        return "vector";
    case FF_OPT_FILES:
        return "files";
    case FF_OPT_MAP:
        break;
    }
    return o->n_items == 1 ? "number by name" : "number or vector by name";
}

/* "--leaf-size" */
static void put_long(ff_text *t, const ff_option *o)
{
    ff_text_add(t, "--");
    for (const char *p = ff_option_leaf(o); *p != 0; p++) ff_text_add(t, "%c", *p == '_' ? '-' : *p);
}

/* "--leaf-size INTEGER", "--force", "--set lengths.NAME=NUMBER". */
static void put_flag(ff_text *t, const ff_option *o)
{
    static const char *const place[] = {"",      " N",      " BYTES", " X",    " TEXT",
                                        " FILE", " CHOICE", " X,X,X", " FILE", ""};
    if (o->type == FF_OPT_MAP) {
        ff_text_add(t, "--set %s.NAME=%s", o->key, o->n_items == 1 ? "X" : "X or [X,X,X]");
        return;
    }
    if (o->letter != 0) ff_text_add(t, "-%c, ", o->letter);
    put_long(t, o);
    if (o->type == FF_OPT_ENUM)
        ff_text_add(t, " %s", o->choices);
    else if (o->choices != NULL)
        ff_text_add(t, " %s|FILE", o->choices);
    else
        ff_text_add(t, o->bare != NULL ? " [FILE]" : "%s", place[o->type]);
}

/* "theta >= 0, default 1, m" */
static void put_facts(ff_text *t, const ff_option *o)
{
    const char *link = "";
    if (o->range != NULL) {
        ff_text_add(t, "%s", o->range);
        link = ", ";
    }
    if (o->unit != NULL) {
        ff_text_add(t, "%s%s", link, o->unit);
        link = ", ";
    }
    if (o->value != NULL) ff_text_add(t, "%sdefault %s", link, o->value);
}

/* Adds s broken into lines of at most width characters, each after the first indented. */
static void put_wrapped(ff_text *t, const char *s, int indent, int width)
{
    while ((int)strlen(s) > width) {
        int cut = width;
        while (cut > 0 && s[cut] != ' ') cut--;
        if (cut == 0) cut = width;
        ff_text_add(t, "%.*s\n%*s", cut, s, indent, "");
        s += cut;
        while (*s == ' ') s++;
    }
    ff_text_add(t, "%s\n", s);
}

static void put_option_help(ff_text *t, const ff_option *o)
{
    ff_text flag = {0}, facts = {0};
    put_flag(&flag, o);
    put_facts(&facts, o);
    ff_text_add(t, "  %s", ff_text_get(&flag));
    if (facts.n > 0) ff_text_add(t, "   (%s)", ff_text_get(&facts));
    ff_text_add(t, "\n        ");
    put_wrapped(t, o->help, 8, 92);
    ff_text_free(&flag);
    ff_text_free(&facts);
}

static void put_option_group(ff_text *t, unsigned verb, bool common)
{
    for (int i = 0; i < ff_n_options; i++) {
        const ff_option *o = &ff_options[i];
        bool is_common = strncmp(o->key, "run.", 4) == 0 || strcmp(o->key, "write.force") == 0;
        if ((o->verbs & verb) != 0 && is_common == common) put_option_help(t, o);
    }
}

void ff_doc_verb(const ff_verb_text *v, ff_text *out)
{
    ff_text_add(out, "usage: farfield %s %s [-c case.yaml] [--set key=value ...] [options]\n\n", v->name,
                v->args);
    put_wrapped(out, v->text, 0, 100);
    ff_text_add(out, "\noptions of %s\n", v->name);
    put_option_group(out, v->bit, false);
    ff_text_add(out, "\ncommon options\n");
    ff_text_add(out, "  -c, --deck FILE\n        Deck (YAML) of options; docs/config.md lists every key.\n");
    ff_text_add(out, "  --set KEY=VALUE\n        Set one key; overrides the deck, flags override it.\n");
    put_option_group(out, v->bit, true);
}

void ff_doc_program(const ff_verb_text *const *verbs, int n, ff_text *out)
{
    ff_text_add(
        out,
        "usage: farfield VERB [files] [-c case.yaml] [--set key=value ...] [options]\n\n"
        "Evaluates GLOBE, a neural Green's-function surrogate, on surface meshes, alone or under mpirun\n"
        "with any number of ranks.\n\nverbs\n");
    for (int i = 0; i < n; i++) ff_text_add(out, "  %-9s %s\n", verbs[i]->name, verbs[i]->summary);
    ff_text_add(
        out,
        "\nfarfield VERB --help lists a verb's options; farfield --version prints the version.\n"
        "Exit codes: 0 done; 1 failure while running, or a check that found differences; 2 wrong usage or\n"
        "input; 3 stopped early with a valid checkpoint.\n");
}

/* ---- docs/config.md ---- */

static void put_verbs(ff_text *t, const ff_option *o, const ff_verb_text *const *verbs, int n)
{
    const char *link = "";
    if (o->verbs == FF_VERB_ALL) {
        ff_text_add(t, "all");
        return;
    }
    for (int i = 0; i < n; i++) {
        if ((o->verbs & verbs[i]->bit) == 0) continue;
        ff_text_add(t, "%s%s", link, verbs[i]->name);
        link = ", ";
    }
}

/* '|' would end a cell of a table. */
static void put_cell(ff_text *t, const char *s)
{
    for (; *s != 0; s++) ff_text_add(t, *s == '|' ? "\\%c" : "%c", *s);
}

void ff_doc_markdown(const ff_verb_text *const *verbs, int n, ff_text *out)
{
    ff_text_add(
        out,
        "# Options\n\n"
        "<!-- Printed by `farfield help --markdown`; a test compares. Do not edit: change the table in "
        "src/base/ff_config_table.c. -->\n\n"
        "Every option has one key. It is set, later sources winning, by its default, by the deck (`-c "
        "case.yaml`), by `--set key=value`, and by its flag. The flag is the last part of the key with `-` "
        "for `_`; in a deck and in `--set` the last part alone names the option too. Names of files in a "
        "deck are relative to the deck's folder. Files on the command line set `mesh` (predict, plan, "
        "check) or `file` (info, convert, verify). What a run ended up with is stored in its result as a "
        "deck.\n\n"
        "    mesh: {body: body.stl}        # or a list, or files on the command line: body=body.stl\n"
        "    model: flow.h5\n"
        "    output: result.vtkhdf\n"
        "    lengths: {L: 1.0}\n"
        "    global: {U_dir: [1, 0, 0]}\n"
        "    plan: {theta: 1}\n"
        "    run: {threads: 2, memory: 2GiB}\n\n"
        "| key | flag | type | range, unit, default | verbs | meaning |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < ff_n_options; i++) {
        const ff_option *o = &ff_options[i];
        ff_text flag = {0}, facts = {0};
        put_flag(&flag, o);
        put_facts(&facts, o);
        ff_text_add(out, "| `%s%s` | `", o->key, o->type == FF_OPT_MAP ? ".NAME" : "");
        put_cell(out, ff_text_get(&flag));
        ff_text_add(out, "` | %s | %s | ", kind_name(o), ff_text_get(&facts));
        put_verbs(out, o, verbs, n);
        ff_text_add(out, " | ");
        put_cell(out, o->help);
        ff_text_add(out, " |\n");
        ff_text_free(&flag);
        ff_text_free(&facts);
    }
    ff_text_add(out, "\nVerbs\n\n");
    for (int i = 0; i < n; i++)
        ff_text_add(out, "- `farfield %s %s`: %s\n", verbs[i]->name, verbs[i]->args, verbs[i]->text);
}

/* ---- farfield.1 ---- */

/* roff takes '-' for a hyphen, '\' for an escape and a leading '.' or ''' for a request. */
static void put_roff(ff_text *t, const char *s)
{
    if (*s == '.' || *s == '\'') ff_text_add(t, "\\&");
    for (; *s != 0; s++) {
        if (*s == '-' || *s == '\\')
            ff_text_add(t, *s == '-' ? "\\-" : "\\e");
        else
            ff_text_put(t, s, 1);
    }
}

static void put_man_option(ff_text *t, const ff_option *o)
{
    ff_text flag = {0}, facts = {0};
    put_flag(&flag, o);
    put_facts(&facts, o);
    ff_text_add(t, ".TP\n.B ");
    put_roff(t, ff_text_get(&flag));
    ff_text_add(t, "\nKey ");
    put_roff(t, o->key);
    if (facts.n > 0) ff_text_add(t, " (");
    put_roff(t, ff_text_get(&facts));
    ff_text_add(t, "%s. ", facts.n > 0 ? ")" : "");
    put_roff(t, o->help);
    ff_text_add(t, "\n");
    ff_text_free(&flag);
    ff_text_free(&facts);
}

void ff_doc_man(const ff_verb_text *const *verbs, int n, ff_text *out)
{
    ff_text_add(
        out, ".TH FARFIELD 1 \"\" \"farfield\" \"User commands\"\n.SH NAME\n"
             "farfield \\- neural Green's\\-function surrogate on surface meshes\n.SH SYNOPSIS\n.B farfield\n"
             ".I VERB\n[files] [\\-c case.yaml] [\\-\\-set key=value ...] [options]\n.SH VERBS\n");
    for (int i = 0; i < n; i++) {
        ff_text_add(out, ".TP\n.B %s ", verbs[i]->name);
        put_roff(out, verbs[i]->args);
        ff_text_add(out, "\n");
        put_roff(out, verbs[i]->text);
        ff_text_add(out, "\n");
    }
    ff_text_add(out, ".SH OPTIONS\n.TP\n.B \\-c, \\-\\-deck FILE\nDeck (YAML) with any of the keys below.\n"
                     ".TP\n.B \\-\\-set KEY=VALUE\nSet one key; overrides the deck.\n");
    for (int i = 0; i < ff_n_options; i++) put_man_option(out, &ff_options[i]);
    ff_text_add(
        out, ".SH EXIT STATUS\n0 done; 1 failure while running, or a check that found differences; 2 wrong "
             "usage or input; 3 stopped early with a valid checkpoint.\n");
}

/* ---- completion ---- */

/* "auto|cpu|cuda" as words. */
static void put_words(ff_text *t, const char *choices)
{
    for (; *choices != 0; choices++) ff_text_add(t, "%c", *choices == '|' ? ' ' : *choices);
}

/* The case of one verb: its flags, and the words that may follow some of them. */
static void put_completion(ff_text *t, const ff_verb_text *verb)
{
    ff_text_add(t, "    %s)\n        flags=\"-c --deck --set --help", verb->name);
    for (int i = 0; i < ff_n_options; i++) {
        if ((ff_options[i].verbs & verb->bit) == 0 || ff_options[i].type == FF_OPT_MAP) continue;
        ff_text_add(t, " ");
        put_long(t, &ff_options[i]);
    }
    ff_text_add(t, "\"\n        case $before in\n");
    for (int i = 0; i < ff_n_options; i++) {
        if ((ff_options[i].verbs & verb->bit) == 0 || ff_options[i].type != FF_OPT_ENUM) continue;
        ff_text_add(t, "        ");
        put_long(t, &ff_options[i]);
        ff_text_add(t, ") words=\"");
        put_words(t, ff_options[i].choices);
        ff_text_add(t, "\" ;;\n");
    }
    ff_text_add(t, "        esac\n        ;;\n");
}

void ff_doc_completion(const ff_verb_text *const *verbs, int n, ff_text *out)
{
    ff_text_add(out,
                "# Completion of farfield in bash. Printed by `farfield help --completion`; do not edit.\n"
                "_farfield() {\n    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}"
                " flags='' words=''\n    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < n; i++) put_completion(out, verbs[i]);
    ff_text_add(
        out, "    esac\n    if [ \"$COMP_CWORD\" -eq 1 ] || [ \"$before\" = help ]; then\n        words=\"");
    for (int i = 0; i < n; i++) ff_text_add(out, "%s ", verbs[i]->name);
    ff_text_add(out,
                "help --help --version\"\n    elif [[ $word == -* ]]; then\n        words=$flags\n    fi\n"
                "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\n"
                "complete -o default -F _farfield farfield\n");
}
