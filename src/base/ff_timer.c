#include "ff_timer.h"

#include "ff_log.h"
#include "ff_mem.h"

#include <omp.h>
#include <string.h>
#include <time.h>

enum { MAX_PHASES = 48 };

typedef struct phase {
    char name[32], unit[16];
    double t_s, n_units, bytes;
} phase;

static phase phases[MAX_PHASES];
static int n_phases, current = -1;
static double t_begin_s;

double ff_now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int find(const char *name, bool add)
{
    for (int i = 0; i < n_phases; i++)
        if (strcmp(phases[i].name, name) == 0) return i;
    if (!add || n_phases == MAX_PHASES) return -1;
    phase *p = &phases[n_phases];
    memset(p, 0, sizeof *p);
    (void)snprintf(p->name, sizeof p->name, "%s", name);
    return n_phases++;
}

/* Inside a parallel region nothing is counted: samples of several threads would stop each other's phases. */
void ff_phase_begin(const char *name)
{
    if (omp_in_parallel()) return;
    ff_phase_end();
    current = find(name, true);
    t_begin_s = ff_now_s();
}

void ff_phase_end(void)
{
    if (omp_in_parallel()) return;
    if (current >= 0) phases[current].t_s += ff_now_s() - t_begin_s;
    current = -1;
}

const char *ff_phase_name(void)
{
    return current >= 0 ? phases[current].name : "working";
}

void ff_phase_count(const char *name, const char *unit, double n_units, double bytes)
{
    if (omp_in_parallel()) return;
    int i = find(name, true);
    if (i < 0) return;
    (void)snprintf(phases[i].unit, sizeof phases[i].unit, "%s", unit);
    phases[i].n_units += n_units;
    phases[i].bytes += bytes;
}

double ff_phase_seconds(const char *name)
{
    int i = find(name, false);
    return i < 0 ? 0 : phases[i].t_s;
}

void ff_phase_reset(void)
{
    n_phases = 0, current = -1;
}

/* Rank 0's names are spread, every rank gives its values for them, and all values are gathered: rows are
 * summed in rank order, so the table is the same on each rank. */
ff_status ff_phase_table(ff_comm *comm, ff_phase_row **rows, int *n_rows)
{
    ff_status st = FF_OK;
    double *mine = NULL, *all = NULL;
    int size = ff_comm_size(comm);
    ff_phase_end();
    *rows = NULL;
    int64_t n = n_phases;
    phase ref[MAX_PHASES];
    memcpy(ref, phases, sizeof ref);
    FF_TRY(ff_comm_bcast(comm, &n, sizeof n, 0));
    FF_TRY(ff_comm_bcast(comm, ref, sizeof ref, 0));
    if ((st = FF_NEW(mine, 3 * n + 1)) == FF_OK && (st = FF_NEW(all, (3 * n + 1) * size)) == FF_OK)
        st = FF_NEW0(*rows, n + 1);
    if ((st = ff_agree(comm, st)) != FF_OK) goto done;
    for (int64_t i = 0; i < n; i++) {
        int k = find(ref[i].name, false);
        mine[3 * i] = k < 0 ? 0 : phases[k].t_s;
        mine[3 * i + 1] = k < 0 ? 0 : phases[k].n_units;
        mine[3 * i + 2] = k < 0 ? 0 : phases[k].bytes;
    }
    FF_GO(ff_comm_allgather(comm, mine, (size_t)(3 * n) * sizeof *mine, all));
    for (int64_t i = 0; i < n; i++) {
        ff_phase_row *row = &(*rows)[i];
        memcpy(row->name, ref[i].name, sizeof row->name);
        memcpy(row->unit, ref[i].unit, sizeof row->unit);
        row->t_min_s = all[3 * i];
        for (int r = 0; r < size; r++) {
            const double *v = all + 3 * (n * r + i);
            if (v[0] < row->t_min_s) row->t_min_s = v[0];
            if (v[0] > row->t_max_s) row->t_max_s = v[0];
            row->t_avg_s += v[0] / size;
            row->n_units += v[1];
            row->bytes += v[2];
        }
    }
    *n_rows = (int)n;
done:
    ff_free(mine);
    ff_free(all);
    if (st != FF_OK) FF_FREE(*rows);
    return st;
}

ff_status ff_phase_print(ff_comm *comm)
{
    ff_phase_row *rows = NULL;
    int n = 0;
    FF_TRY(ff_phase_table(comm, &rows, &n));
    ff_info("%-20s %9s %9s %9s %22s %9s", "phase", "min s", "avg s", "max s", "rate", "MB");
    for (int i = 0; i < n; i++) {
        char rate[64] = "", mb[32] = "";
        double t = rows[i].t_max_s > 0 ? rows[i].t_max_s : 1;
        if (rows[i].n_units > 0)
            (void)snprintf(rate, sizeof rate, "%.3g %s/s", rows[i].n_units / t, rows[i].unit);
        if (rows[i].bytes > 0) (void)snprintf(mb, sizeof mb, " %9.3f", 1e-6 * rows[i].bytes);
        ff_info("%-20s %9.3f %9.3f %9.3f%*s%s", rows[i].name, rows[i].t_min_s, rows[i].t_avg_s,
                rows[i].t_max_s, rate[0] != 0 || mb[0] != 0 ? 23 : 0, rate, mb);
    }
    ff_free(rows);
    return FF_OK;
}
