/* farfield: public entry points shared by all parts of the library.
 * The treecode has its own header, farfield_plan.h; MPI additions are in mpi/farfield_mpi.h. */
#ifndef FARFIELD_H
#define FARFIELD_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FF_API __attribute__((visibility("default")))
#else
#define FF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What every function that can fail returns. The exit code of the program follows from it (ff_exit_code). */
typedef enum ff_status {
    FF_OK = 0,
    FF_E_ARG,         /* an argument or option is out of range: exit 2 */
    FF_E_INPUT,       /* a file or deck is wrong: exit 2 */
    FF_E_UNSUPPORTED, /* valid, but not offered by this build or backend: exit 2 */
    FF_E_MEM,         /* memory or budget exhausted: exit 1 */
    FF_E_IO,          /* reading or writing failed (disk full, read-only target): exit 1 */
    FF_E_COMM,        /* communication between ranks failed: exit 1 */
    FF_E_CHECK,       /* a verification found a difference above its tolerance: exit 1 */
    FF_E_STOPPED,     /* stopped early with a valid checkpoint: exit 3 */
    FF_E_INTERNAL,    /* a bug of ours: exit 1 */
    FF_E_ENDED        /* stopped early on request, with nothing to go on from: exit 1 */
} ff_status;

/* Text of the first failure of this process since ff_error_clear(); "" if there was none. Owned by the library.
 *                                                                                                   Local */
FF_API const char *ff_error_text(void);

/* Forgets the text, once it was reported.                                                           Local */
FF_API void ff_error_clear(void);

/* Exit code of the program for a status: 0, 1, 2 or 3.                                              Local */
FF_API int ff_exit_code(ff_status st);

/* "0.1.0 (git 1a2b3c4)". Owned by the library.                                                      Local */
FF_API const char *ff_version(void);

#ifdef __cplusplus
}
#endif
#endif
