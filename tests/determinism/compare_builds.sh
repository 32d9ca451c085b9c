#!/bin/bash
# usage: compare_builds.sh [seeds] [build folder]
# The determinism gate: the simulator must give the same hashes under gcc -O0, gcc -O2, clang -O2 and the address and
# undefined-behaviour sanitizers. Prints one line for each build; fails when two differ.
set -euo pipefail
seeds=${1:-200}
cd "$(dirname "$0")/../.."
out=$(realpath -m "${2:-build/determinism}")

mkdir -p "$out"

build() {  # name, compilers, flags
  local name=$1 cc=$2 cxx=$3
  shift 3
  cmake -S . -B "$out/$name" -G Ninja -DLOCKSTEP_TESTS=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" "$@" >/dev/null
  cmake --build "$out/$name" --target lockstep_sim_program >/dev/null
  printf '%-10s ' "$name"
  "$out/$name/sim/cli/lockstep_sim" det --seeds "$seeds"
}

{
  build gcc-O0 gcc g++ -DCMAKE_BUILD_TYPE=Debug
  build gcc-O2 gcc g++ -DCMAKE_BUILD_TYPE=RelWithDebInfo
  build clang-O2 clang-14 clang++-14 -DCMAKE_BUILD_TYPE=RelWithDebInfo
  build asan gcc g++ -DCMAKE_BUILD_TYPE=Sanitize -DLOCKSTEP_SANITIZE=address,undefined
} | tee "$out.txt"

if (( $(awk '{ print $NF }' "$out.txt" | sort -u | wc -l) != 1 )); then
  echo "compare_builds: the builds disagree; 'lockstep_sim det --seeds $seeds --trace' lists the seeds" >&2
  exit 13
fi
