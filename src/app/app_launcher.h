/* The launcher that started this process, as far as the environment tells. */
#ifndef APP_LAUNCHER_H
#define APP_LAUNCHER_H

#include "ff_comm.h"

/* One warning where a launcher started several processes that do not see each other: with the mpirun of another
 * MPI library each would be rank 0 of 1, do the whole work and write the same files. Nothing else depends on
 * what is read here. Local */
void app_launcher_warn(const ff_comm *comm);

#endif
