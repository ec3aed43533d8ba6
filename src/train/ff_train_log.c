#include "ff_train_log.h"

#include "ff_io.h"
#include "ff_json.h"
#include "ff_log.h"
#include "ff_mem.h"

#include <stdlib.h>
#include <string.h>

/* The step a line tells of, -1: none. */
static int64_t step_of(const char *line)
{
    const char *s = strstr(line, "\"step\": ");
    return s != NULL ? strtoll(s + 8, NULL, 10) : -1;
}

/* Whole lines of steps up to `step` from one file into the other. */
static ff_status copy_lines(FILE *from, FILE *to, const char *name, const char *path, int64_t step)
{
    ff_status st = FF_OK;
    char *line = NULL;
    int64_t cap = 0, n = 0;
    for (int c; st == FF_OK && (c = fgetc(from)) != EOF;) {
        st = ff_mem_reserve(&line, &cap, n + 2, 1);
        if (st != FF_OK) break;
        line[n++] = (char)c;
        line[n] = 0;
        if (c != '\n') continue;
        int64_t of = step_of(line);
        if (of < 0) break;
        if (of <= step) st = ff_io_put(to, path, line, (size_t)n);
        n = 0;
    }
    if (st == FF_OK && n > 0 &&
        (line[0] != '{' || line[n - 1] == '\n')) /* what else may end without one: a torn line */
        st = ff_fail(FF_E_INPUT, "%s: exists and is no training log; give another name", name);
    ff_free(line);
    return st;
}

static ff_status drop_later_lines(const char *path, int64_t step)
{
    FILE *from = NULL, *to = NULL;
    char *tmp = NULL;
    if (ff_io_is_stream(path)) return FF_OK;
    from = fopen(path, "rb");
    if (from == NULL) return FF_OK;
    ff_status st = ff_io_tmp_name(path, &tmp);
    if (st == FF_OK) st = ff_io_open(tmp, &to);
    if (st == FF_OK) st = copy_lines(from, to, path, tmp, step);
    (void)fclose(from);
    ff_status closed = ff_io_close(&to, tmp != NULL ? tmp : path);
    if (st == FF_OK) st = closed;
    if (st == FF_OK)
        st = ff_io_publish(tmp, path);
    else
        ff_io_discard(tmp);
    ff_free(tmp);
    return st;
}

ff_status train_log_open(train_log *l, ff_comm *comm, const char *path, int64_t step)
{
    ff_status st = FF_OK;
    l->path = path;
    if (path == NULL) return FF_OK;
    if (ff_comm_rank(comm) == 0) {
        st = drop_later_lines(path, step);
        if (st == FF_OK && ff_io_is_stream(path))
            st = ff_io_open(path, &l->file);
        else if (st == FF_OK && (l->file = fopen(path, "ab")) == NULL)
            st = ff_fail(FF_E_IO, "%s: cannot be written", path);
    }
    return ff_agree(comm, st);
}

void train_log_close(train_log *l)
{
    if (l->file != NULL) (void)fclose(l->file);
    l->file = NULL;
}

/* One line: line breaks and indents between values become one blank (inside strings they are escaped). */
static void join_lines(ff_text *t)
{
    int64_t n = 0;
    for (int64_t i = 0; i < t->n; i++) {
        if (t->s[i] != '\n') {
            t->s[n++] = t->s[i];
            continue;
        }
        t->s[n++] = ' ';
        while (i + 1 < t->n && t->s[i + 1] == ' ') i++;
    }
    t->n = n;
}

/* A log that cannot be written says so once and is left: no reason to lose a training. */
static void put_line(train_log *l, ff_json *j)
{
    ff_json_close(j);
    if (ff_text_status(&j->text) == FF_OK) join_lines(&j->text);
    ff_text_add(&j->text, "\n");
    if (l->file != NULL && ff_text_status(&j->text) == FF_OK &&
        (ff_io_put(l->file, l->path, ff_text_get(&j->text), (size_t)j->text.n) != FF_OK ||
         fflush(l->file) != 0)) {
        ff_warn("%s: cannot be written; no more lines go there", l->path);
        ff_error_clear();
        train_log_close(l);
    }
    ff_json_free(j);
}

static void add_fields(ff_json *j, const char *key, const ff_name_list *fields, const double *v)
{
    ff_json_open(j, key, '{');
    for (int f = 0; f < fields->n; f++) ff_json_double(j, fields->item[f].name, v[f]);
    ff_json_close(j);
}

void train_log_step(train_log *l, const ff_name_list *fields, const train_step_line *line, int64_t every)
{
    ff_json j = {0};
    double bytes = (double)ff_mem_peak();
    bool small = bytes < 0x1p30;
    ff_json_open(&j, NULL, '{');
    ff_json_int(&j, "step", line->step);
    ff_json_double(&j, "loss", line->loss);
    add_fields(&j, "parts", fields, line->part);
    ff_json_double(&j, "lr", line->rate);
    ff_json_double(&j, "gradient_norm", line->norm);
    ff_json_int(&j, "skipped", line->skipped);
    ff_json_double(&j, "seconds", line->seconds);
    ff_json_double(&j, "gib", bytes / 0x1p30);
    put_line(l, &j);
    if (every <= 0 || (line->step % every != 0 && line->step != line->steps)) return;
    ff_text parts = {0};
    for (int f = 0; f < fields->n; f++)
        ff_text_add(&parts, "%s%s %.4g", f > 0 ? ", " : "", fields->item[f].name, line->part[f]);
    ff_info("step %lld/%lld  loss %.5g (%s)  lr %.3g  |g| %.3g  %.3g s  %.2f %s", (long long)line->step,
            (long long)line->steps, line->loss, ff_text_get(&parts), line->rate, line->norm, line->seconds,
            bytes / (small ? 0x1p20 : 0x1p30), small ? "MiB" : "GiB");
    ff_text_free(&parts);
}

void train_log_validation(train_log *l, const ff_name_list *fields, int64_t step, const double *error)
{
    ff_json j = {0};
    ff_text text = {0};
    ff_json_open(&j, NULL, '{');
    ff_json_int(&j, "step", step);
    add_fields(&j, "validation", fields, error);
    put_line(l, &j);
    for (int f = 0; f < fields->n; f++)
        ff_text_add(&text, "%s%s %.2f %%", f > 0 ? ", " : "", fields->item[f].name, 100 * error[f]);
    ff_info("step %lld  validation: relative L2 error %s", (long long)step, ff_text_get(&text));
    ff_text_free(&text);
}
