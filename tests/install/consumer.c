/* A program outside the repository that uses the installed library. */
#include <farfield.h>
#include <farfield_scatter.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    if (ff_exit_code(FF_OK) != 0 || ff_exit_code(FF_E_INPUT) != 2) return 1;
    if (strcmp(ff_error_text(), "") != 0) return 2;
    /* With CUDA, dst is missing; without, the whole call. */
    ff_scatter_csr *csr = NULL;
    ff_status st = ff_scatter_csr_create_cuda(NULL, 1, 1, NULL, &csr);
    if ((st != FF_E_ARG && st != FF_E_UNSUPPORTED) || csr != NULL || strcmp(ff_error_text(), "") == 0)
        return 4;
    ff_error_clear();
    return printf("%s\n", ff_version()) > 0 ? 0 : 3;
}
