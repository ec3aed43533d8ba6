#include "ff_log.h"

#include "ff_mem.h"
#include "ff_timer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

static int log_rank;
static ff_log_level log_level = FF_LOG_INFO;

void ff_log_init(int rank, ff_log_level level)
{
    log_rank = rank;
    log_level = level;
}

void ff_log_set_level(ff_log_level level)
{
    log_level = level;
}
int ff_log_rank(void)
{
    return log_rank;
}

void ff_log(ff_log_level level, const char *fmt, ...)
{
    static const char *const prefix[] = {"farfield: error: ", "farfield: warning: ", "", ""};
    if (level > log_level || (log_rank != 0 && level != FF_LOG_DEBUG)) return;
    char line[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    FILE *f = level <= FF_LOG_WARN ? stderr : stdout;
    if (level == FF_LOG_DEBUG)
        (void)fprintf(f, "[%d] %s\n", log_rank, line);
    else
        (void)fprintf(f, "%s%s\n", prefix[level], line);
    (void)fflush(f);
}

void ff_print(const char *fmt, ...)
{
    if (log_rank != 0) return;
    va_list ap;
    va_start(ap, fmt);
    (void)vfprintf(stdout, fmt, ap);
    va_end(ap);
}

ff_status ff_file_printf(FILE *f, const char *path, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vfprintf(f, fmt, ap);
    va_end(ap);
    return n < 0 ? ff_fail(FF_E_IO, "%s: writing failed; is the disk full?", path) : FF_OK;
}

/* mpirun puts a pseudo-terminal between a rank and itself, wherever its own output goes: a bar would fill
 * log files with carriage returns. So the parent's output must be a terminal too, where it can be looked at. */
static bool on_terminal(void)
{
    char path[64];
    if (isatty(STDOUT_FILENO) != 1) return false;
    (void)snprintf(path, sizeof path, "/proc/%ld/fd/1", (long)getppid());
    int fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno != ENXIO; /* a pipe nobody reads, else no /proc here or another user's process */
    bool yes = isatty(fd) == 1;
    (void)close(fd);
    return yes;
}

/* When any progress showed a line last: layers are often shorter than the pause between two lines. */
static double t_line_s;

struct ff_progress {
    char what[64];
    int64_t total;
    atomic_llong done;
    atomic_flag busy;
    double t_start_s, t_shown_s;
    bool bar;
};

ff_status ff_progress_create(const char *what, int64_t total, ff_progress **out)
{
    ff_progress *p = NULL;
    *out = NULL;
    FF_TRY(FF_NEW0(p, 1));
    (void)snprintf(p->what, sizeof p->what, "%s", what);
    p->total = total > 0 ? total : 1;
    p->t_start_s = p->t_shown_s = ff_now_s();
    p->bar = on_terminal();
    if (t_line_s <= 0) t_line_s = p->t_start_s;
    if (!p->bar) p->t_shown_s = t_line_s;
    atomic_flag_clear(&p->busy);
    *out = p;
    return FF_OK;
}

static void progress_show(ff_progress *p, int64_t done, double now)
{
    double share = (double)done / (double)p->total;
    double left = share > 0 ? (now - p->t_start_s) * (1 - share) / share : 0;
    if (p->bar)
        (void)fprintf(stdout, "\r%-24s %5.1f %%  %.0f s left   ", p->what, 100 * share, left);
    else
        (void)fprintf(stdout, "%s: %.1f %%, %.0f s left\n", p->what, 100 * share, left);
    (void)fflush(stdout);
}

void ff_progress_add(ff_progress *p, int64_t n)
{
    if (p == NULL) return;
    int64_t done = atomic_fetch_add(&p->done, n) + n;
    if (log_rank != 0 || log_level < FF_LOG_INFO || atomic_flag_test_and_set(&p->busy)) return;
    double now = ff_now_s();
    if (now - p->t_shown_s > (p->bar ? 0.2 : 5.0)) {
        p->t_shown_s = t_line_s = now;
        progress_show(p, done, now);
    }
    atomic_flag_clear(&p->busy);
}

void ff_progress_destroy(ff_progress **p)
{
    if (*p != NULL && (*p)->bar && log_rank == 0 && (*p)->t_shown_s > (*p)->t_start_s)
        (void)fprintf(stdout, "\r%60s\r", "");
    FF_FREE(*p);
}
