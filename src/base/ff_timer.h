/* Wall clock and named phases. A phase may be entered many times; phases do not nest. Not thread-safe. */
#ifndef FF_TIMER_H
#define FF_TIMER_H

#include "ff_comm.h"

double ff_now_s(void); /* monotonic wall time, seconds */

void ff_phase_begin(const char *name); /* ends the phase that runs, if any; name is copied */
void ff_phase_end(void);
const char *ff_phase_name(void); /* of the phase that runs, else "working" */
/* Work done in phase name, for the rate column: units of work (faces, pairs) and bytes moved.     Local */
void ff_phase_count(const char *name, const char *unit, double n_units, double bytes);
double ff_phase_seconds(const char *name); /* 0 if it never ran */
void ff_phase_reset(void);

typedef struct ff_phase_row {
    char name[32], unit[16];
    double t_min_s, t_avg_s, t_max_s, n_units, bytes; /* units and bytes: sums over ranks */
} ff_phase_row;
/* The table over all ranks (phases in the order rank 0 first entered them); rows owned by the caller.
 * Collective */
ff_status ff_phase_table(ff_comm *comm, ff_phase_row **rows, int *n_rows);
/* Prints the table on rank 0. Collective */
ff_status ff_phase_print(ff_comm *comm);

#endif
