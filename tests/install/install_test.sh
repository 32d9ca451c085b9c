#!/bin/bash
# usage: install_test.sh <cmake> <build directory> <version>
# The installed files work without the source tree: through find_package and through pkg-config, shared and static, from
# C99, also after the prefix was moved. The shared library shows nothing but lockstep_*.
set -euo pipefail
cmake=$1 build=$2 version=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

expect() {  # what, wanted, found
  if [[ $2 != "$3" ]]; then printf 'FAILED: %s: expected "%s", found "%s"\n' "$1" "$2" "$3"; exit 1; fi
  echo "ok: $1: $3"
}

"$cmake" --install "$build" --prefix "$work/first" > "$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/prefix"
prefix=$work/prefix
lib=$(dirname "$(find "$prefix" -name liblockstep.a)")

"$cmake" -G Ninja -S "$here/consumer" -B "$work/consumer" "-DCMAKE_PREFIX_PATH=$prefix" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$cmake" --build "$work/consumer" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
expect "find_package, shared" "$version" "$("$work/consumer/consumer_shared")"
expect "find_package, static" "$version" "$("$work/consumer/consumer_static")"

export PKG_CONFIG_PATH=$lib/pkgconfig
flags=(-std=c99 -Wall -Wextra -pedantic -Werror)
read -ra cflags <<< "$(pkg-config --cflags lockstep)"
read -ra libs <<< "$(pkg-config --libs lockstep)"
cc "${flags[@]}" "${cflags[@]}" "$here/consumer/main.c" -o "$work/shared" "${libs[@]}" "-Wl,-rpath,$lib"
expect "pkg-config, shared" "$version" "$("$work/shared")"
expect "pkg-config, version" "$version" "$(pkg-config --modversion lockstep)"
read -ra libs <<< "$(pkg-config --static --libs lockstep)"
cc "${flags[@]}" "${cflags[@]}" "$here/consumer/main.c" -o "$work/static" -Wl,-Bstatic "${libs[0]}" -llockstep -Wl,-Bdynamic "${libs[@]}"
expect "pkg-config, static" "$version" "$("$work/static")"
expect "the static program needs no liblockstep.so" "" "$(ldd "$work/static" | grep liblockstep || true)"

foreign=$(nm -D --defined-only "$lib/liblockstep.so" | awk '$3 !~ /^lockstep_/ {print $3}')
expect "symbols other than lockstep_*" "" "$foreign"
if [[ -e $build/bindings/cli/lockstep ]]; then
  "$prefix/bin/lockstep" --help > /dev/null
  echo "ok: bin/lockstep"
fi
