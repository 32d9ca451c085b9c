#!/bin/bash
# usage: check_columns.sh [--shrink] [tree]
# Fails when a source or script has a line of more than 120 columns, comments included. long_lines.txt beside the script,
# or in the tree that is given, names the files that had such lines before this check existed, with their number. The
# check also fails when a file has more such lines than the list says, or fewer. --shrink lowers the numbers of the list
# to the present ones, and never raises one.
set -euo pipefail
shrink=0
if [[ ${1:-} == --shrink ]]; then shrink=1; shift; fi
list=$(cd "$(dirname "$0")" && pwd)/long_lines.txt
if (( $# > 0 )); then list=$1/tests/layering/long_lines.txt; fi
cd "${1:-$(dirname "$0")/../..}"
export LC_ALL=C.UTF-8  # a column is a character, not a byte

declare -A known=() now=()
if [[ -e $list ]]; then
  while read -r count file; do
    if [[ -n $count && $count != \#* ]]; then known[$file]=$count; fi
  done < "$list"
fi

files=()
for part in core transport sim fuzz bindings tests cmake CMakeLists.txt run .ci/run; do
  if [[ -e $part ]]; then files+=("$part"); fi
done
if (( ${#files[@]} == 0 )); then
  echo "check_columns: $PWD holds no sources" >&2
  exit 2
fi
while IFS=: read -r file count; do
  if (( count > 0 )); then now[$file]=$count; fi
done < <(find "${files[@]}" -type f \( -name '*.h' -o -name '*.c' -o -name '*.cc' -o -name '*.py' -o -name '*.pyi' \
  -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt -o -name run \) -print0 | sort -z | xargs -0 -r grep -HcE '^.{121,}' || true)

if (( shrink )); then
  {
    grep '^#' "$list" || true
    for file in "${!known[@]}"; do
      count=${now[$file]:-0}
      if (( count > known[$file] )); then count=${known[$file]}; fi
      if (( count > 0 )); then echo "$count $file"; fi
    done | sort -k 2
  } > "$list.new"
  mv "$list.new" "$list"
  exit 0
fi

bad=0
for file in "${!now[@]}"; do
  if (( now[$file] > ${known[$file]:-0} )); then
    grep -nE '^.{121,}' "$file" | cut -c 1-80 | sed "s|^|$file:|; s|\$|...|"
    echo "$file: ${now[$file]} lines of more than 120 columns; ${known[$file]:-0} allowed"
    bad=1
  fi
done
for file in "${!known[@]}"; do
  if (( ${now[$file]:-0} < known[$file] )); then
    echo "$file: ${now[$file]:-0} lines of more than 120 columns, ${known[$file]} in the list:" \
      "run tests/layering/check_columns.sh --shrink"
    bad=1
  fi
done
exit $bad
