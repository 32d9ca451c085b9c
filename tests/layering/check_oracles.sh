#!/bin/bash
# usage: check_oracles.sh [tree]
# Checkers must not call what they judge. Fails, naming file and line, when one includes a header of core that is not on the list of
# those that say what data looks like, or names a function that decides. sim/README.md says of each why it is harmless.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"

files=$(find sim/checkers -name '*.h' -o -name '*.cc' | sort)
if [[ -z $files ]]; then
  echo "check_oracles: $PWD has no sim/checkers" >&2
  exit 2
fi

# shellcheck disable=SC2086 # names without spaces
awk '
function complain(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }
BEGIN {
  # Data, and the limits that the README declares.
  n = split("core/base/assert.h core/base/data_type.h core/base/ids.h core/base/rng.h core/base/time.h " \
            "core/buffers/buffer_ref.h core/coordinator/coordinator.h core/io/identity.h core/kernels/formats/format.h core/peer/effect.h core/base/holdings.h " \
            "core/peer/peer.h core/peer/options.h core/ring/request.h core/trace/event.h core/wire/link_reader.h core/wire/limits.h core/wire/message.h", list, " ")
  for (i = 1; i <= n; i++) plain[list[i]] = 1
  # Functions of those headers, and of what they include, that decide how a call is cut, travels or is computed.
  deciding = "(goes_direct|algorithm_of|is_weight|validate_encoding|reduces_in_place|scratch_bytes|direct_room|staging_bytes|" \
             "encoded_size|layout_of|bits_of|block_elements|goes_whole|owner_of_whole|format_of_chunk|reduces|has_phase|part_of|" \
             "total_weight|checksum|digest|digest_of|result_hash|highest_common|widen|narrow)"
}
/^[ \t]*#[ \t]*include[ \t]*"core\// {
  target = $0
  sub(/^[^"]*"/, "", target)
  sub(/".*$/, "", target)
  if (!(target in plain)) complain("a checker must not include \"" target "\": write what it decides a second time (sim/checkers/oracle_*)")
  next
}
{
  code = $0
  sub(/\/\/.*$/, "", code)
  gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
  gsub(/oracle::/, "", code)
  gsub(/ring::(Request|Tensor|Block|Watched)/, "", code)  # what a caller states; not what core/ring does with it
  if (code ~ /(^|[^A-Za-z0-9_:])(ring|reference|formats|kernels)::/) complain("a checker must not call core/ring or core/kernels")
  if (code ~ /(^|[^A-Za-z0-9_])(peer|wire|state|lockstep)::[a-z][A-Za-z0-9_]*\(/) complain("a checker must not call a function of core")
  rest = code
  while (match(rest, "(^|[^A-Za-z0-9_.>])" deciding "\\(")) {
    name = substr(rest, RSTART, RLENGTH)
    gsub(/[^a-z_]/, "", name)
    if (FILENAME !~ /\/oracle_/) complain("a checker must not call " name "(), which decides")
    rest = substr(rest, RSTART + RLENGTH)
  }
}
END { exit bad }
' $files || { echo "check_oracles: a checker that calls what it judges sees no mistake of it" >&2; exit 1; }
