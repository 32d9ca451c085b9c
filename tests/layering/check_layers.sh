#!/bin/bash
# usage: check_layers.sh [tree]
# Arrows point one way: python -> c -> transport -> core <- sim <- fuzz; swarm, which python sees, stands on c and on
# sim; python also sees core/kernels/training, the per-element work of its strategies; fuzz also sees transport/tls, for
# its decoder of records; the command line and the tests see everything.
# Fails, naming file and line, when an include goes against an arrow, or when core includes anything but itself, the
# harmless part of the C++ standard library, xxHash, and (under core/kernels) Highway.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"

folders=()
for folder in core transport sim fuzz bindings tests; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
if (( ${#folders[@]} == 0 )); then
  echo "check_layers: $PWD holds none of core, transport, sim, fuzz, bindings, tests" >&2
  exit 2
fi

find "${folders[@]}" -type f \( -name '*.h' -o -name '*.hpp' -o -name '*.inc' -o -name '*.c' -o -name '*.cc' -o -name '*.cpp' \) \
  -print0 | sort -z | xargs -0 -r awk '
function complain(text) {
  printf "%s:%d: %s\n", FILENAME, FNR, text
  bad = 1
}

function words(text, into,    i, n, list) {
  n = split(text, list, " ")
  for (i = 1; i <= n; i++) into[list[i]] = 1
}

# The part of the tree that a path belongs to; "" for what is not ours.
function part_of(path) {
  if (path ~ /^(core|transport|sim|fuzz|tests)\//) return substr(path, 1, index(path, "/") - 1)
  if (path ~ /^bindings\/(c|cli|python|examples|swarm)\//) { sub(/^bindings\//, "", path); return substr(path, 1, index(path, "/") - 1) }
  if (path == "lockstep.h") return "c"
  return ""
}

BEGIN {
  # Who may include whom.
  words("core", sees_core)
  words("core transport", sees_transport)
  words("core sim", sees_sim)
  words("core sim fuzz", sees_fuzz)
  words("core transport c", sees_c)
  words("core transport c sim swarm", sees_swarm)
  words("c swarm python", sees_python)
  words("c examples", sees_examples)

  # The standard headers that core may use: values, containers in order, arithmetic. No clock, thread, entropy, file,
  # stream, locale or signal; no unordered container: their order differs between libraries.
  words("algorithm any array bit bitset cassert cctype cerrno cfloat charconv climits cmath compare concepts cstdarg " \
        "cstddef cstdint cstdio cstdlib cstring deque exception forward_list functional initializer_list iterator " \
        "limits list map memory memory_resource new numbers numeric optional queue ranges ratio set source_location " \
        "span stack stdexcept string string_view tuple type_traits typeindex typeinfo utility valarray variant " \
        "vector version", core_may_use)
}

{ line = $0; sub(/\r$/, "", line) }

line ~ /^[ \t]*#[ \t]*include/ {
  target = line
  sub(/^[ \t]*#[ \t]*include[ \t]*/, "", target)
  mark = substr(target, 1, 1)
  if (mark != "\"" && mark != "<") {
    complain("include of a macro: the layers cannot be checked; write the path")
    next
  }
  target = substr(target, 2)
  sub(/[">].*$/, "", target)

  me = part_of(FILENAME)
  other = part_of(target)

  if (target ~ /(^|\/)\.\.?(\/|$)/) {
    complain("include of \"" target "\": write the path from the top of the tree")
    next
  }
  if (other == "" && mark == "\"" && me != "examples" && me != "tests" && target !~ /\// && target !~ /^xxh(ash|3)\.h$/) {
    complain("include of \"" target "\": write the path from the top of the tree")
    next
  }

  if (other != "" && me != "tests" && me != "cli") {
    if (me == "core") allowed = other in sees_core
    else if (me == "transport") allowed = other in sees_transport
    else if (me == "sim") allowed = other in sees_sim
    else if (me == "fuzz") allowed = other in sees_fuzz || target ~ /^transport\/tls\//
    else if (me == "c") allowed = other in sees_c
    else if (me == "swarm") allowed = other in sees_swarm
    else if (me == "python") allowed = other in sees_python || target ~ /^core\/kernels\/training\//
    else if (me == "examples") allowed = other in sees_examples
    else allowed = 1
    if (!allowed) complain(me " must not include " other ": \"" target "\"")
  }
  if (me == "cli" && (other == "tests" || other == "fuzz" || other == "python")) complain(me " must not include " other ": \"" target "\"")

  if (me == "core" && other == "") {
    if (target ~ /^xxh(ash|3)\.h$/) next
    if (target ~ /^hwy\//) {
      if (FILENAME !~ /^core\/kernels\//) complain("only core/kernels may include Highway: <" target ">")
      next
    }
    if (target == "cfenv" && FILENAME ~ /^core\/kernels\//) next  # rounding must be known where numbers are made
    if (!(target in core_may_use)) complain("core must not include <" target ">; see core_may_use in tests/layering/check_layers.sh")
  }
  next
}

# Ways to reach the outside world that need no include of their own.
FILENAME ~ /^core\// {
  code = line
  sub(/\/\/.*$/, "", code)
  if (FILENAME == "core/base/assert.cc") sub(/^thread_local LastWords\*/, "", code)  # said when all is over
  if (code ~ /(^|[^A-Za-z0-9_])(thread_local|volatile|getenv|rand|srand|__DATE__|__TIME__|__asm__|asm)([^A-Za-z0-9_]|$)/ ||
      code ~ /__builtin_(readcyclecounter|ia32_rdtsc)/) {
    complain("core must be pure: " code)
  }
}

END { exit bad }
' || { echo "check_layers: arrows point one way: python -> c -> transport -> core <- sim <- fuzz" >&2; exit 1; }
