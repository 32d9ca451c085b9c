#!/bin/bash
# usage: readme_example_test.sh <README.md> <api.md> <all_reduce.c> <all_reduce> <coordinator_host>
# The first C example of docs/api.md is bindings/examples/all_reduce.c to the letter, and the example of the README is a
# part of it. The program runs, its peers see the same, and when one of them is killed the others continue.
set -euo pipefail
. "$(dirname "$0")/c_block.sh"
readme=$1 api=$2 source=$3 all_reduce=$4 coordinator_host=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; head -n 5 "$work"/peer* 2> /dev/null || true; exit 1; }

c_block 1 "$api" > "$work/example.c"
diff "$work/example.c" "$source" || fail "the first C example of $api is not $source"
shown=$(c_block 1 "$readme")
[[ -n $shown && $(< "$source") == *"$shown"* ]] || fail "the C example of $readme is no part of $source"

coproc coordinator { "$coordinator_host"; }
read -r address <&"${coordinator[0]}"

# Three peers, of one mind.
pids=()
for peer in 1 2 3; do "$all_reduce" "$address" 3 > "$work/peer$peer" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid" || fail "a peer ended with status $?"; done
[[ $(wc -l < "$work/peer1") == 100 ]] || fail "peer 1 made $(wc -l < "$work/peer1") steps of 100"
grep -q "3 peers, sum 3," "$work/peer1" || fail "peer 1 found no sum of three"
cmp "$work/peer1" "$work/peer2" || fail "peers 1 and 2 differ"
cmp "$work/peer1" "$work/peer3" || fail "peers 1 and 3 differ"
echo "ok: three peers, 100 steps, equal hashes"

# Four peers; one is killed as soon as it has made a step.
mkfifo "$work/steps"
"$all_reduce" "$address" 4 > "$work/steps" & victim=$!
pids=()
for peer in 1 2 3; do "$all_reduce" "$address" 4 > "$work/peer$peer" & pids+=($!); done
exec 3< "$work/steps"
read -r _ <&3
kill -9 "$victim"
for pid in "${pids[@]}"; do wait "$pid" || fail "a survivor ended with status $?"; done
for peer in 1 2 3; do
  [[ $(wc -l < "$work/peer$peer") == 100 ]] || fail "survivor $peer made $(wc -l < "$work/peer$peer") steps of 100"
  grep -q "3 peers, sum 3," "$work/peer$peer" || fail "survivor $peer never went on among three"
done
[[ $(sed 's/^view [0-9]*: //' "$work"/peer[123] | sort | uniq -c | awk '$1 % 3' | wc -l) == 0 ]] \
  || fail "survivors differ"
echo "ok: one of four killed, the others went on"
