#!/usr/bin/env bash
# Builds every tests/fuzz/fuzz_*.c with clang's libFuzzer, address and undefined-behaviour sanitizers, and runs each.
#   tests/fuzz/run.sh SECONDS [NAME...]     NAME: stl, obj, ...; default all
# Starts from corpus/NAME; new inputs go to build-fuzz/corpus/NAME, findings to build-fuzz/NAME-*. Exit 1 on a finding.
set -euo pipefail
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [NAME...]}
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${FF_FUZZ_BUILD:-$root/build-fuzz}
cc=${FF_FUZZ_CC:-$(command -v clang-14 || command -v clang)}

mkdir -p "$build"
# What libhdf5 leaks on damaged files is its own; our blocks are counted.
{ cat "$root/tests/lsan.supp" && echo leak:libhdf5; } >"$build/lsan.supp"
export LSAN_OPTIONS=suppressions=$build/lsan.supp:print_suppressions=0
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DFF_MPI=OFF -DFF_TESTS=OFF \
      -DCMAKE_PROJECT_farfield_INCLUDE="$here/fuzz.cmake" >"$build/build.log" || { cat "$build/build.log" >&2; exit 1; }
if [ $# -eq 0 ]; then
    for source in "$here"/fuzz_*.c; do
        name=$(basename "$source" .c)
        set -- "$@" "${name#fuzz_}"
    done
fi
status=0
for name in "$@"; do
    ninja -C "$build" "fuzz_$name" >"$build/build.log" || { cat "$build/build.log" >&2; exit 1; }
    mkdir -p "$build/corpus/$name" "$here/corpus/$name"
    echo "fuzz_$name: $seconds s"
    if "$build/fuzz_$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=20000 -print_final_stats=1 \
        -artifact_prefix="$build/$name-" "$build/corpus/$name" "$here/corpus/$name" >"$build/$name.log" 2>&1; then
        grep -E 'number_of_executed_units|new_units_added' "$build/$name.log"
    else
        tail -40 "$build/$name.log"
        status=1
    fi
done
exit $status
