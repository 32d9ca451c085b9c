#!/bin/bash
# usage: sync_state_example_test.sh <api.md> <sync_state.c> <sync_state> <coordinator_host>
# The third C example of docs/api.md is a part of bindings/examples/sync_state.c; a peer that comes later takes over
# the state of the others, has the same state as they in every step from then on, and leaves them to go on.
set -euo pipefail
. "$(dirname "$0")/c_block.sh"
api=$1 source=$2 sync_state=$3 coordinator_host=$4
work=$(mktemp -d)
founders=()
trap 'kill -9 "${founders[@]}" 2> /dev/null || true; rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; head -n 5 "$work"/newcomer "$work"/founder 2> /dev/null || true; exit 1; }

shown=$(c_block 3 "$api")
[[ -n $shown && $(< "$source") == *"$shown"* ]] || fail "the third C example of $api is no part of $source"

coproc coordinator { "$coordinator_host"; }
read -r address <&"${coordinator[0]}"

# Two that go on for as long as they are wanted; a third once they have begun.
mkfifo "$work/steps"
"$sync_state" "$address" 2 1000000 > "$work/steps" & founders+=($!)
"$sync_state" "$address" 2 1000000 > /dev/null & founders+=($!)
exec 3< "$work/steps"
for _ in 1 2 3; do read -r _ <&3; done
"$sync_state" "$address" 2 20 > "$work/newcomer" & newcomer=$!
cat <&3 > "$work/founder" & reader=$!
wait "$newcomer" || fail "the newcomer ended with status $?"
kill -9 "${founders[@]}"
wait "$reader"

grep -q "^took over the state of step [1-9][0-9]*: [1-9][0-9]* bytes$" "$work/newcomer" \
  || fail "no state was taken over"
[[ $(grep -c "^step " "$work/newcomer") == 20 ]] || fail "the newcomer took part in other than 20 steps"
while read -r line; do
  grep -qxF "$line" "$work/founder" || fail "the founders have not said: $line"
done < <(grep "^step " "$work/newcomer")
echo "ok: a newcomer took the state over, and kept it equal for 20 steps"
