#!/bin/bash
# usage: compare_builds.sh SEEDS FOLDER SIMULATOR...
# The determinism gate: the simulators that are given, and those that are built in FOLDER by gcc -O0, by clang -O2 and
# for AArch64 (run by qemu), must give the same hash for the same seeds, as drawn and (a fifth of them) in bytes mode.
# Prints two lines for each; fails when two differ.
set -euo pipefail
cd "$(dirname "$0")/../.."
seeds=${1:?usage: compare_builds.sh SEEDS FOLDER SIMULATOR...}
out=$(realpath -m "${2:?usage: compare_builds.sh SEEDS FOLDER SIMULATOR...}")
simulators=("${@:3}")
bytes_seeds=$(((seeds + 4) / 5))

mkdir -p "$out"
rm -f "$out"/*.hashes

det() {  # simulator, seeds, mode
  case $1 in
    */aarch64/hash_of_seeds) qemu-aarch64-static "$@" ;;
    */hash_of_seeds) "$@" ;;
    *) "$1" det --seeds "$2" --mode "$3" ;;
  esac
}

build() {  # name, compiler, flags
  tests/determinism/build_hash.sh "$out/$1" "${@:2}"
  simulators+=("$out/$1/hash_of_seeds")
}
build gcc-O0 g++ -O0
build clang-O2 clang++-14 -O2
build aarch64 aarch64-linux-gnu-g++ -O1 -static

# Side by side: one process is busy most of the time with a simulator that is emulated or unoptimized.
for ((i = 0; i < ${#simulators[@]}; i++)); do
  { det "${simulators[i]}" "$seeds" drawn; det "${simulators[i]}" "$bytes_seeds" bytes; } > "$out/$i.hashes" 2> "$out/$i.err" &
done
for job in $(jobs -p); do wait "$job" || true; done
for ((i = 0; i < ${#simulators[@]}; i++)); do
  sed "s|^|${simulators[i]}: |" "$out/$i.hashes" "$out/$i.err"
done

if (( $(md5sum "$out"/*.hashes | awk '{ print $1 }' | sort -u | wc -l) != 1 )) || [[ $(wc -l < "$out/0.hashes") != 2 ]]; then
  echo "compare_builds: the builds disagree; 'lockstep_sim det --seeds $seeds --trace' lists the seeds" >&2
  exit 13
fi
