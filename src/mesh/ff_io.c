#include "ff_io.h"

#include "ff_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static atomic_llong fail_countdown;
static atomic_bool fault_hit;

void ff_io_fail_at(int64_t n)
{
    atomic_store(&fail_countdown, n);
    atomic_store(&fault_hit, false);
}

bool ff_io_fault_hit(void)
{
    return atomic_load(&fault_hit);
}

ff_status ff_io_fault(const char *path)
{
    if (atomic_load(&fail_countdown) <= 0 || atomic_fetch_sub(&fail_countdown, 1) != 1) return FF_OK;
    atomic_store(&fault_hit, true);
    return ff_fail(FF_E_IO, "%s: write failed (injected fault)", path);
}

/* The folder part of path ("." if it has none); owned by the caller. */
static ff_status folder_of(const char *path, char **out)
{
    *out = ff_strdup(path);
    if (*out == NULL) return FF_E_MEM;
    char *slash = strrchr(*out, '/');
    if (slash == NULL) {
        ff_free(*out);
        *out = ff_strdup(".");
        return *out != NULL ? FF_OK : FF_E_MEM;
    }
    slash[slash == *out ? 1 : 0] = 0;
    return FF_OK;
}

bool ff_io_is_device(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

bool ff_io_is_stream(const char *path)
{
    struct stat s;
    if (ff_io_is_device(path)) return true;
    if (strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/proc/", 6) != 0) return false;
    return lstat(path, &s) == 0 && S_ISLNK(s.st_mode); /* /dev/stdout, even where that is a file now */
}

static ff_status check_here(const char *path, bool force, bool text)
{
    struct stat s;
    if (path[0] == 0) return ff_fail(FF_E_INPUT, "the output has an empty name");
    if (ff_io_is_stream(path)) {
        if (!text) return ff_fail(FF_E_INPUT, "%s: is a pipe or device, expected the name of a file", path);
        return access(path, W_OK) == 0 ? FF_OK
                                       : ff_fail(FF_E_IO, "%s: cannot be written: %s", path, strerror(errno));
    }
    if (stat(path, &s) == 0) {
        if (S_ISDIR(s.st_mode)) return ff_fail(FF_E_INPUT, "%s: is a folder, expected a file name", path);
        if (!force) return ff_fail(FF_E_INPUT, "%s: exists already; give another name or --force", path);
    }
    char *folder;
    FF_TRY(folder_of(path, &folder));
    ff_status st = FF_OK;
    if (stat(folder, &s) != 0 || !S_ISDIR(s.st_mode))
        st = ff_fail(FF_E_INPUT, "%s: folder %s does not exist; create it first", path, folder);
    else if (access(folder, W_OK | X_OK) != 0)
        st = ff_fail(FF_E_IO, "%s: folder %s cannot be written: %s", path, folder, strerror(errno));
    ff_free(folder);
    return st;
}

ff_status ff_io_check_path(ff_comm *comm, const char *path, bool force)
{
    return ff_agree(comm, comm->rank == 0 ? check_here(path, force, false) : FF_OK);
}

ff_status ff_io_check_text_path(ff_comm *comm, const char *path, bool force)
{
    return ff_agree(comm, comm->rank == 0 ? check_here(path, force, true) : FF_OK);
}

ff_status ff_io_tmp_name(const char *path, char **out)
{
    static const char ext[] = ".tmp";
    size_t n = strlen(path);
    *out = ff_mem_alloc(n + sizeof ext, 1);
    if (*out == NULL) return FF_E_MEM;
    memcpy(*out, path, n);
    if (ff_io_is_stream(path))
        (*out)[n] = 0;
    else
        memcpy(*out + n, ext, sizeof ext);
    return FF_OK;
}

static ff_status sync_path(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0) return ff_fail(FF_E_IO, "%s: cannot be opened for fsync: %s", path, strerror(errno));
    int bad = fsync(fd) != 0 && errno != EINVAL; /* EINVAL: the file system does not sync this kind of file */
    int err = errno;
    (void)close(fd);
    return bad ? ff_fail(FF_E_IO, "%s: fsync failed: %s", path, strerror(err)) : FF_OK;
}

ff_status ff_io_publish(const char *tmp, const char *path)
{
    char *folder = NULL;
    if (ff_io_is_stream(path)) {
        if (strcmp(tmp, path) == 0) return FF_OK;
        ff_io_discard(tmp);
        return ff_fail(FF_E_IO, "%s: is a pipe or device, expected the name of a file", path);
    }
    ff_status st = folder_of(path, &folder);
    if (st == FF_OK) st = ff_io_fault(path);
    if (st == FF_OK) st = sync_path(tmp, O_RDONLY);
    if (st == FF_OK && rename(tmp, path) != 0)
        st = ff_fail(FF_E_IO, "%s: cannot be renamed to %s: %s", tmp, path, strerror(errno));
    if (st == FF_OK) st = sync_path(folder, O_RDONLY | O_DIRECTORY);
    if (st != FF_OK) ff_io_discard(tmp);
    ff_free(folder);
    return st;
}

/* fallocate(2) itself: the C library's version writes to every block where the file system lacks it. */
static int try_allocate(int fd, int64_t bytes)
{
    struct statvfs fs;
    if (fallocate(fd, 0, 0, bytes) == 0) return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
    if (fstatvfs(fd, &fs) != 0 || (double)fs.f_bavail * (double)fs.f_frsize >= (double)bytes) return 0;
    return ENOSPC;
}

ff_status ff_io_try_space(const char *path, int64_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return ff_fail(FF_E_IO, "%s: cannot be created: %s", path, strerror(errno));
    int err = try_allocate(fd, bytes);
    if (ftruncate(fd, 0) != 0 && err == 0) err = errno;
    if (close(fd) != 0 && err == 0) err = errno;
    if (err == 0) return FF_OK;
    ff_io_discard(path);
    return ff_fail(FF_E_IO, "%s: no room for %lld bytes: %s", path, (long long)bytes, strerror(err));
}

void ff_io_discard(const char *tmp)
{
    if (tmp != NULL && !ff_io_is_stream(tmp)) (void)unlink(tmp);
}

/* Where path is what standard output or error goes to, that very descriptor: a second one has an offset of its own, and
 * the two would write over each other in a file. */
static FILE *open_stream(const char *path)
{
    struct stat want, have;
    (void)fflush(stdout);
    for (int fd = STDOUT_FILENO; stat(path, &want) == 0 && fd <= STDERR_FILENO; fd++) {
        if (fstat(fd, &have) != 0 || have.st_dev != want.st_dev || have.st_ino != want.st_ino) continue;
        int own = dup(fd);
        return own >= 0 ? fdopen(own, "wb") : NULL;
    }
    return fopen(path, "wb");
}

ff_status ff_io_open(const char *path, FILE **out)
{
    *out = NULL;
    FF_TRY(ff_io_fault(path));
    *out = ff_io_is_stream(path) ? open_stream(path) : fopen(path, "wb");
    return *out != NULL ? FF_OK : ff_fail(FF_E_IO, "%s: cannot be created: %s", path, strerror(errno));
}

ff_status ff_io_put(FILE *f, const char *path, const void *data, size_t bytes)
{
    FF_TRY(ff_io_fault(path));
    if (bytes == 0 || fwrite(data, 1, bytes, f) == bytes) return FF_OK;
    return ff_fail(FF_E_IO, "%s: writing %zu bytes failed: %s", path, bytes, strerror(errno));
}

ff_status ff_io_close(FILE **f, const char *path)
{
    if (*f == NULL) return FF_OK;
    ff_status st = ff_io_fault(path);
    if (fclose(*f) != 0 && st == FF_OK)
        st = ff_fail(FF_E_IO, "%s: closing failed: %s", path, strerror(errno));
    *f = NULL;
    return st;
}
