#include "app_launcher.h"

#include "ff_log.h"

#ifdef FF_HAVE_MPI
#include "ff_mpi_info.h"
#endif

#include <stdlib.h>

/* What launchers tell each process they start: how many there are, and which one it is. Slurm: of the job step,
 * since SLURM_NTASKS is there in a batch script too, where a single process is right. */
static const struct {
    const char *size, *rank;
} launcher[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, /* Open MPI */
    {"PMI_SIZE", "PMI_RANK"},                         /* MPICH, Intel MPI, Cray */
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},   /* MVAPICH2 */
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},         /* srun */
};

static long number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : 0;
}

void app_launcher_warn(const ff_comm *comm)
{
    if (ff_comm_size(comm) > 1) return;
    for (size_t i = 0; i < sizeof launcher / sizeof launcher[0]; i++) {
        long n = number(launcher[i].size);
        if (n <= 1) continue;
        if (number(launcher[i].rank) != 0) return; /* the first one tells */
#ifdef FF_HAVE_MPI
        char mpi[96] = "";
        ff_mpi_library(mpi, sizeof mpi);
        ff_warn("%ld processes were started (%s), but each runs alone, does all the work and writes the same "
                "files; use the mpirun of %s, or srun with a --mpi=... it knows",
                n, launcher[i].size, mpi);
#else
        ff_warn(
            "%ld processes were started (%s), but this program is built without MPI: each runs alone, does "
            "all the work and writes the same files; start one, or build with -DFF_MPI=ON",
            n, launcher[i].size);
#endif
        return;
    }
}
