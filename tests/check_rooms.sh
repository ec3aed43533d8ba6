#!/usr/bin/env bash
# Would a line know its room? Words that belong to one room of the program must not stand in another.
# Comments do not count. Prints every line that is in the wrong room and exits 1 if there is one.
#   tests/check_rooms.sh [ROOT]     ROOT: the tree to look at, default this repository
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

bad=0

# C text without comments, each line as FILE:LINE:TEXT.
code_of() {
    awk '
        FNR == 1 { inside = 0 }
        {
            line = $0; out = ""
            while (line != "") {
                if (inside) {
                    p = index(line, "*/")
                    if (!p) { line = ""; break }
                    inside = 0; line = substr(line, p + 2)
                } else {
                    a = index(line, "/*"); b = index(line, "//")
                    if (b && (!a || b < a) && substr(line, 1, b - 1) !~ /"[^"]*$/) {
                        out = out substr(line, 1, b - 1); line = ""
                    } else if (a) {
                        out = out substr(line, 1, a - 1) " "; line = substr(line, a + 2); inside = 1
                    } else { out = out line; line = "" }
                }
            }
            if (out ~ /[^ \t]/) print FILENAME ":" FNR ":" out
        }' "$@"
}

# The C and CUDA files of the program: rooms only, not tests, benches and examples.
mapfile -t files < <(find $(ls -d src mpi cuda 2>/dev/null) -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | sort)
[ ${#files[@]} -gt 0 ] || { echo "check_rooms: no sources found in $PWD" >&2; exit 1; }
code=$(code_of "${files[@]}")

# room WORDS(extended regular expression) ALLOWED(files, extended regular expression) REASON
room() {
    local hits
    hits=$(grep -E "^[^:]*:[0-9]+:.*($1)" <<<"$code" | grep -vE "^($2):" || true)
    if [ -n "$hits" ]; then
        printf '%s\n' "$hits" | sed "s|\$|    <- $3|"
        bad=1
    fi
}

room '\<MPI_[A-Za-z]|\<MPIX_|\<nccl[A-Z]'           'mpi/[^:]*'                            'MPI and NCCL belong to mpi/'
room '__shfl|<<<|\<cuda[A-Z]|__syncthreads'         'cuda/[^:]*'                           'CUDA belongs to cuda/'
room '\<H5[A-Z]{1,2}[a-z][a-z0-9_]*'                'src/mesh/ff_h5[a-z_]*\.[ch]|mpi/ff_mpi_io\.[ch]' 'HDF5 calls belong to src/mesh/ff_h5.c'
room 'H5Pset_[a-z]*mpio|\<H5FD_MPIO'                'mpi/[^:]*'                            'parallel HDF5 access belongs to mpi/'
# MPI_Init and the option parser are handed the vector by main.
room '\<argv\>'                                     'src/app/[^:]*|src/base/ff_config\.[ch]|mpi/ff_mpi_comm\.[ch]' 'the command line belongs to src/app/'
room '\<_?exit *\(|\<abort *\('                    'src/app/[^:]*'                        'only src/app/ ends the process'
room '\<v?f?printf *\(|\<f?puts *\(|\<putchar *\(|\<perror *\('  'src/base/ff_log\.c'     'printing belongs to src/base/ff_log.c'
# cuda/: host tables that live during a set-up call, in files that a C++ compiler reads.
room '\<(malloc|calloc|realloc|aligned_alloc|posix_memalign|strdup|free) *\(' 'src/base/ff_mem\.c|cuda/[^:]*' 'memory belongs to src/base/ff_mem.c'
room '\<FF_API\>'                                   'src/farfield[a-z_]*\.h|mpi/farfield_mpi\.h' 'only public headers export'
room '\<getenv *\(|\<secure_getenv *\('             'src/app/app_launcher\.c'              'no environment variable changes a result'
room '\<(rand|srand|drand48|random) *\('            '-'                                    'random numbers come from ff_rng.h'

[ $bad -eq 0 ] && echo "check_rooms: ${#files[@]} files, every line is in its room"
exit $bad
