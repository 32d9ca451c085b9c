#!/bin/bash
# usage: build_hash.sh FOLDER COMPILER FLAG...
# Builds FOLDER/hash_of_seeds: core, sim and hash_of_seeds.cc, in a few units, side by side. The libraries that they use
# are headers, which do not depend on the machine; the rest of /usr/include does, and a cross compiler must not look at
# it. (Highway has a library too, which chooses among instruction sets: here there is one.)
set -euo pipefail
cd "$(dirname "$0")/../.."
usage="usage: build_hash.sh FOLDER COMPILER FLAG..."
out=$(realpath -m "${1:?$usage}")
compiler=${2:?$usage}
flags="-std=c++20 -ffp-contract=off -DXXH_INLINE_ALL= -DHWY_COMPILE_ONLY_STATIC -I. -isystem $out/include ${*:3}"

mkdir -p "$out/include"
for header in xxhash.h xxh3.h hwy nlohmann toml++; do ln -sfn "/usr/include/$header" "$out/include/$header"; done

units=4
# Of sim: what a World needs.
readarray -t sources < <(ls core/*/*.cc core/*/*/*.cc \
  sim/{checkers,engine,flow,network,plan,scenario,search,words,workload,world}/*.cc tests/determinism/hash_of_seeds.cc |
  grep -v '^core/base/mutant.cc$')
for ((unit = 0; unit < units; unit++)); do
  for ((i = unit * ${#sources[@]} / units; i < (unit + 1) * ${#sources[@]} / units; i++)); do
    echo "#include \"${sources[i]}\""
  done > "$out/unit_$unit.cc"
done

launcher=$(command -v ccache || true)
seq 0 $((units - 1)) | xargs -P "${LOCKSTEP_JOBS:-$(nproc)}" -I{} \
  bash -c "$launcher $compiler $flags -c $out/unit_{}.cc -o $out/unit_{}.o"
"$compiler" $flags "$out"/unit_*.o -o "$out/hash_of_seeds"
