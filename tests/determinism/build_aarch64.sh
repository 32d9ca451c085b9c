#!/bin/bash
# usage: build_aarch64.sh FOLDER
# Builds FOLDER/hash_of_seeds for AArch64 with Debian's cross compiler: core, sim and hash_of_seeds.cc in a few units. The libraries
# that they use are headers, which do not depend on the machine; the rest of /usr/include does, and is not looked at.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "${1:?usage: build_aarch64.sh FOLDER}")

mkdir -p "$out/include"
for header in xxhash.h xxh3.h nlohmann toml++; do ln -sfn "/usr/include/$header" "$out/include/$header"; done

units=4
readarray -t sources < <(ls core/*/*.cc sim/*.cc sim/checkers/*.cc tests/determinism/hash_of_seeds.cc | grep -v '^core/base/mutant.cc$')
for ((unit = 0; unit < units; unit++)); do
  for ((i = unit * ${#sources[@]} / units; i < (unit + 1) * ${#sources[@]} / units; i++)); do
    echo "#include \"${sources[i]}\""
  done > "$out/unit_$unit.cc"
done

compile() { aarch64-linux-gnu-g++ -std=c++20 -O1 -ffp-contract=off -DXXH_INLINE_ALL= -I. -isystem "$out/include" -c "$out/$1.cc" -o "$out/$1.o"; }
export -f compile
export out
printf 'unit_%s\n' $(seq 0 $((units - 1))) | xargs -P "${LOCKSTEP_JOBS:-$(nproc)}" -I{} bash -c 'compile {}'
aarch64-linux-gnu-g++ -static "$out"/unit_*.o -o "$out/hash_of_seeds"
