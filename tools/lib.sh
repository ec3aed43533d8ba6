# Shared by the scripts in tools/ and .ci/: sourced, never run. Sets root (the repository) and a few functions.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '== %s (at %d s)\n' "$*" $SECONDS; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Cores to build with: what the scheduler or container lets us use.
jobs=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) # these bound nproc too

# configure DIR [cmake options]: a build folder below the repository.
configure() {
    local dir=$1
    shift
    mkdir -p "$root/build"
    cmake -S "$root" -B "$root/$dir" -G Ninja "$@" >"$root/$dir.configure.log" 2>&1 || {
        cat "$root/$dir.configure.log" >&2
        die "configuring $dir failed"
    }
}

# How far the build is that writes to standard input: on a terminal in place, else a line twice a minute.
show_progress() {
    local line next=$((SECONDS + 30))
    while read -r line; do
        if [[ $line != \[*/*]* ]]; then continue; fi
        if [ -t 1 ]; then
            printf '\r   %s ' "${line%%]*}]"
        elif [ $SECONDS -ge $next ]; then
            printf '   %s (at %d s)\n' "${line%%]*}]" $SECONDS
            next=$((SECONDS + 30))
        fi
    done
    if [ -t 1 ]; then printf '\r%20s\r' ''; fi
}

# compile DIR [targets]: all of them, or these.
compile() {
    local dir=$1
    shift
    cmake --build "$root/$dir" -j "$jobs" ${@:+--target "$@"} 2>&1 | tee "$root/$dir.build.log" | show_progress || {
        grep -v '^\[' "$root/$dir.build.log" | head -n 100 >&2
        die "building $dir failed; the whole log is $dir.build.log"
    }
}

# build DIR [cmake options]: configure and compile everything in it.
build() {
    configure "$@"
    compile "$1"
}

# run_tests DIR [ctest options]
run_tests() {
    local dir=$1
    shift
    ctest --test-dir "$root/$dir" --output-on-failure --no-tests=error "$@"
}

# run_mpi N program ...: mpirun refuses to run as root unless told so; it is told so only there. Ranks are not bound,
# since there may be more of them than cores and each has threads of its own.
run_mpi() {
    local n=$1
    shift
    local opts=(-n "$n" --oversubscribe --bind-to none)
    if [ "$(id -u)" -eq 0 ]; then opts+=(--allow-run-as-root); fi
    mpirun "${opts[@]}" "$@"
}
