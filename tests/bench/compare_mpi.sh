#!/bin/bash
# usage: compare_mpi.sh LOCKSTEP MPI_ALL_REDUCE [ROUNDS]
# Lockstep against Open MPI over TCP on this machine: all-reduce of f32, out of place, 2 and 4 processes; 4 KiB, 64 MiB and
# 256 MiB. The two take turns, ROUNDS times (default 5), so that whatever else the machine does meets both; medians.
set -euo pipefail
lockstep=$1 mpi=$2 rounds=${3:-5}
# Only TCP, as between machines; more processes than cores; no word about being root.
mpirun=(mpirun --mca btl tcp,self --mca pml ob1 --oversubscribe --allow-run-as-root)
export OMPI_MCA_btl_base_warn_component_unused=0

# Each prints lines "bytes microseconds busbw errors".
run_lockstep() { "$lockstep" bench -p "$1" -b "$2" -e "$3" -f "$4" --only out | awk '$1 ~ /^[0-9]+$/ { print $1, $6, $8, $9 }'; }
run_mpi() { "${mpirun[@]}" -n "$1" "$mpi" "$2" "$3" "$4"; }

samples=$(mktemp)
trap 'rm -f "$samples"' EXIT
for (( round = 1; round <= rounds; ++round )); do
  for peers in 2 4; do
    for sizes in "4096 4096 2" "67108864 268435456 4"; do
      [[ -t 2 ]] && printf '\rround %d of %d, %d peers ' "$round" "$rounds" "$peers" >&2
      # shellcheck disable=SC2086 # three words
      run_lockstep "$peers" $sizes | sed "s/^/lockstep $peers /" >> "$samples"
      # shellcheck disable=SC2086
      run_mpi "$peers" $sizes | sed "s/^/mpi $peers /" >> "$samples"
    done
  done
done
[[ -t 2 ]] && printf '\r%40s\r' '' >&2

sort -k1,1 -k2,2n -k3,3n -k4,4n "$samples" | awk -v rounds="$rounds" '
  { key = $2 " " $3; n = ++count[$1, key]; time[$1, key, n] = $4; errors += $6; keys[key] = 1 }
  function median(who, key,    n) { n = count[who, key]; return (time[who, key, int((n + 1) / 2)] + time[who, key, int(n / 2) + 1]) / 2 }
  function bus(key, us,    part) { split(key, part, " "); return part[2] / us * 2 * (part[1] - 1) / part[1] / 1000 }
  END {
    printf "# all-reduce, f32, sum, out of place; medians of %d turns each; busbw in GB/s; %d wrong elements\n", rounds, errors
    printf "# %5s %12s | %12s %9s | %12s %9s | %s\n", "peers", "bytes", "lockstep us", "busbw", "Open MPI us", "busbw", "lockstep / Open MPI"
    for (key in keys) {
      split(key, part, " "); a = median("lockstep", key); b = median("mpi", key)
      printf "  %5d %12d | %12.1f %9.3f | %12.1f %9.3f | %.2f\n", part[1], part[2], a, bus(key, a), b, bus(key, b), b / a | "sort -n -k1,1 -k2,2"
    }
    close("sort -n -k1,1 -k2,2")
    exit errors > 0
  }'
