#!/bin/bash
# Plants one member at a time into a copy of core, and checks that check_fields.sh reports it.
set -euo pipefail
check=$(cd "$(dirname "$0")" && pwd)/check_fields.sh
core=$(cd "$(dirname "$0")/../../../core" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cp -r "$core" "$tree/core"
failures=0

said() { "$check" "$tree" 2>&1 || true; }

missed() {  # file, line that is there, what to write in its place, words of the complaint
  local copy=$tree/$1
  cp "$copy" "$tree/before"
  awk -v there="$2" -v instead="$3" '!done && index($0, there) { sub(/[^ ].*/, instead); done = 1 } { print }' \
    "$tree/before" > "$copy"
  if cmp -s "$copy" "$tree/before"; then
    echo "FAILED: $1 has no line '$2' (any more)"; failures=$((failures + 1))
  elif ! said | grep -F "$1:" | grep -qF "$4"; then
    printf 'FAILED: %s: %s\n  should say "%s", but said:\n%s\n' "$1" "$3" "$4" "$(said)"
    failures=$((failures + 1))
  fi
  cp "$tree/before" "$copy"
}

if [[ -n $(said) ]]; then printf 'FAILED: the tree as it is:\n%s\n' "$(said)"; exit 1; fi

# Classes with state: outside of their list, in a list in another file, in a class inside another.
missed core/peer/mesh.h 'bool closed_ = false;' 'bool closed_ = false, open_ = true;' \
  'open_ is not in the list of lockstep::peer::Mesh'
missed core/wire/link_writer.h 'bool taken_back = false;' 'bool taken_back = false, kept = true;' \
  'kept is not in the list of lockstep::wire::LinkWriter::Outgoing'
missed core/peer/admission.h 'Life life_ = ' 'std::map<CallId, Rank> new_{};' \
  'new_ is not in the list of lockstep::peer::Admission'
missed core/peer/round.h 'bool completed_early' 'std::optional<Rank> more = Rank{1};  // of it' \
  'more is not in the list of lockstep::peer::Round'
missed core/coordinator/machine.h 'std::uint64_t commits = 0' \
  'std::uint64_t commits = 0, more = 0;' \
  'more is not in the list of lockstep::coordinator::Coordinator::Machine::Counters'
missed core/coordinator/rounds.h 'CohortId, Cohort>' 'std::deque<Cohort> more_ = {};' \
  'more_ is not in the list of lockstep::coordinator::Rounds'
# Plain structs: of the wire and of the machines.
missed core/wire/message.h 'RoundKey key;' 'RoundKey other;' 'other is not in the list of lockstep::wire::'
missed core/peer/options.h 'std::string name;' 'std::string title;' \
  'title is not in the list of lockstep::peer::PeerOptions'
# A name that the list has, but for another member; and a list that lacks a name.
missed core/peer/fields.h 'a("gang", m.gang);' 'a("gang", m.group);' \
  'gang is not in the list of lockstep::peer::PeerOptions'
missed core/peer/archive.cc 'next_heartbeat_, next_timer_, held_until_);' 'next_heartbeat_, held_until_);' \
  'next_timer_ is not in the list of lockstep::peer::Session'

if (( failures > 0 )); then echo "$failures of the planted members"; exit 1; fi
