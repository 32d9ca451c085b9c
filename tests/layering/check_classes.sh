#!/bin/bash
# usage: check_classes.sh [--all | --shrink] [tree]
# Fails when a class outside of tests has more than 20 data members, or when more than two files define its members
# outside of the class. Static members, and members of nested classes and of bases, do not count. large_classes.txt
# beside the script, or in the tree that is given, names the classes that were larger before this check existed, with
# their number. An entry that is no longer true fails, too: --shrink lowers the numbers of the list to the present ones.
# --all prints the numbers of all classes instead.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/shrinking_list.sh"
mode=check
if [[ ${1:-} == --all || ${1:-} == --shrink ]]; then mode=${1#--}; shift; fi
list=$here/large_classes.txt
if (( $# > 0 )); then list=$1/tests/layering/large_classes.txt; fi
cd "${1:-$(dirname "$0")/../..}"

folders=()
for folder in core transport sim fuzz bindings; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
if (( ${#folders[@]} == 0 )); then
  echo "check_classes: $PWD holds none of core, transport, sim, fuzz, bindings" >&2
  exit 2
fi

# The walk keeps a stack of scopes: n(amespace), c(lass), and s(kipped), which is the body of a function, an enumeration
# or an initializer. `head` is the text of the statement so far, without what was skipped. Prints "FILE:LINE: CLASS:
# COUNT what" for each finding.
all=$(find "${folders[@]}" -type f \( -name '*.h' -o -name '*.c' -o -name '*.cc' \) -print0 | sort -z |
  xargs -0 -r awk '
function begin() {
  depth = 0; kinds[0] = "n"; names[0] = ""
  head = ""
  in_comment = 0; in_macro = 0; ended_function = 0
}

# Without access labels, attributes, alignment and arguments of templates.
function plain(text) {
  while (gsub(/<[^<>]*>/, "", text)) {}
  gsub(/\[\[[^]]*\]\]/, " ", text)
  gsub(/(alignas|__attribute__|requires) *\([^()]*(\([^()]*\))?[^()]*\)/, " ", text)
  gsub(/(public|private|protected) *:/, " ", text)
  gsub(/[ \t]+/, " ", text)
  sub(/^ /, "", text)
  sub(/ $/, "", text)
  sub(/^template /, "", text)
  sub(/^typedef /, "", text)
  return text
}

# What stands before the initializer.
function declared(text) {
  if (text !~ /operator/) sub(/=.*$/, "", text)
  return text
}

# Within a list of parameters, a brace begins an initializer.
function is_balanced(text) { return gsub(/\(/, "", text) == gsub(/\)/, "", text) }

function opens(    text, name, kind, is_function) {
  text = plain(head)
  kind = "s"
  name = ""
  is_function = 0
  if (text ~ /^(inline )?namespace( |$)/) {
    kind = "n"
    name = text
    sub(/^(inline )?namespace ?/, "", name)
    name = (name == "" ? FILENAME : name) "::"
  } else if (text == "extern") kind = "n"
  else if (text ~ /^(class|struct|union)( [A-Za-z_][A-Za-z0-9_:]*)?( final)? ?(:[^(]*)?$/) {
    kind = "c"
    name = text
    sub(/^(class|struct|union) ?/, "", name)
    sub(/( final| :|: ).*$/, "", name)
    name = (name == "" ? "(" FNR ")" : name) "::"
  } else if (text !~ /^enum / && declared(text) ~ /\(/ && is_balanced(text)) {
    is_function = 1
    if (kinds[depth] == "n") defines(text)
  }
  depth++
  kinds[depth] = kind
  names[depth] = names[depth - 1] name
  functions[depth] = is_function
  if (kind == "c") {
    members[depth] = 0
    lines[depth] = FNR
    class = names[depth]
    known[substr(class, 1, length(class) - 2)] = FILENAME ":" FNR
  }
  if (kind != "s") head = ""
}

function closes(    class) {
  if (depth == 0) return
  if (kinds[depth] == "c") {
    class = names[depth]
    gsub(/.*\.(h|c|cc)::/, "", class)
    sub(/::$/, "", class)
    print FILENAME ":" lines[depth] ": " class ": " members[depth] " data members"
    head = "struct @"  # an object of the class may follow
  } else if (kinds[depth] == "n") head = ""
  else if (functions[depth]) ended_function = 1
  else head = head "@"
  depth--
}

# A function is defined at the level of a namespace.
function defines(text) {
  sub(/ ?\(.*$/, "", text)
  if (!match(text, /[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*::~?[A-Za-z_0-9]+([^A-Za-z_0-9 ]*)$/)) return
  text = substr(text, RSTART)
  sub(/::[^:]*$/, "", text)
  text = names[depth] text
  if (!((text, FILENAME) in defined)) {
    defined[text, FILENAME] = 1
    files[text]++
    where[text] = where[text] " " FILENAME
  }
}

# A statement of a class ends: counts the data members that it declares.
function ends(    text, i, n, c, level) {
  text = plain(head)
  if (text ~ /^(using|friend|static|extern|static_assert|constexpr static|inline static)([^A-Za-z0-9_]|$)/) return
  if (text ~ /^enum [^@]*@?$/ || text ~ /^(class|struct|union) [A-Za-z_0-9:]+$/) return
  if (text == "struct @" || text == "" || text ~ /operator/) return
  text = declared(text)
  if (text ~ /\(/ && text !~ /\( *\*/) return
  members[depth]++
  n = length(text)
  level = 0
  for (i = 1; i <= n; i++) {
    c = substr(text, i, 1)
    if (c ~ /[({[]/) level++
    else if (c ~ /[])}]/) level--
    else if (c == "," && level == 0) members[depth]++
  }
}

FNR == 1 { begin() }
{
  code = $0
  if (in_macro || code ~ /^[ \t]*#/) { in_macro = code ~ /\\$/; next }
  if (in_comment) { if (!sub(/^.*\*\//, "", code)) next; in_comment = 0 }
  gsub(/\\./, "", code)
  gsub(/"[^"]*"/, "", code)
  gsub(/\047[^\047]?\047/, "", code)
  sub(/\/\/.*$/, "", code)
  gsub(/\/\*[^*]*\*\//, "", code)
  if (sub(/\/\*.*$/, "", code)) in_comment = 1
  n = length(code)
  for (i = 1; i <= n; i++) {
    c = substr(code, i, 1)
    if (ended_function && c !~ /[ \t]/) {
      if (c != "," && c != "{") head = ""  # else a list of initializers goes on
      ended_function = 0
    }
    if (c == "{") opens()
    else if (c == "}") closes()
    else if (kinds[depth] == "s") continue
    else if (c == ";") {
      if (kinds[depth] == "c") ends()
      head = ""
    } else head = head c
  }
  if (kinds[depth] != "s") head = head " "
}
END {
  for (class in files) if (class in known) {
    name = class
    gsub(/.*\.(h|c|cc)::/, "", name)
    print known[class] ": " name ": " files[class] " files with definitions (" substr(where[class], 2) ")"
  }
}')

if [[ $mode == all ]]; then sort -t: -k 5 <<< "$all"; exit; fi
large=$(awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+$/) count = $i; else if ($i ~ /^(data|files)$/) break }
  ($i == "data" && count > 20) || ($i == "files" && count > 2)' <<< "$all")
found=$(mktemp)
trap 'rm -f "$found"' EXIT
# "FILE:7: NAME: 21 data members" becomes "21 FILE NAME data".
awk 'NF > 0 { file = $1; sub(/:.*$/, "", file); name = $2; sub(/:$/, "", name); print $3 " " file " " name " " $4 }' \
  <<< "$large" > "$found"

too_large() {
  local file name what
  read -r file name what <<< "$1"
  local most=20
  if [[ $what == files ]]; then most=2; fi
  grep -F "$file:" <<< "$large" | grep -F " $name: $2 $what" | sed "s/\$/; at most $most: split the class/"
}
smaller() {
  echo "tests/layering/large_classes.txt: $1: $2, $3 in the list: run tests/layering/check_classes.sh --shrink"
}
if [[ $mode == shrink ]]; then shrink_list "$list" "$found"; exit; fi
compare_with_list "$list" "$found" too_large smaller
