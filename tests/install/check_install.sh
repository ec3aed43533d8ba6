#!/usr/bin/env bash
# Install a build into a folder of its own, then use it as others would: with CMake and with pkg-config.
#   check_install.sh BUILD CC
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1
cc=$2
work=$build/tests/install
rm -rf "$work"
mkdir -p "$work"
# Move the tree after installing it: nothing in it may depend on where it was first.
cmake --install "$build" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/prefix"
prefix=$work/prefix

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name farfield.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir farfield)
# Nothing but the public names may be visible.
hidden=$(nm -D --defined-only "$libdir/libfarfield.so" | awk '$2 ~ /[TDBR]/ && $3 !~ /^(ff_|\.gomp_)/' || true)
[ -z "$hidden" ] || { echo "exported but not public: $hidden"; exit 1; }
for f in $(nm -D --defined-only "$libdir/libfarfield.so" | awk '$2 == "T" { print $3 }'); do
    grep -qw "$f" "$prefix"/include/*.h || { echo "$f is exported but in no public header"; exit 1; }
done

flags=$(pkg-config --cflags --libs farfield)
# shellcheck disable=SC2086
"$cc" -std=c11 -Wall -Werror "$here/consumer.c" -o "$work/by_pkgconfig" $flags
LD_LIBRARY_PATH=$libdir "$work/by_pkgconfig"

cmake -S "$here" -B "$work/by_cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >"$work/cmake.log"
cmake --build "$work/by_cmake" >>"$work/cmake.log"
"$work/by_cmake/consumer"

"$prefix/bin/farfield" --version
