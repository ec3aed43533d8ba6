/* Writing a file so that a failure leaves nothing half-written: NAME.tmp, flush, fsync, rename. */
#ifndef FF_IO_H
#define FF_IO_H

#include "ff_comm.h"

#include <stdio.h>

/* Refuses an output before any work is done: it exists and force is not set, it is a folder, its folder is
 * missing (FF_E_INPUT) or cannot be written (FF_E_IO). Rank 0 looks, all ranks get its answer. Collective */
ff_status ff_io_check_path(ff_comm *comm, const char *path, bool force);

/* The same for text, which may also go to a stream: there force is not asked for. Collective */
ff_status ff_io_check_text_path(ff_comm *comm, const char *path, bool force);

/* Whether path is a pipe or a device. Local */
bool ff_io_is_device(const char *path);
/* Whether path is a pipe, a device or a link to one such as /dev/stdout: written in place, never replaced or removed,
 * since a rename would put a file where the device was. Local */
bool ff_io_is_stream(const char *path);

/* path with .tmp added, a stream's own name; owned by the caller. Local */
ff_status ff_io_tmp_name(const char *path, char **out);

/* fsync of tmp, rename to path, fsync of the folder; nothing where both are one stream. On failure tmp is removed. Local */
ff_status ff_io_publish(const char *tmp, const char *path);
/* Whether the file system will take a new file of so many bytes: they are allocated and given back. Asked before a
 * shared file is written, since MPI-IO layers may hang where one rank's write fails. FF_E_IO.              Local */
ff_status ff_io_try_space(const char *path, int64_t bytes);
void ff_io_discard(const char *tmp); /* removes it if there; NULL is fine Local */

/* fopen, fwrite and fclose with a status, messages and the fault below. Closing flushes; *f becomes NULL.
 * Local */
ff_status ff_io_open(const char *path, FILE **out);
ff_status ff_io_put(FILE *f, const char *path, const void *data, size_t bytes);
ff_status ff_io_close(FILE **f, const char *path);

/* Fault injection for tests: the n-th write, flush or rename from now (1 = next) fails once; 0: off. Local */
void ff_io_fail_at(int64_t n);
bool ff_io_fault_hit(void);              /* whether the armed fault has fired */
ff_status ff_io_fault(const char *path); /* writers ask before each step: FF_E_IO when the fault fires */

#endif
