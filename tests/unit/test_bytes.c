/* Lines, runs of bytes, gzip, and numbers read independently of the locale. */
#include "ff_test_mesh.h"

#include "ff_rng.h"

#include <locale.h>
#include <math.h>
#include <sys/stat.h>
#include <zlib.h>

enum { SEED = 2024 };

static ff_bytes *open_text(const void *text, size_t n)
{
    ff_bytes *b = NULL;
    ff_error_clear();
    assert_int_equal(ff_bytes_open_memory("mem", text, n, &b), FF_OK);
    return b;
}

static void expect_line(ff_bytes *b, const char *want)
{
    char *line;
    size_t len;
    assert_int_equal(ff_bytes_line(b, &line, &len), FF_OK);
    if (want == NULL) {
        assert_null(line);
    } else {
        assert_string_equal(line, want);
        assert_int_equal(len, strlen(want));
    }
}

static void lines_end_in_lf_or_crlf_or_not_at_all(void **state)
{
    (void)state;
    static const char text[] = "\xEF\xBB\xBF"
                               "one\r\n\ntwo \r three\n\r\nlast";
    ff_bytes *b = open_text(text, sizeof text - 1);
    assert_int_equal(ff_bytes_size(b), sizeof text - 1);
    expect_line(b, "one");
    expect_line(b, "");
    expect_line(b, "two \r three");
    expect_line(b, "");
    expect_line(b, "last");
    assert_int_equal(ff_bytes_line_no(b), 5);
    expect_line(b, NULL);
    expect_line(b, NULL);
    ff_bytes_close(&b);
    b = open_text("", 0);
    expect_line(b, NULL);
    ff_bytes_close(&b);
}

static void a_line_may_be_longer_than_any_buffer(void **state)
{
    (void)state;
    size_t n = 3000000;
    char *text = ff_mem_alloc(n + 4, 1), *line;
    size_t len;
    memset(text, 'x', n);
    memcpy(text + n, "\nab\n", 4);
    ff_bytes *b = open_text(text, n + 4);
    assert_int_equal(ff_bytes_line(b, &line, &len), FF_OK);
    assert_int_equal(len, n);
    assert_int_equal(line[n - 1], 'x');
    expect_line(b, "ab");
    expect_line(b, NULL);
    ff_bytes_close(&b);
    ff_free(text);
}

static void a_nul_byte_in_text_is_refused_with_its_line(void **state)
{
    (void)state;
    char *line;
    size_t len;
    ff_bytes *b = open_text("good\nb\0d\n", 9);
    expect_line(b, "good");
    ff_test_refused(ff_bytes_line(b, &line, &len), "mem: line 2: a NUL byte");
    ff_bytes_close(&b);
}

static void lines_and_bytes_mix(void **state)
{
    (void)state;
    const unsigned char *p;
    size_t got;
    ff_bytes *b = open_text("head\n\0\1\2\3tail", 13);
    expect_line(b, "head");
    assert_int_equal(ff_bytes_peek(b, 2, &p, &got), FF_OK);
    assert_int_equal(got, 2);
    assert_int_equal(ff_bytes_take(b, 3, &p), FF_OK);
    assert_int_equal(p[2], 2);
    assert_int_equal(ff_bytes_skip(b, 1), FF_OK);
    assert_int_equal(ff_bytes_take(b, 5, &p), FF_OK); /* only 4 are left */
    assert_null(p);
    expect_line(b, "tail");
    ff_test_refused(ff_bytes_skip(b, 1), "ends 1 bytes early");
    ff_bytes_close(&b);
}

static void write_gz(const char *path, const char *text)
{
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(f), Z_OK);
}

