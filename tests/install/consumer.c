/* A program outside the repository that uses the installed library. */
#include <farfield.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    if (ff_exit_code(FF_OK) != 0 || ff_exit_code(FF_E_INPUT) != 2) return 1;
    if (strcmp(ff_error_text(), "") != 0) return 2;
    return printf("%s\n", ff_version()) > 0 ? 0 : 3;
}
