/* Levels and rank prefix; the only place of the program that prints.
 * Rank 0 prints; warnings and errors go to standard error, everything else to standard output. */
#ifndef FF_LOG_H
#define FF_LOG_H

#include "ff_status.h"

#include <stdio.h>

typedef enum ff_log_level { FF_LOG_ERROR, FF_LOG_WARN, FF_LOG_INFO, FF_LOG_DEBUG } ff_log_level;

void ff_log_init(int rank,
                 ff_log_level level); /* before any other call; the default is rank 0, info   Local */
void ff_log_set_level(ff_log_level level);
int ff_log_rank(void);

/* A line of output on rank 0 (a newline is added). At debug level every rank prints, with its number. Local
 */
void ff_log(ff_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define ff_info(...)  ff_log(FF_LOG_INFO, __VA_ARGS__)
#define ff_warn(...)  ff_log(FF_LOG_WARN, __VA_ARGS__)
#define ff_debug(...) ff_log(FF_LOG_DEBUG, __VA_ARGS__)

/* Text that is the result of a verb (tables, JSON): rank 0, standard output, no newline added, every level.
 * Local */
void ff_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Formatted output to an open file, for writers of text; FF_E_IO on failure. Local */
ff_status ff_file_printf(FILE *f, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Progress of long work: a bar on a terminal, else a line every few seconds. Thread-safe, rank 0 shows. Local
 */
typedef struct ff_progress ff_progress;
ff_status ff_progress_create(const char *what, int64_t total, ff_progress **out);
void ff_progress_add(ff_progress *p, int64_t done); /* NULL is fine */
void ff_progress_destroy(ff_progress **p);

#endif
