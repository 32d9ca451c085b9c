#!/bin/bash
# usage: check_functions.sh [tree]
# Fails when a C or C++ function outside of tests is longer than 80 lines, head and braces included. long_functions.txt
# beside the script, or in the tree that is given, names the functions that were longer before this check existed. An
# entry that is no longer true fails, too: the list only shrinks.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/shrinking_list.sh"
list=$here/long_functions.txt
if (( $# > 0 )); then list=$1/tests/layering/long_functions.txt; fi
cd "${1:-$(dirname "$0")/../..}"

folders=()
for folder in core transport sim fuzz bindings; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
if (( ${#folders[@]} == 0 )); then
  echo "check_functions: $PWD holds none of core, transport, sim, fuzz, bindings" >&2
  exit 2
fi

# A block is a function's when its head has a parameter list and all blocks around it are namespaces or types.
long=$(find "${folders[@]}" -type f \( -name '*.h' -o -name '*.c' -o -name '*.cc' \) -print0 | sort -z |
  xargs -0 -r awk '
FNR == 1 { depth = 0; head = ""; head_line = 0; in_comment = 0; outer = 0 }
{
  code = $0
  if (in_comment) { if (!sub(/^.*\*\//, "", code)) next; in_comment = 0 }
  gsub(/\\./, "", code)
  gsub(/"[^"]*"/, "", code)
  gsub(/\047[^\047]?\047/, "", code)
  sub(/\/\/.*$/, "", code)
  gsub(/\/\*[^*]*\*\//, "", code)
  if (sub(/\/\*.*$/, "", code)) in_comment = 1
  if (code ~ /^[ \t]*#/) next
  n = length(code)
  for (i = 1; i <= n; i++) {
    c = substr(code, i, 1)
    if (c == "{") {
      scope = head ~ /(^|[^A-Za-z0-9_])(namespace|class|struct|union|enum|extern)([^A-Za-z0-9_]|$)/ &&
        head !~ /\)[ \t]*(const|noexcept|override|final|mutable|->|:|$)/
      if (outer == 0 && !scope && head ~ /\(/) {
        outer = depth + 1
        first = head_line
        name = head
        sub(/\(.*$/, "", name)
        sub(/[ \t]+$/, "", name)
        sub(/^.*[ \t*&]/, "", name)
      } else if (outer == 0 && !scope) outer = -(depth + 1)  # an initializer
      depth++
      head = ""; head_line = 0
    } else if (c == "}") {
      if (outer == depth) {
        if (FNR - first + 1 > 80) print FILENAME ":" first ": " name ": " FNR - first + 1
        outer = 0
      } else if (outer == -depth) outer = 0
      if (depth > 0) depth--
      head = ""; head_line = 0
    } else if (c == ";" && outer == 0) { head = ""; head_line = 0 }
    else {
      if (c !~ /[ \t]/ && head_line == 0) head_line = FNR
      if (outer == 0) head = head c
    }
  }
  if (outer == 0) head = head " "
}')

found=$(mktemp)
trap 'rm -f "$found"' EXIT
# "FILE:7: name: 81" is one finding of "FILE name".
awk -F': ?' 'NF >= 4 { name = $3; for (i = 4; i < NF; i++) name = name ":" $i; count[$1 " " name]++ }
  END { for (key in count) print count[key] " " key }' <<< "$long" > "$found"

too_long() {
  grep -F "${1%% *}:" <<< "$long" | grep -F ": ${1#* }: " | sed 's/$/ lines; at most 80: split it/'
}
shorter() {
  echo "tests/layering/long_functions.txt: $1: is not longer than 80 lines any more: take it off the list"
}
compare_with_list "$list" "$found" too_long shorter
