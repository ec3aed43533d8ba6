/* Options: table, sources and their order, messages, resolved deck, allocation failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ff_config.h"
#include "ff_json.h"
#include "ff_mem.h"

#include <stdlib.h>
#include <string.h>

/* Reads a deck (may be NULL) and a command line, as the program does. */
static ff_status load(unsigned verb, const char *deck_name, const char *deck, int n, char **args,
                      ff_config **out)
{
    ff_config *c = NULL;
    ff_error_clear();
    ff_status st = ff_config_create(verb, &c);
    if (st == FF_OK) st = ff_config_scan(c, n, args, verb == FF_VERB_BENCH ? "bench.kind" : "mesh");
    if (st == FF_OK && deck != NULL) st = ff_config_yaml(c, deck_name, deck, (int64_t)strlen(deck));
    if (st == FF_OK) st = ff_config_apply(c);
    if (st != FF_OK) ff_config_destroy(&c);
    *out = c;
    return st;
}

#define ARGS(...)                                                                                            \
    (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), (char *[])                                      \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

static void later_sources_win(void **state)
{
    (void)state;
    ff_config *c = NULL;
    const char *deck = "plan: {theta: 2, leaf_size: 8}\nlengths: {L: 1, M: 2}\nrun.memory: 2GiB\n";
    assert_int_equal(
        load(FF_VERB_PREDICT, "case.yaml", deck,
             ARGS("--theta", "4", "--set", "plan.theta=3", "--set", "leaf_size=16", "--set", "lengths.L=2.5"),
             &c),
        FF_OK);
    assert_true(ff_config_double(c, "plan.theta") == 4); /* flag over --set over deck, in any order */
    assert_int_equal(ff_config_int(c, "plan.leaf_size"), 16);
    assert_int_equal(ff_config_int(c, "run.memory"), (int64_t)2 << 30);
    assert_int_equal(ff_config_count(c, "lengths"), 2);
    assert_string_equal(ff_config_map_name(c, "lengths", 0), "L");
    assert_true(ff_config_map_item(c, "lengths", 0, 0) == 2.5);
    assert_true(ff_config_map_item(c, "lengths", ff_config_map_find(c, "lengths", "M"), 0) == 2);
    assert_int_equal(ff_config_map_find(c, "lengths", "N"), -1);
    assert_string_equal(ff_config_string(c, "run.backend"), "auto");
    assert_false(ff_config_given(c, "run.backend"));
    assert_false(ff_config_has(c, "plan.expand_far"));
    ff_config_destroy(&c);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void values_of_every_type(void **state)
{
    (void)state;
    ff_config *c = NULL;
    const char *deck = "global:\n  U_dir: [1, -2e-1, 0]\n  mach: 0.3\n  flow:\n    alpha.b: [7]\n"
                       "integrals.center: [1,2,3]\nwrite: {areas: yes}\nmax-hours: 1.5\n";
    assert_int_equal(
        load(FF_VERB_PREDICT, "d", deck,
             ARGS("--normals", "--no-areas", "--seed=7", "--memory", "1.5K", "--", "-odd.stl", "w=b.stl"),
             &c),
        FF_OK);
    assert_int_equal(ff_config_count(c, "global"), 3);
    assert_int_equal(ff_config_map_len(c, "global", 0), 3);
    assert_true(ff_config_map_item(c, "global", 0, 1) == -0.2);
    assert_true(ff_config_map_item(c, "global", ff_config_map_find(c, "global", "flow.alpha.b"), 0) == 7);
    assert_int_equal(ff_config_count(c, "integrals.center"), 3);
    assert_true(ff_config_item(c, "integrals.center", 2) == 3);
    assert_true(ff_config_bool(c, "write.normals"));
    assert_false(ff_config_bool(c, "write.areas"));
    assert_true(ff_config_double(c, "run.max_hours") == 1.5);
    assert_int_equal(ff_config_int(c, "run.seed"), 7);
    assert_int_equal(ff_config_int(c, "run.memory"), 1500);
    assert_int_equal(ff_config_count(c, "mesh"), 2);
    assert_string_equal(ff_config_file(c, "mesh", 0), "-odd.stl");
    ff_config_destroy(&c);

    assert_int_equal(load(FF_VERB_BENCH, NULL, NULL, ARGS("globe", "--case", "car:2", "--json"), &c), FF_OK);
    assert_string_equal(ff_config_string(c, "bench.kind"), "globe");
    assert_string_equal(ff_config_string(c, "write.json"), "-"); /* no name follows: standard output */
    ff_config_destroy(&c);
}

static void paths_of_a_deck_start_at_its_folder(void **state)
{
    (void)state;
    ff_config *c = NULL;
    const char *deck =
        "mesh: {body: a.stl, floor: /x/b.stl}\nmodel: m.h5\noutput: ../out.vtp\ntargets: points\n";
    assert_int_equal(load(FF_VERB_PREDICT, "dir/sub/case.yaml", deck, 0, NULL, &c), FF_OK);
    assert_string_equal(ff_config_file(c, "mesh", 0), "body=dir/sub/a.stl");
    assert_string_equal(ff_config_file(c, "mesh", 1), "floor=/x/b.stl");
    assert_string_equal(ff_config_string(c, "model"), "dir/sub/m.h5");
    assert_string_equal(ff_config_string(c, "output"), "dir/sub/../out.vtp");
    assert_string_equal(ff_config_string(c, "predict.targets"), "points"); /* a word, not a file */
    ff_config_destroy(&c);
    assert_int_equal(load(FF_VERB_PREDICT, "dir/case.yaml", deck, ARGS("z.stl", "--targets", "t.vtp"), &c),
                     FF_OK);
    assert_int_equal(ff_config_count(c, "mesh"), 1); /* files on the command line replace the deck's */
    assert_string_equal(ff_config_file(c, "mesh", 0), "z.stl");
    assert_string_equal(ff_config_string(c, "predict.targets"), "t.vtp");
    ff_config_destroy(&c);
    int n = 0;
    assert_string_equal(ff_config_split_name("body=a=b.stl", &n), "a=b.stl");
    assert_int_equal(n, 4);
    assert_string_equal(ff_config_split_name("./body=a.stl", &n), "./body=a.stl");
    assert_int_equal(n, 0);
    assert_string_equal(ff_config_split_name("wall/up=/dev/null", &n), "/dev/null");
    assert_int_equal(n, 7);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *deck, *arg, *value, *text;
    } row[] = {
        {NULL, "--theta", "-2", "command line: plan.theta = -2, expected theta >= 0"},
        {NULL, "--theta", "nan", "command line: plan.theta = nan, expected a finite number"},
        {NULL, "--theta", "2x", "command line: plan.theta = 2x, expected a finite number"},
        {NULL, "--leaf-size", "0", "command line: plan.leaf_size = 0, expected leaf_size in 1 .. 64"},
        {NULL, "--leaf-size", "65", "command line: plan.leaf_size = 65, expected leaf_size in 1 .. 64"},
        {NULL, "--leaf-size", "2.5", "command line: plan.leaf_size = 2.5, expected an integer"},
        {NULL, "--thteta", "2", "command line: unknown option \"--thteta\", nearest is \"--theta\""},
        {NULL, "--laef-size=2", NULL,
         "command line: unknown option \"--laef-size=2\", nearest is \"--leaf-size\""},
        {NULL, "--set", "plan.thteta=2", "--set: unknown key \"plan.thteta\", nearest is \"plan.theta\""},
        {NULL, "--set", "lengths=2",
         "--set: \"lengths\" has no value of its own, expected lengths.NAME = value"},
        {NULL, "--set", "lengths.L=0", "--set: lengths.L = 0, expected L > 0"},
        {NULL, "--set", "lengths.L=[1,2]", "--set: lengths.L = [1, 2], expected a single value, not a list"},
        {NULL, "--set", "theta", "command line: --set theta, expected --set key=value"},
        {NULL, "--backend", "gpu", "command line: run.backend = gpu, expected one of auto|cpu|cuda"},
        {NULL, "--memory", "2Gx",
         "command line: run.memory = 2Gx, expected a number of bytes such as 500M or 2GiB"},
        {NULL, "--ranks", "2", "command line: --ranks does not belong to this verb; see its --help"},
        {NULL, "-c", NULL, "command line: -c needs a value"},
        {"\n\nplan:\n  theta: -2\n", NULL, NULL, "c.yaml:4: plan.theta = -2, expected theta >= 0"},
        {"plan:\n  thteta: 2\n", NULL, NULL,
         "c.yaml:2: unknown key \"plan.thteta\", nearest is \"plan.theta\""},
        {"theta: [1, 2]\n", NULL, NULL, "c.yaml:1: plan.theta = [1, 2], expected a single value, not a list"},
        {"theta: {a: 2}\n", NULL, NULL, "c.yaml:1: unknown key \"theta.a\", nearest is \"plan.theta\""},
        {"theta: 1\ntheta: 2\n", NULL, NULL, "c.yaml:2: \"theta\" is given twice"},
        {"a: [1\nb: 2\n", NULL, NULL, "c.yaml:2: no valid YAML"},
        {"plan: &a\n  theta: *a\n", NULL, NULL, "c.yaml:1: nested too deep"},
        {"theta: 1\n---\ntheta: 2\n", NULL, NULL, "c.yaml:3: a second document, expected one"},
        {"- 1\n", NULL, NULL, "c.yaml:1: expected key: value lines"},
        {"areas: maybe\n", NULL, NULL, "c.yaml:1: write.areas = maybe, expected true or false"},
        {"integrals.center: [1, 2]\n", NULL, NULL, "c.yaml:1: integrals.center = [1, 2], expected 3 numbers"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        ff_config *c = NULL;
        char arg[64] = "", value[64] = "", *args[2] = {arg, value};
        if (row[i].arg != NULL) strcpy(arg, row[i].arg);
        if (row[i].value != NULL) strcpy(value, row[i].value);
        int n = row[i].arg == NULL ? 0 : row[i].value == NULL ? 1 : 2;
        ff_status st = load(FF_VERB_PREDICT, "c.yaml", row[i].deck, n, args, &c);
        assert_true(st == FF_E_ARG || st == FF_E_INPUT);
        assert_int_equal(ff_exit_code(st), 2);
        if (strncmp(ff_error_text(), row[i].text, strlen(row[i].text)) != 0)
            fail_msg("got \"%s\", expected \"%s\"", ff_error_text(), row[i].text);
        assert_null(c);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

/* What is printed says the same when it is read, and holds these parts. */
static void reads_back(unsigned verb, const char *deck, int n, char **args, const char *const parts[2])
{
    ff_config *a = NULL, *b = NULL;
    ff_text first = {0}, second = {0};
    assert_int_equal(load(verb, "c.yaml", deck, n, args, &a), FF_OK);
    ff_config_print(a, &first);
    assert_int_equal(ff_text_status(&first), FF_OK);
    assert_int_equal(load(verb, "resolved.yaml", first.s, 0, NULL, &b), FF_OK);
    ff_config_print(b, &second);
    assert_string_equal(first.s, second.s);
    for (int i = 0; i < 2; i++) assert_non_null(strstr(first.s, parts[i]));
    ff_text_free(&first);
    ff_text_free(&second);
    ff_config_destroy(&a);
    ff_config_destroy(&b);
    assert_int_equal(ff_mem_blocks(), 0);
}

static void the_resolved_deck_reads_back(void **state)
{
    (void)state;
    reads_back(FF_VERB_PREDICT,
               "mesh: ['a \"quoted\".stl', \"b\\\\c.stl\"]\nglobal: {U_dir: [1, 0, 1e-3], q.x: 2}\n"
               "lengths: {'L: odd': 3}\n",
               ARGS("--theta", "0.5", "--memory", "1GiB"),
               (const char *[]){"  theta: 0.5\n", "\"a \\\"quoted\\\".stl\""});
    reads_back(
        FF_VERB_TRAIN, "train: {loss_scale: {C_f: 0.01, 'a.b': 2}, faces: 7}\n", 0, NULL,
        (const char *[]){"  loss_scale:\n    \"C_f\": 0.01\n    \"a.b\": 2\n  faces: 7\n", "\ntrain:\n"});
}

/* Every leaf of a key names one option of each verb: else a flag would be ambiguous. */
static void flags_are_unambiguous(void **state)
{
    (void)state;
    for (int i = 0; i < ff_n_options; i++)
        for (int j = 0; j < i; j++) {
            const char *a = strrchr(ff_options[i].key, '.'), *b = strrchr(ff_options[j].key, '.');
            a = a != NULL ? a + 1 : ff_options[i].key;
            b = b != NULL ? b + 1 : ff_options[j].key;
            bool both = (ff_options[i].verbs & ff_options[j].verbs) != 0;
            if (both && strcmp(a, b) == 0) fail_msg("%s and %s", ff_options[i].key, ff_options[j].key);
        }
}

static void distances(void **state)
{
    (void)state;
    assert_int_equal(ff_edit_distance("", "abc"), 3);
    assert_int_equal(ff_edit_distance("theta", "theta"), 0);
    assert_int_equal(ff_edit_distance("thteta", "theta"), 1);
    assert_int_equal(ff_edit_distance("thtea", "theta"), 1); /* neighbours swapped */
    assert_int_equal(ff_edit_distance("kitten", "sitting"), 3);
}

static void json_is_json(void **state)
{
    (void)state;
    ff_json j = {0};
    ff_json_open(&j, NULL, '{');
    ff_json_string(&j, "a\"b", "line\nnext\\");
    ff_json_int(&j, "n", INT64_MAX);
    ff_json_open(&j, "list", '[');
    ff_json_double(&j, NULL, 0.1);
    ff_json_double(&j, NULL, strtod("inf", NULL));
    ff_json_close(&j);
    ff_json_open(&j, "none", '{');
    ff_json_close(&j);
    ff_json_bool(&j, "yes", true);
    ff_json_close(&j);
    assert_string_equal(ff_text_get(&j.text),
                        "{\n  \"a\\\"b\": \"line\\u000anext\\\\\",\n  \"n\": 9223372036854775807,\n"
                        "  \"list\": [0.10000000000000001, null],\n  \"none\": {},\n  \"yes\": true\n}\n");
    ff_json_free(&j);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    const char *deck = "mesh: {body: a.stl}\nglobal: {U: [1, 2]}\nplan: {theta: 2}\n";
    int64_t n = 0;
    bool fired = true;
    while (fired) {
        ff_config *c = NULL;
        ff_text t = {0};
        ff_mem_fail_at(++n);
        ff_status st =
            load(FF_VERB_PREDICT, "d/c.yaml", deck, ARGS("x.stl", "y.stl", "--set", "lengths.L=1"), &c);
        if (st == FF_OK) ff_config_print(c, &t);
        if (st == FF_OK) st = ff_text_status(&t);
        fired = ff_mem_fault_hit();
        ff_mem_fail_at(0);
        assert_int_equal(st, fired ? FF_E_MEM : FF_OK);
        ff_text_free(&t);
        ff_config_destroy(&c);
        assert_int_equal(ff_mem_blocks(), 0);
    }
    print_message("%lld allocations failed in turn\n", (long long)n - 1);
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_sources_win),
        cmocka_unit_test(values_of_every_type),
        cmocka_unit_test(paths_of_a_deck_start_at_its_folder),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(the_resolved_deck_reads_back),
        cmocka_unit_test(flags_are_unambiguous),
        cmocka_unit_test(distances),
        cmocka_unit_test(json_is_json),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
