/* The input is cut at "=====" into points, faces, owner, neighbour and boundary of a polyMesh folder, a surface and a
 * field of a time folder. */
#include "ff_foam.h"
#include "ff_fuzz_mesh.h"

#include <sys/stat.h>
#include <unistd.h>

enum { PARTS = 7 };
static const char *const name[PARTS] = {"constant/polyMesh/points",
                                        "constant/polyMesh/faces",
                                        "constant/polyMesh/owner",
                                        "constant/polyMesh/neighbour",
                                        "constant/polyMesh/boundary",
                                        "a.ftr",
                                        "1/p"};
static char folder[64];

/* Parts that are as in the run before stay: most inputs differ in one of them. */
static void write_part(int i, const uint8_t *data, size_t size)
{
    static struct {
        uint8_t *data;
        size_t size;
    } last[PARTS];
    char path[100];
    if (last[i].data != NULL && last[i].size == size && memcmp(last[i].data, data, size) == 0) return;
    free(last[i].data);
    last[i].data = malloc(size + 1);
    FF_FUZZ_CHECK(last[i].data != NULL);
    if (size > 0) memcpy(last[i].data, data, size);
    last[i].size = size;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    FILE *f = fopen(path, "wb");
    FF_FUZZ_CHECK(f != NULL && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

static void use(ff_status st, ff_mesh **m)
{
    if (st == FF_OK)
        ff_fuzz_use(*m);
    else
        ff_fuzz_refused(st);
    ff_mesh_destroy(m);
    FF_FUZZ_CHECK(ff_mem_blocks() == 0);
    ff_error_clear();
}

static void make_folders(void)
{
    static const char *const below[] = {"/constant", "/constant/polyMesh", "/1"};
    char path[100];
    (void)strcpy(folder, "/dev/shm/ff_fuzz_XXXXXX");
    FF_FUZZ_CHECK(mkdtemp(folder) != NULL);
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        (void)snprintf(path, sizeof path, "%s%s", folder, below[i]);
        FF_FUZZ_CHECK(mkdir(path, 0700) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh *m = NULL;
    char path[100];
    if (folder[0] == 0) make_folders();
    for (int i = 0; i < PARTS; i++) {
        const uint8_t *cut = i + 1 < PARTS && size > 0 ? memmem(data, size, "=====", 5) : NULL;
        size_t n = cut != NULL ? (size_t)(cut - data) : size;
        write_part(i, data, n);
        data += cut != NULL ? n + 5 : n;
        size -= cut != NULL ? n + 5 : n;
    }
    ff_error_clear();
    use(ff_foam_read(folder, &opts, &m), &m);
    (void)snprintf(path, sizeof path, "%s/a.ftr", folder);
    use(ff_foam_read_surface(path, &opts, &m), &m);
    return 0;
}
