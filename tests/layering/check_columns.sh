#!/bin/bash
# usage: check_columns.sh [--shrink] [tree]
# Fails when a source or script has a line of more than 120 columns, comments included. long_lines.txt beside the script,
# or in the tree that is given, names the files that had such lines before this check existed, with their number. The
# check also fails when a file has more such lines than the list says, or fewer. --shrink lowers the numbers of the list
# to the present ones, and never raises one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/shrinking_list.sh"
shrink=0
if [[ ${1:-} == --shrink ]]; then shrink=1; shift; fi
list=$here/long_lines.txt
if (( $# > 0 )); then list=$1/tests/layering/long_lines.txt; fi
cd "${1:-$(dirname "$0")/../..}"
export LC_ALL=C.UTF-8  # a column is a character, not a byte

files=()
for part in core transport sim fuzz bindings tests cmake CMakeLists.txt run .ci/run; do
  if [[ -e $part ]]; then files+=("$part"); fi
done
if (( ${#files[@]} == 0 )); then
  echo "check_columns: $PWD holds no sources" >&2
  exit 2
fi
found=$(mktemp)
trap 'rm -f "$found"' EXIT
find "${files[@]}" -type f \( -name '*.h' -o -name '*.c' -o -name '*.cc' -o -name '*.py' -o -name '*.pyi' \
  -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt -o -name run \) -print0 | sort -z |
  { xargs -0 -r grep -HcE '^.{121,}' || true; } |
  awk -F: '$2 > 0 { print $2 " " $1 }' > "$found"

too_long() {
  grep -nE '^.{121,}' "$1" | cut -c 1-80 | sed "s|^|$1:|; s|\$|...|"
  echo "$1: $2 lines of more than 120 columns; $3 allowed"
}
shorter() {
  echo "$1: $2 lines of more than 120 columns, $3 in the list: run tests/layering/check_columns.sh --shrink"
}

if (( shrink )); then
  shrink_list "$list" "$found"
else
  compare_with_list "$list" "$found" too_long shorter
fi