static void gzip_is_told_apart_by_content(void **state)
{
    (void)state;
    ff_bytes *b = NULL;
    write_gz("bytes_a.txt", "one\ntwo\n");
    assert_int_equal(ff_bytes_open("bytes_a.txt", &b), FF_OK);
    assert_int_equal(ff_bytes_size(b), -1);
    expect_line(b, "one");
    expect_line(b, "two");
    expect_line(b, NULL);
    ff_bytes_close(&b);
    ff_test_write("bytes_b.gz", "plain\nrest", 10);
    assert_int_equal(ff_bytes_open("bytes_b.gz", &b), FF_OK);
    assert_int_equal(ff_bytes_size(b), 10);
    expect_line(b, "plain");
    assert_int_equal(ff_bytes_skip(b, 3), FF_OK);
    expect_line(b, "t");
    ff_bytes_close(&b);
}

/* Every proper beginning of a gzip file must be refused, or give nothing at all if not even its mark is
 * there. */
static void a_cut_gzip_file_is_refused(void **state)
{
    (void)state;
    unsigned char data[256];
    write_gz("bytes_a.gz", "one\ntwo\nthree\n");
    FILE *f = fopen("bytes_a.gz", "rb");
    assert_non_null(f);
    size_t n = fread(data, 1, sizeof data, f);
    (void)fclose(f);
    assert_true(n > 20 && n < sizeof data);
    for (size_t cut = 10; cut < n; cut++) {
        ff_bytes *b = NULL;
        char *line;
        size_t len;
        ff_status st = FF_OK;
        ff_test_write("bytes_cut.gz", data, cut);
        ff_error_clear();
        assert_int_equal(ff_bytes_open("bytes_cut.gz", &b), FF_OK);
        do st = ff_bytes_line(b, &line, &len);
        while (st == FF_OK && line != NULL);
        ff_test_refused(st, "gzip data broken");
        ff_bytes_close(&b);
    }
    data[n / 2] ^= 0x55;
    ff_test_write("bytes_cut.gz", data, n);
    ff_bytes *b = NULL;
    char *line;
    size_t len;
    ff_status st;
    ff_error_clear();
    assert_int_equal(ff_bytes_open("bytes_cut.gz", &b), FF_OK);
    do st = ff_bytes_line(b, &line, &len);
    while (st == FF_OK && line != NULL);
    ff_test_refused(st, "gzip data broken");
    ff_bytes_close(&b);
}

static void what_cannot_be_opened_says_why(void **state)
{
    (void)state;
    ff_bytes *b = NULL;
    ff_error_clear();
    ff_test_refused(ff_bytes_open("no_such_file", &b), "no_such_file: cannot be opened: No such file");
    assert_null(b);
    ff_error_clear();
    ff_test_refused(ff_bytes_open(".", &b), ".: is a folder");
    assert_null(b);
    ff_error_clear();
    ff_test_refused(ff_bytes_open("/dev/null", &b), "/dev/null: is a pipe or device");
    assert_null(b);
}

static void same_double(const char *text)
{
    char buf[64];
    double got = -1, want = strtod(text, NULL);
    (void)snprintf(buf, sizeof buf, "%s tail", text);
    if (!ff_word_double(buf, strlen(text), &got)) fail_msg("\"%s\" is no number", text);
    if (memcmp(&got, &want, sizeof got) != 0) fail_msg("\"%s\": %.17g, expected %.17g", text, got, want);
}

static void numbers_are_those_of_strtod(void **state)
{
    (void)state;
    static const char *const cases[] = {"0",
                                        "-0",
                                        "+0.0",
                                        "1",
                                        "1.",
                                        ".5",
                                        "-.5e3",
                                        "1E5",
                                        "1e+05",
                                        "1e-005",
                                        "3E-014",
                                        "007.50",
                                        "1e22",
                                        "1e23",
                                        "1e-22",
                                        "1e-23",
                                        "4.9e-324",
                                        "2.4e-324",
                                        "1e308",
                                        "1.8e308",
                                        "1e99999999",
                                        "1e-9999999",
                                        "0e999999",
                                        "5e-324",
                                        "123456789012345678901234567890",
                                        "0.1234567890123456789012345678901234",
                                        "9007199254740992",
                                        "9007199254740993",
                                        "9007199254740993.0000000000000001"};
    printf("seed %d\n", SEED);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) same_double(cases[i]);
    static const char *const formats[] = {"%.17g", "%.9g", "%g", "%.6f", "%.12e", "%.16f", "%.3f"};
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t bits = ff_rng_u64(SEED, 0, i);
        double x;
        char text[64];
        memcpy(&x, &bits, sizeof x);
        if (i % 2 == 1)
            x = (ff_rng_uniform(SEED, 1, i) - 0.5) * pow(10, (double)(i % 13) - 5); /* usual sizes */
        if (!isfinite(x) || (fabs(x) > 1e15 && i % 7 > 2)) continue; /* %f of these would not fit text */
        (void)snprintf(text, sizeof text, formats[i % 7], x);
        same_double(text);
    }
}

