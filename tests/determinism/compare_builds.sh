#!/bin/bash
# usage: compare_builds.sh SEEDS FOLDER SIMULATOR...
# The determinism gate: the simulators that are given, and two that are built in FOLDER by gcc -O0 and clang -O2, must give the same
# hash for the same seeds. Prints one line for each; fails when two differ.
set -euo pipefail
cd "$(dirname "$0")/../.."
seeds=${1:?usage: compare_builds.sh SEEDS FOLDER SIMULATOR...}
out=$(realpath -m "${2:?usage: compare_builds.sh SEEDS FOLDER SIMULATOR...}")
simulators=("${@:3}")

mkdir -p "$out"

build() {  # name, compilers, flags
  local name=$1 cc=$2 cxx=$3
  shift 3
  "${CMAKE:-cmake}" -S . -B "$out/$name" -G Ninja -DLOCKSTEP_TESTS=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" "$@" >/dev/null
  "${CMAKE:-cmake}" --build "$out/$name" --target lockstep_sim_program >/dev/null
  simulators+=("$out/$name/sim/cli/lockstep_sim")
}

build gcc-O0 gcc g++ -DCMAKE_BUILD_TYPE=Debug
build clang-O2 clang-14 clang++-14 -DCMAKE_BUILD_TYPE=RelWithDebInfo
for simulator in "${simulators[@]}"; do
  "$simulator" det --seeds "$seeds" | sed "s|^|$simulator: |"
done | tee "$out.txt"

if (( $(awk '{ print $NF }' "$out.txt" | sort -u | wc -l) != 1 )); then
  echo "compare_builds: the builds disagree; 'lockstep_sim det --seeds $seeds --trace' lists the seeds" >&2
  exit 13
fi
