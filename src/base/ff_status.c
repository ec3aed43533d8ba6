#include "ff_status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;
static char error_text[1024];

#ifndef FF_VERSION
#define FF_VERSION "0.1.0"
#endif
#ifndef FF_GIT_HASH
#define FF_GIT_HASH "unknown"
#endif

ff_status ff_fail(ff_status code, const char *fmt, ...)
{
    char text[sizeof error_text];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *c = text; *c != 0;
         c++) /* names in files may hold line ends and escapes; a message is one line */
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    pthread_mutex_lock(&error_lock);
    if (error_text[0] == 0) memcpy(error_text, text, sizeof text);
    pthread_mutex_unlock(&error_lock);
    return code;
}

void ff_error_clear(void)
{
    ff_error_set("");
}

void ff_error_set(const char *text)
{
    pthread_mutex_lock(&error_lock);
    (void)snprintf(error_text, sizeof error_text, "%s", text);
    pthread_mutex_unlock(&error_lock);
}

const char *ff_error_text(void)
{
    return error_text;
}

int ff_exit_code(ff_status st)
{
    switch (st) {
    case FF_OK:
        return 0;
    case FF_E_ARG:
    case FF_E_INPUT:
    case FF_E_UNSUPPORTED:
        return 2;
    case FF_E_STOPPED:
        return 3;
    default:
        return 1;
    }
}

const char *ff_version(void)
{
    return FF_VERSION " (git " FF_GIT_HASH ")";
}

ff_status ff_to_i32(int64_t value, const char *what, int32_t *out)
{
    if (value < INT32_MIN || value > INT32_MAX)
        return ff_fail(FF_E_ARG, "%s = %lld does not fit 32 bits; use more ranks", what, (long long)value);
    *out = (int32_t)value;
    return FF_OK;
}
