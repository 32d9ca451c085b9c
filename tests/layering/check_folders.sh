#!/bin/bash
# usage: check_folders.sh [tree]
# Fails when the folders of core, or those of sim, include each other in a circle, and names the includes of that
# circle. `known` lists the pairs of core's folders that closed a circle before this check existed. A pair that no longer
# includes fails, too: the list only shrinks.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"
known=${LOCKSTEP_KNOWN_ARROWS-''}

parts=()
for part in core sim; do
  if [[ -d $part ]]; then parts+=("$part"); fi
done
if (( ${#parts[@]} == 0 )); then
  echo "check_folders: $PWD has neither core nor sim" >&2
  exit 2
fi

find "${parts[@]}" -type f \( -name '*.h' -o -name '*.cc' \) -print0 | sort -z | xargs -0 -r awk -v known="$known" '
function folder_of(path,    parts) { split(path, parts, "/"); return parts[1] "/" parts[2] }
function part_of(folder) { return substr(folder, 1, index(folder, "/") - 1) }
function name_of(folder) { return substr(folder, index(folder, "/") + 1) }

# Walks from a folder along the arrows, the last of them first; true when it comes back to where it began.
function walk(folder, path,    i, n, next_folders) {
  if (folder in open) return complain(path)
  if (folder in over) return 0
  open[folder] = 1
  n = split(targets[folder], next_folders, " ")
  for (i = 1; i <= n; i++) if (walk(next_folders[i], path ">" next_folders[i])) return 1
  delete open[folder]
  over[folder] = 1
  return 0
}

function complain(path,    i, n, folders) {
  n = split(path, folders, ">")
  for (i = n - 1; i >= 1 && folders[i] != folders[n]; i--) {}
  print "folders of " part_of(folders[n]) " include each other in a circle:"
  for (; i < n; i++) print "  " where[folders[i] ">" folders[i + 1]]
  return 1
}

/^[ \t]*#[ \t]*include[ \t]*"(core|sim)\// {
  target = $0
  sub(/^[^"]*"/, "", target)
  sub(/".*$/, "", target)
  from = folder_of(FILENAME)
  to = folder_of(target)
  arrow = from ">" to
  if (from == to || part_of(from) != part_of(to) || arrow in where) next
  where[arrow] = FILENAME ":" FNR ": " name_of(from) " includes " name_of(to) ": \"" target "\""
  arrows[++count] = arrow
}

END {
  n = split(known, list, " ")
  for (i = 1; i <= n; i++) {
    split(list[i], ends, ">")
    arrow = "core/" ends[1] ">core/" ends[2]
    allowed[arrow] = 1
    if (arrow in where) continue
    print "tests/layering/check_folders.sh: " list[i] " is not included any more: take it off the list"
    bad = 1
  }
  for (i = 1; i <= count; i++) {
    if (arrows[i] in allowed) continue
    split(arrows[i], ends, ">")
    targets[ends[1]] = targets[ends[1]] " " ends[2]
  }
  for (folder in targets) if (!bad && walk(folder, folder)) bad = 1
  exit bad
}
'
