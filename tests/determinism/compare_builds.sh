#!/bin/bash
# usage: compare_builds.sh SEEDS FOLDER SIMULATOR...
# The determinism gate: the simulators, each a lockstep_sim or what build_hash.sh has built (for AArch64 qemu runs it),
# must give the same hash for the same seeds, as drawn and (a fifth of them) in bytes mode. Prints two lines for each,
# which lie in FOLDER; fails when two differ.
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