static void what_is_no_number_is_told_apart(void **state)
{
    (void)state;
    static const char *const bad[] = {"",       "+",    "-",      ".",       "e5",  "1e",
                                      "1e+",    "0x10", "1.2.3",  "1,5",     "1d5", "--1",
                                      "nan(1)", "inff", "1.#INF", "infinit", "1_0", "\xD9\xA1"};
    double x;
    int64_t n;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (ff_word_double(bad[i], strlen(bad[i]), &x)) fail_msg("\"%s\" was taken for %g", bad[i], x);
    assert_true(ff_word_double("-NaN", 4, &x) && isnan(x));
    assert_true(ff_word_double("Inf", 3, &x) && isinf(x));
    assert_true(ff_word_double("-infinity", 9, &x) && isinf(x));
    assert_true(ff_word_i64("-42", 3, &n) && n == -42);
    assert_true(ff_word_i64("+7", 2, &n) && n == 7);
    assert_true(ff_word_i64("999999999999999999", 18, &n) && n == 999999999999999999);
    assert_false(ff_word_i64("", 0, &n) || ff_word_i64("-", 1, &n) || ff_word_i64("1.0", 3, &n) ||
                 ff_word_i64("1a", 2, &n) || ff_word_i64("9999999999999999999", 19, &n));
}

static void the_locale_does_not_matter(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char *set = NULL;
    for (size_t i = 0; i < 4 && set == NULL; i++) set = setlocale(LC_ALL, names[i]);
    if (set == NULL) print_message("no locale with a decimal comma here: tested in the C locale only\n");
    double x;
    assert_true(ff_word_double("1.5", 3, &x) && x == 1.5);
    assert_true(ff_word_double("0.12345678901234567890123", 25, &x) && x > 0.1234 && x < 0.1235);
    (void)setlocale(LC_ALL, "C");
}

static void words_are_shown_without_control_characters(void **state)
{
    (void)state;
    assert_string_equal(ff_show("a\x1b[31m\n", 7).s, "a?[31m?");
    char longer[100];
    memset(longer, 'y', sizeof longer);
    assert_int_equal(strlen(ff_show(longer, sizeof longer).s), 43);
    assert_true(ff_word_is("SoLiD", 5, "solid"));
    assert_false(ff_word_is("soli", 4, "solid") || ff_word_is("solids", 6, "solid") ||
                 ff_word_is("s", 1, ""));
}

static int no_block_left(void **state)
{
    (void)state;
    return ff_mem_blocks() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(lines_end_in_lf_or_crlf_or_not_at_all, no_block_left),
        cmocka_unit_test_teardown(a_line_may_be_longer_than_any_buffer, no_block_left),
        cmocka_unit_test_teardown(a_nul_byte_in_text_is_refused_with_its_line, no_block_left),
        cmocka_unit_test_teardown(lines_and_bytes_mix, no_block_left),
        cmocka_unit_test_teardown(gzip_is_told_apart_by_content, no_block_left),
        cmocka_unit_test_teardown(a_cut_gzip_file_is_refused, no_block_left),
        cmocka_unit_test_teardown(what_cannot_be_opened_says_why, no_block_left),
        cmocka_unit_test(numbers_are_those_of_strtod),
        cmocka_unit_test(what_is_no_number_is_told_apart),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(words_are_shown_without_control_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
