#!/bin/bash
# usage: check_fields.sh [tree]
# A recording is made of lists of names, and a list may lack one. Every data member of a class of core with an
# `archive(a)` must be in its list, or in the comment above it with the reason why it is left out. Every member of a
# struct with a list of fields (fields.h in core/archive, core/wire, core/peer and core/coordinator; core/wire/state.h)
# must be in that list. Fails with file and line of each missing member. Reads the sources in the layout of
# clang-format.
set -euo pipefail
cd "${1:-$(dirname "$0")/../../..}"

find core -name '*.h' -o -name '*.cc' | sort | xargs awk '
# The open scopes, outermost first, as "a::b::"; only namespaces and classes have a name.
function path(upto,    i, text) {
  for (i = 1; i <= upto; i++) text = text name[i]
  return text
}

# Takes the members that one line of a class declares: "std::map<K, V> all_, rest_{};" has two.
function take_members(line, class,    i, n, parts, word) {
  if (line ~ /^[ \t]*(using|friend|static|constexpr|inline|enum|typedef|template|return)/) return
  if (line ~ /^[ \t]*(public|private|protected)/) return
  gsub(/\{[^{}]*\}/, "", line)
  while (gsub(/<[^<>]*>/, "", line)) {}
  gsub(/ = [^,;]*/, "", line)
  if (line ~ /\(|\)/ || line !~ /^[ \t]*[A-Za-z_:]+[ *&A-Za-z0-9_:,=]*;$/) return
  n = split(line, parts, ",")
  for (i = 1; i <= n; i++) {
    word = parts[i]
    sub(/;$/, "", word)
    sub(/^.*[ *&]/, "", word)
    if (word != "") members[class] = members[class] word " " FILENAME ":" FNR "\n"
  }
}

# The innermost class that `text` can name inside the open scopes `from`.
function resolve(text, from,    whole) {
  while (1) {
    whole = from text "::"
    if (whole in known) return whole
    if (from == "") return ""
    sub(/[A-Za-z_0-9]*::$/, "", from)
    if (from !~ /::$/) from = ""
  }
}

# The name without its innermost qualifier: a::b::C becomes a::C. Empty when it has none.
function widen(text,    parts, n, i, wider) {
  n = split(text, parts, "::")
  if (n < 2) return ""
  for (i = 1; i < n - 1; i++) wider = wider parts[i] "::"
  return wider parts[n]
}

FNR == 1 { depth = 0; comment = ""; listing = "" }

{
  line = $0
  sub(/[ \t]+$/, "", line)
  if (line ~ /^[ \t]*\/\//) {
    comment = comment " " line
    if (listing != "") body[listing] = body[listing] " " line
    next
  }
  sub(/[ \t]+\/\/ .*/, "", line)
  gsub(/"([^"\\]|\\.)*"/, "\"\"", line)

  # A list begins.
  if (listing == "" && line ~ /(archive|archive_of|fields)\(.*\) \{/) {
    of = ""
    as = ""  # how members are written there
    if (match(line, /archive_of\(Archive& a, [A-Za-z:]+& [a-z_]+\)/)) {
      of = substr(line, RSTART, RLENGTH); sub(/.*, /, "", of)
      as = of; sub(/.* /, "", as); sub(/\)/, "\\.", as)
      sub(/&.*/, "", of)
      in_class = line; sub(/^ *void /, "", in_class); sub(/archive_of\(.*/, "", in_class); of = in_class of
    } else if (match(line, /void ([A-Za-z_]+::)*archive\(Archive& a\)/)) {
      of = substr(line, RSTART + 5, RLENGTH); sub(/(::)?archive\(.*/, "", of)
    } else if (match(line, /fields\(auto&( a)?, (Is<[A-Za-z:]+>|const [A-Za-z:]+&)/)) {
      of = substr(line, RSTART, RLENGTH); sub(/.*, (Is<|const )/, "", of); sub(/[>&]$/, "", of)
      as = "m\\."
    } else {
      of = "?"
    }
    if (of != "?") {
      listing = ++lists
      from[listing] = path(depth); what[listing] = of; place[listing] = FILENAME ":" FNR; began = depth
      body[listing] = comment
      prefix[listing] = as
    }
  }
  if (listing != "") body[listing] = body[listing] " " line

  if (line ~ /;$/ && depth > 0 && kind[depth] ~ /class|unnamed/) take_members(line, path(depth))
  if (line ~ /^[ \t]*\} [a-z_]+_;$/ && kind[depth] == "unnamed") {  # struct { ... } counters_;
    word = line; sub(/^[ \t]*\} /, "", word); sub(/;$/, "", word)
    members[path(depth)] = members[path(depth)] word " " FILENAME ":" FNR "\n"
  }

  if (line ~ /^[ \t]*struct [A-Za-z]+ \{\};$/) {  # nothing to forget
    word = line; sub(/^[ \t]*struct /, "", word); sub(/ .*/, "", word)
    known[path(depth) word "::"] = 1
  }

  # Scopes that open and close.
  rest = line
  first = 1
  while (match(rest, /[{}]/)) {
    if (substr(rest, RSTART, 1) == "{") {
      depth++; kind[depth] = "other"; name[depth] = ""
      if (first && line ~ /^[ \t]*(class|struct) [A-Za-z_:]+[^;=()]*\{$/) {
        kind[depth] = "class"
        name[depth] = line; sub(/^[ \t]*(class|struct) /, "", name[depth]); sub(/[^A-Za-z0-9_:].*/, "", name[depth])
        sub(/:+$/, "", name[depth]); name[depth] = name[depth] "::"
        known[path(depth)] = 1
      } else if (first && line ~ /^[ \t]*struct \{$/) {
        kind[depth] = "unnamed"
      } else if (first && line ~ /^namespace [A-Za-z_:]+ \{$/) {
        kind[depth] = "namespace"
        name[depth] = line
        sub(/^namespace /, "", name[depth])
        sub(/ \{$/, "", name[depth])
        name[depth] = name[depth] "::"
      }
      first = 0
    } else {
      depth--
      if (listing != "" && depth == began) listing = ""
    }
    rest = substr(rest, RSTART + 1)
  }
  if (line !~ /^[ \t]*template/) comment = ""
}

END {
  for (i = 1; i <= lists; i++) {
    class = what[i] == "" ? from[i] : resolve(what[i], from[i])
    for (text = widen(what[i]); class == "" && text != ""; text = widen(text)) class = resolve(text, from[i])
    if (class == "" || !(class in known)) {
      printf "%s: a list of %s, which no header of core declares\n", place[i], what[i]
      bad = 1
      continue
    }
    n = split(members[class], each, "\n")
    for (m = 1; m < n; m++) {
      checked++
      split(each[m], one, " ")
      if (body[i] !~ ("(^|[^A-Za-z0-9_])" prefix[i] one[1] "($|[^A-Za-z0-9_])")) {
        printf "%s: %s is not in the list of %s at %s\n", one[2], one[1], substr(class, 1, length(class) - 2), place[i]
        bad = 1
      }
    }
  }
  if (lists < 3 || checked < 3) { print "check_fields: too few lists found; is this the tree?"; exit 2 }
  if (verbose) printf "%d lists, %d members\n", lists, checked
  exit bad
}' verbose="${VERBOSE:-}"
