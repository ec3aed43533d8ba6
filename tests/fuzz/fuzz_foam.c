/* The input is cut at "=====" into points, faces, owner, neighbour and boundary of a polyMesh folder; a sixth part is
 * a surface. */
#include "ff_foam.h"
#include "ff_fuzz_mesh.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void write_part(const char *name, const uint8_t *data, size_t size)
{
    char path[100];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    FF_FUZZ_CHECK(f != NULL && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

static void use(ff_status st, ff_mesh **m)
{
    FF_FUZZ_CHECK(st == FF_OK || ff_exit_code(st) == 2);
    FF_FUZZ_CHECK(st == FF_OK || (ff_error_text()[0] != 0 && strchr(ff_error_text(), '\n') == NULL));
    if (st == FF_OK) ff_fuzz_use(*m);
    ff_mesh_destroy(m);
    FF_FUZZ_CHECK(ff_mem_blocks() == 0);
    ff_error_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const name[] = {"points", "faces", "owner", "neighbour", "boundary", "a.ftr"};
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh *m = NULL;
    char path[100];
    if (folder[0] == 0) {
        (void)strcpy(folder, "/dev/shm/ff_fuzz_XXXXXX");
        FF_FUZZ_CHECK(mkdtemp(folder) != NULL);
    }
    for (int i = 0; i < 6; i++) {
        const uint8_t *cut = i < 5 && size > 0 ? memmem(data, size, "=====", 5) : NULL;
        size_t n = cut != NULL ? (size_t)(cut - data) : size;
        write_part(name[i], data, n);
        data += cut != NULL ? n + 5 : n;
        size -= cut != NULL ? n + 5 : n;
    }
    ff_error_clear();
    use(ff_foam_read(folder, &opts, &m), &m);
    (void)snprintf(path, sizeof path, "%s/a.ftr", folder);
    use(ff_foam_read_surface(path, &opts, &m), &m);
    return 0;
}
