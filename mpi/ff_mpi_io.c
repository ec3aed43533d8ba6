#include "ff_mpi_io.h"

#include "ff_h5.h"

#include <hdf5.h>
#include <string.h>

static MPI_Comm io_comm = MPI_COMM_NULL;

static ff_status set_fapl(void *ctx, int64_t fapl)
{
    (void)ctx;
    if (H5Pset_fapl_mpio(fapl, io_comm, MPI_INFO_NULL) < 0 || H5Pset_coll_metadata_write(fapl, true) < 0)
        return ff_fail(FF_E_COMM, "HDF5: MPI-IO access properties refused");
    return FF_OK;
}

static ff_status set_dxpl(void *ctx, int64_t dxpl)
{
    (void)ctx;
    return H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE) >= 0
               ? FF_OK
               : ff_fail(FF_E_COMM, "HDF5: collective transfers refused");
}

ff_status ff_mpi_io_install(MPI_Comm comm)
{
    int size;
    ff_mpi_io_remove();
    if (MPI_Comm_dup(comm, &io_comm) != MPI_SUCCESS || MPI_Comm_size(io_comm, &size) != MPI_SUCCESS)
        return ff_fail(FF_E_COMM, "MPI: the communicator for MPI-IO cannot be made");
    (void)MPI_Comm_set_errhandler(io_comm, MPI_ERRORS_RETURN);
    ff_h5_set_access(&(ff_h5_access){.set_fapl = set_fapl, .set_dxpl = set_dxpl, .n_ranks = size});
    return FF_OK;
}

void ff_mpi_io_remove(void)
{
    if (io_comm == MPI_COMM_NULL) return;
    ff_h5_set_access(NULL);
    (void)MPI_Comm_free(&io_comm);
}

/* The layers report different hints for an open file: ROMIO has keys of its own name. */
const char *ff_mpi_io_layer(void)
{
    const char *layer = "unknown";
    MPI_File f;
    MPI_Info info;
    int n, romio = 0;
    if (MPI_File_open(MPI_COMM_SELF, "/proc/self/exe", MPI_MODE_RDONLY, MPI_INFO_NULL, &f) != MPI_SUCCESS)
        return layer;
    if (MPI_File_get_info(f, &info) == MPI_SUCCESS) {
        (void)MPI_Info_get_nkeys(info, &n);
        for (int i = 0; i < n; i++) {
            char key[MPI_MAX_INFO_KEY + 1];
            (void)MPI_Info_get_nthkey(info, i, key);
            romio |= strncmp(key, "romio_", 6) == 0;
        }
        layer = romio ? "ROMIO" : "OMPIO";
        (void)MPI_Info_free(&info);
    }
    (void)MPI_File_close(&f);
    return layer;
}
