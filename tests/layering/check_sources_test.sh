#!/bin/bash
# Plants violations in a small tree and expects check_columns.sh, check_folders.sh, check_functions.sh and
# check_mentions.sh to find each of them, and to accept the tree without them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

accepts() {  # check
  local said
  said=$("$here/$1" "$tree" 2>&1) || fail "$1 refuses what it should accept: $said"
}
refuses() {  # check, words of the complaint
  local said
  if said=$("$here/$1" "$tree" 2>&1) || [[ $said != *"$2"* ]]; then fail "$1 should say \"$2\", but said: $said"; fi
}
lines() { awk -v line="$1" -v count="$2" 'BEGIN { while (count-- > 0) print line }'; }
function_of() { echo "int $1(int n) {"; lines '  n += 1;' $(($2 - 3)); echo '  return n;'; echo '}'; }

mkdir -p "$tree"/{core/{base,peer,ring},docs,tests/layering}
export LOCKSTEP_KNOWN_ARROWS=''

# A line of 120 columns is accepted, whatever its bytes; a longer one is not, unless the list has it.
line=$(printf '%117s' '' | tr ' ' x)
echo "// ${line/x/ä}" > "$tree/core/base/a.h"
accepts check_columns.sh
echo "// ${line}x" > "$tree/core/base/a.h"
refuses check_columns.sh 'core/base/a.h: 1 lines of more than 120 columns; 0 allowed'
echo '1 core/base/a.h' > "$tree/tests/layering/long_lines.txt"
accepts check_columns.sh
echo '// short' > "$tree/core/base/a.h"
refuses check_columns.sh '0 lines of more than 120 columns, 1 in the list'
"$here/check_columns.sh" --shrink "$tree"
[[ ! -s $tree/tests/layering/long_lines.txt ]] || fail "check_columns.sh --shrink leaves a line that is not true"
echo "// ${line}x" > "$tree/core/base/a.h"
"$here/check_columns.sh" --shrink "$tree"
refuses check_columns.sh '0 allowed'

# Folders in a circle, over two and over three folders.
echo '#include "core/base/a.h"' > "$tree/core/peer/a.h"
echo '#include "core/peer/a.h"' > "$tree/core/ring/a.h"
echo '// nothing' > "$tree/core/base/a.h"
accepts check_folders.sh
echo '#include "core/ring/a.h"' > "$tree/core/peer/b.h"
refuses check_folders.sh 'core/peer/b.h:1: peer includes ring: "core/ring/a.h"'
LOCKSTEP_KNOWN_ARROWS='peer>ring' accepts check_folders.sh
rm "$tree/core/peer/b.h"
LOCKSTEP_KNOWN_ARROWS='peer>ring' refuses check_folders.sh 'peer>ring is not included any more'
echo '#include "core/ring/a.h"' > "$tree/core/base/a.h"
refuses check_folders.sh 'core/base/a.h:1: base includes ring: "core/ring/a.h"'
echo '// nothing' > "$tree/core/base/a.h"

# Functions: at file level, in a class, and with a head of several lines. Lambdas and tables do not count as functions.
{ function_of short 80; echo 'const int kTable[] = {'; lines '  1,' 100; echo '};'; } > "$tree/core/peer/a.cc"
accepts check_functions.sh
function_of long 81 >> "$tree/core/peer/a.cc"
refuses check_functions.sh 'long: 81 lines'
echo 'core/peer/a.cc long' > "$tree/tests/layering/long_functions.txt"
accepts check_functions.sh
{ echo 'namespace a {'; echo 'class B {'; function_of inside 81; echo '};'; echo '}'; } > "$tree/core/peer/b.h"
refuses check_functions.sh 'inside: 81 lines'
{ echo 'void Machine::on_input('; echo '    int n) {'; function_of lambda 79; echo '}'; } > "$tree/core/peer/b.h"
refuses check_functions.sh 'Machine::on_input: 82 lines'
rm "$tree/core/peer/b.h"
function_of short 80 > "$tree/core/peer/a.cc"
refuses check_functions.sh 'core/peer/a.cc long: is not longer than 80 lines any more'
rm "$tree/tests/layering/long_functions.txt"

# Names of files, in comments and documents; links.
{ echo '// See core/ring/a.h, ring/a.h, and b.h of another project: *.h'; } > "$tree/core/peer/a.cc"
refuses check_mentions.sh 'core/peer/a.cc:1: b.h: there is no such file'
echo 'const char* kFile = "c.h";  // as in core/ring/b.h' > "$tree/core/peer/a.cc"
refuses check_mentions.sh 'core/peer/a.cc:1: core/ring/b.h: there is no such file'
echo '/* As in peer/a.h. */' > "$tree/core/peer/a.cc"
accepts check_mentions.sh
printf '# A heading, and more\n\n[here](#a-heading-and-more) and [there](../core/peer/a.h)\n' > "$tree/docs/a.md"
accepts check_mentions.sh
echo '[nowhere](#a-heading)' >> "$tree/docs/a.md"
refuses check_mentions.sh 'docs/a.md:4: link to #a-heading: docs/a.md has no such heading'
echo 'See [the core](../core/peer/c.h).' > "$tree/docs/a.md"
refuses check_mentions.sh 'docs/a.md:1: link to ../core/peer/c.h: there is no core/peer/c.h'

# A tree without sources is a mistake of the caller.
mkdir "$tree/empty"
for check in columns folders functions mentions; do
  if "$here/check_$check.sh" "$tree/empty" > "$tree/said" 2>&1; then fail "check_$check.sh accepts an empty tree"; fi
done

if (( failures > 0 )); then echo "$failures failed"; exit 1; fi
echo "the checks of sources find what they should"
