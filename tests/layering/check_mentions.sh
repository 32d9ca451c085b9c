#!/bin/bash
# usage: check_mentions.sh [tree]
# Fails, with file and line, when a comment or a document names a file that does not exist, or when a link of a document
# leads to no file or to no heading of the file. A name is a path from the top of the tree, or the end of such a path.
# Names with * { } < > $ are patterns: the check skips them. `elsewhere` lists names that are not of this tree.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"

tree=$(mktemp)
trap 'rm -f "$tree"' EXIT
if git ls-files --error-unmatch . > /dev/null 2>&1; then
  git ls-files --cached --others --exclude-standard
else
  find . -type f | sed 's|^\./||'
fi | while read -r file; do if [[ -f $file ]]; then echo "$file"; fi; done | sort > "$tree"
if [[ ! -s $tree ]]; then
  echo "check_mentions: $PWD holds no files" >&2
  exit 2
fi

grep -E '\.(h|c|cc|py|sh|md|cmake)$|(^|/)(run|CMakeLists\.txt)$' "$tree" | grep -vE '_test\.sh$' | tr '\n' '\0' |
  xargs -0 -r awk -v tree="$tree" '
function complain(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }

function folder_of(path) { return path ~ /\// ? substr(path, 1, match(path, /\/[^\/]*$/) - 1) : "" }

# a/b/../c -> a/c
function plain(path) {
  while (path ~ /(^|\/)\.\//) sub(/\.\//, "", path)
  while (match(path, /[^\/.]+\/\.\.\//)) path = substr(path, 1, RSTART - 1) substr(path, RSTART + RLENGTH)
  return path
}

# The anchor that a heading gets: lower case, punctuation left out, blanks as dashes.
function anchor_of(heading) {
  sub(/^#+ +/, "", heading)
  heading = tolower(heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  return heading
}

function headings(path,    line, fenced) {
  if (path in read) return
  read[path] = 1
  while ((getline line < path) > 0) {
    if (line ~ /^```/) fenced = !fenced
    if (!fenced && line ~ /^#+ /) anchors[path, anchor_of(line)] = 1
  }
  close(path)
}

function follow(link,    path, anchor, at) {
  if (link ~ /^[a-z]+:/) return
  at = index(link, "#")
  anchor = at ? substr(link, at + 1) : ""
  path = at ? substr(link, 1, at - 1) : link
  path = path == "" ? FILENAME : plain((folder_of(FILENAME) == "" ? "" : folder_of(FILENAME) "/") path)
  sub(/\/$/, "", path)
  if (!(path in files) && !(path in folders)) { complain("link to " link ": there is no " path); return }
  if (anchor == "" || path !~ /\.md$/) return
  headings(path)
  if (!((path, anchor) in anchors)) complain("link to " link ": " path " has no such heading")
}

function exists(name) {
  if (name in files || name in ends) return 1
  return (plain(folder_of(FILENAME) "/" name) in files)
}

BEGIN {
  # Files of other projects, files that programs write, and names of examples.
  split("doc/PERFORMANCE.md net/core/sock.c report.md lost.toml my_program.c FOLDER/embedded.h a.cc b.cc a_test.cc",
    list, " ")
  for (i in list) elsewhere[list[i]] = 1
  kinds = "(h|c|cc|py|pyi|sh|md|cmake|toml|txt|inc)"
  name_of_file = "[A-Za-z0-9_./+~$*{}-]*[A-Za-z0-9_}*]\\." kinds "([^A-Za-z0-9_.*{-]|\\.[^a-z]|\\.?$)"
  while ((getline file < tree) > 0) {
    files[file] = 1
    rest = file
    while (match(rest, /\//)) {
      folders[substr(file, 1, length(file) - length(rest) + RSTART - 1)] = 1
      rest = substr(rest, RSTART + 1)
      ends[rest] = 1
    }
  }
}

FNR == 1 {
  is_document = FILENAME ~ /\.md$/
  marked = FILENAME ~ /\.(py|sh|cmake)$|(^|\/)(run|CMakeLists\.txt)$/
  block = 0
  fenced = 0
}

{
  line = $0
  text = ""
  if (is_document) {
    if (line ~ /^```/) { fenced = !fenced; next }
    text = line
    rest = line
    while (!fenced && match(rest, /\]\([^)]*\)/)) {
      link = substr(rest, RSTART + 2, RLENGTH - 3)
      rest = substr(rest, RSTART + RLENGTH)
      follow(link)
    }
    if (fenced) next
  } else if (marked) {
    if (line ~ /^[ \t]*#/) text = line
    else if (match(line, /  # /)) text = substr(line, RSTART)
  } else {
    if (block) { text = line; if (line ~ /\*\//) block = 0 }
    else if (match(line, /\/\//)) text = substr(line, RSTART)
    else if (match(line, /\/\*/)) { text = substr(line, RSTART); if (text !~ /\*\//) block = 1 }
  }
  gsub(/[a-z]+:\/\/[^ )]*/, "", text)
  gsub(/\]\([^)]*\)/, "]", text)
  gsub(/<[^>]*>/, "", text)
  while (match(text, name_of_file)) {
    name = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
    gsub(/[^A-Za-z0-9_*}]+$/, "", name)
    if (name ~ /[*{}$~]|[A-Z]+\.toml/ || name ~ /^(build|dist|\/|-|[0-9])/ || name in elsewhere) continue
    sub(/^\.\//, "", name)
    if (!exists(name)) complain(name ": there is no such file")
  }
}
END { exit bad }
' || exit 1
