#!/bin/bash
# usage: compare_builds.sh SEEDS FOLDER SIMULATOR...
# The determinism gate: the simulators that are given, and those that are built in FOLDER by gcc -O0, by clang -O2 and for AArch64
# (run by qemu), must give the same hash for the same seeds, as drawn and (a fifth of them) in bytes mode. Prints two lines for
# each; fails when two differ.
set -euo pipefail
cd "$(dirname "$0")/../.."
seeds=${1:?usage: compare_builds.sh SEEDS FOLDER SIMULATOR...}
out=$(realpath -m "${2:?usage: compare_builds.sh SEEDS FOLDER SIMULATOR...}")
simulators=("${@:3}")
bytes_seeds=$(((seeds + 4) / 5))

mkdir -p "$out"
rm -f "$out"/*.hashes

build() {  # name, compilers, flags
  local name=$1 cc=$2 cxx=$3
  shift 3
  "${CMAKE:-cmake}" -S . -B "$out/$name" -G Ninja -DLOCKSTEP_TESTS=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" "$@" >/dev/null
  "${CMAKE:-cmake}" --build "$out/$name" --target lockstep_sim_program >/dev/null
  simulators+=("$out/$name/sim/cli/lockstep_sim")
}

det() {  # simulator, seeds, mode
  if [[ $1 == */aarch64/* ]]; then
    qemu-aarch64-static "$1" "$2" "$3"
  else
    "$1" det --seeds "$2" --mode "$3"
  fi
}

build gcc-O0 gcc g++ -DCMAKE_BUILD_TYPE=Debug
build clang-O2 clang-14 clang++-14 -DCMAKE_BUILD_TYPE=RelWithDebInfo
tests/determinism/build_aarch64.sh "$out/aarch64"
simulators+=("$out/aarch64/hash_of_seeds")

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
