/* Words of a line and the numbers in them (ff_bytes.h). */
#include "ff_bytes.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

char *ff_word(char **p, size_t *len)
{
    char *s = *p;
    while (is_blank(*s)) s++;
    char *e = s;
    while (*e != 0 && !is_blank(*e)) e++;
    *p = e;
    *len = (size_t)(e - s);
    return e == s ? NULL : s;
}

bool ff_word_is(const char *w, size_t len, const char *text)
{
    for (size_t i = 0; i < len; i++)
        if (lower(w[i]) != text[i]) return false; /* also at the NUL of a shorter text */
    return text[len] == 0;
}

ff_shown ff_show(const char *w, size_t len)
{
    ff_shown out;
    size_t n = len < 40 ? len : 40;
    for (size_t i = 0; i < n; i++) out.s[i] = w[i] >= ' ' && w[i] <= '~' ? w[i] : '?';
    memcpy(out.s + n, len > 40 ? "..." : "", len > 40 ? 4 : 1);
    return out;
}

bool ff_word_i64(const char *w, size_t len, int64_t *out)
{
    size_t i = len > 0 && (w[0] == '-' || w[0] == '+');
    int64_t v = 0;
    if (i == len || len - i > 18) return false;
    for (; i < len; i++) {
        if (!is_digit(w[i])) return false;
        v = v * 10 + (w[i] - '0');
    }
    *out = w[0] == '-' ? -v : v;
    return true;
}

/* A decimal number taken apart: value = digits * 10^exp10, exact only if !cut. */
typedef struct decimal {
    uint64_t digits;
    int64_t exp10;
    bool negative, cut;
} decimal;

/* Reads digits at *i; scale is -1 behind the point. Returns whether there was one. */
static bool read_digits(const char *w, size_t len, size_t *i, int scale, decimal *d)
{
    size_t first = *i;
    for (; *i < len && is_digit(w[*i]); (*i)++) {
        if (d->digits >= UINT64_MAX / 10 - 1) {
            d->cut = true;
            continue;
        }
        d->digits = d->digits * 10 + (uint64_t)(w[*i] - '0');
        d->exp10 += scale;
    }
    return *i > first;
}

/* Grammar: [+-] (digits [. [digits]] | . digits) [eE [+-] digits]. */
static bool take_apart(const char *w, size_t len, decimal *d)
{
    size_t i = 0;
    *d = (decimal){0};
    if (i < len && (w[i] == '-' || w[i] == '+')) d->negative = w[i++] == '-';
    bool some = read_digits(w, len, &i, 0, d);
    if (i < len && w[i] == '.') {
        i++;
        some = read_digits(w, len, &i, -1, d) || some;
    }
    if (!some) return false;
    if (i < len && lower(w[i]) == 'e') {
        i++;
        bool minus = i < len && w[i] == '-';
        if (i < len && (w[i] == '-' || w[i] == '+')) i++;
        size_t first = i;
        int e = 0;
        for (; i < len && is_digit(w[i]); i++)
            if (e < 100000) e = e * 10 + (w[i] - '0');
        if (i == first) return false;
        d->exp10 += minus ? -e : e;
    }
    return i == len;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t c_locale;
static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static bool not_finite_word(const char *w, size_t len, double *out)
{
    size_t sign = len > 0 && (w[0] == '-' || w[0] == '+');
    const char *s = w + sign;
    size_t n = len - sign;
    if (ff_word_is(s, n, "nan"))
        *out = NAN;
    else if (ff_word_is(s, n, "inf") || ff_word_is(s, n, "infinity"))
        *out = INFINITY;
    else
        return false;
    return true;
}

bool ff_word_double(const char *w, size_t len, double *out)
{
    /* Powers of ten that a double holds exactly: with an integer below 2^53, one correctly rounded operation
     * gives the correctly rounded value. Everything else goes to strtod. */
    static const double pow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    decimal d;
    if (!take_apart(w, len, &d)) return not_finite_word(w, len, out);
    if (!d.cut && d.digits <= (uint64_t)1 << 53 && d.exp10 >= -22 && d.exp10 <= 22) {
        double v = (double)d.digits;
        v = d.exp10 < 0 ? v / pow10[-d.exp10] : v * pow10[d.exp10];
        *out = d.negative ? -v : v;
        return true;
    }
    (void)pthread_once(&once, make_locale);
    *out = c_locale != (locale_t)0 ? strtod_l(w, NULL, c_locale) : strtod(w, NULL);
    return true;
}
