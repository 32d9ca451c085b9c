#!/bin/bash
# Plants violations in a small tree and expects check_classes.sh, check_columns.sh, check_folders.sh, check_functions.sh
# and check_mentions.sh to find each of them, and to accept the tree without them.
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

mkdir -p "$tree"/{core/{base,peer,ring},sim/{plan,world},docs,tests/layering}
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
echo '#include "sim/plan/a.h"' > "$tree/sim/world/a.h"
echo '#include "core/base/a.h"' > "$tree/sim/plan/a.h"
accepts check_folders.sh
echo '#include "sim/world/a.h"' > "$tree/sim/plan/b.h"
refuses check_folders.sh 'folders of sim include each other in a circle'
rm -r "$tree/sim"

# Functions: at file level, in a class, and with a head of several lines. Lambdas and tables do not count as functions.
{ function_of short 80; echo 'const int kTable[] = {'; lines '  1,' 100; echo '};'; } > "$tree/core/peer/a.cc"
accepts check_functions.sh
function_of long 81 >> "$tree/core/peer/a.cc"
refuses check_functions.sh 'long: 81 lines'
echo '1 core/peer/a.cc long' > "$tree/tests/layering/long_functions.txt"
accepts check_functions.sh
{ echo 'namespace a {'; echo 'class B {'; function_of inside 81; echo '};'; echo '}'; } > "$tree/core/peer/b.h"
refuses check_functions.sh 'inside: 81 lines'
{ echo 'void Machine::on_input('; echo '    int n) {'; function_of lambda 79; echo '}'; } > "$tree/core/peer/b.h"
refuses check_functions.sh 'Machine::on_input: 82 lines'
rm "$tree/core/peer/b.h"
function_of short 80 > "$tree/core/peer/a.cc"
refuses check_functions.sh 'core/peer/a.cc long: is not longer than 80 lines any more'
rm "$tree/tests/layering/long_functions.txt"

# Classes: 20 data members, whatever else they have; more members, in each form; definitions in three files.
members_of() { awk -v count="$1" 'BEGIN { while (count-- > 0) print "  int member_" count "_ = 0;  // a count;" }'; }
other_members() {
  cat << 'END'
 public:
  Large() : member_1_{1}, member_2_(2) { start(); }
  Large(const Large&) = delete;
  Large& operator=(const Large&) = delete;
  bool operator==(const Large&) const = default;
  [[nodiscard]] int size() const { return member_1_; }
  void call(int a, const Options& options = {});
  template <typename Input> void step(Input&& input);
  static constexpr int kMost = 3;
  static int instances;
  using Index = std::map<int, int>;
  friend class Other;
  class Forward;
  enum class Phase : char { kOpen, kClosed };
  struct Nested { int a = 0; int b; };
END
}
class_of() {  # count, another line
  echo 'namespace a {'; echo 'class Large final : public Base {'
  other_members; members_of "$1"; echo "${2:-}"
  echo '};'; echo '}'
}
class_of 20 > "$tree/core/peer/c.h"
accepts check_classes.sh
class_of 21 > "$tree/core/peer/c.h"
refuses check_classes.sh 'core/peer/c.h:2: a::Large: 21 data members; at most 20'
echo '1 core/peer/c.h a::Large data' > "$tree/tests/layering/large_classes.txt"
refuses check_classes.sh 'core/peer/c.h:2: a::Large: 21 data members; at most 20'
echo '21 core/peer/c.h a::Large data' > "$tree/tests/layering/large_classes.txt"
accepts check_classes.sh
class_of 20 > "$tree/core/peer/c.h"
refuses check_classes.sh 'core/peer/c.h a::Large data: 0, 21 in the list'
"$here/check_classes.sh" --shrink "$tree"
[[ ! -s $tree/tests/layering/large_classes.txt ]] || fail "check_classes.sh --shrink leaves an entry that is not true"
rm "$tree/tests/layering/large_classes.txt"
for member in 'std::function<void(int, int)> done_ = [](int, int) { return; };' 'Other& other_;' \
  'int (*callback_)(int);' \
  'std::map<int, std::vector<int>> map_{};' 'enum class Is : char { kLess, kMore } is_ = Is::kLess;' 'int bits_ : 3;' \
  'alignas(64) std::array<int, 3> line_{1, 2, 3};' 'struct { int a; } pair_;' 'mutable char text_[4];' 'int a_;'; do
  class_of 20 "  $member" > "$tree/core/peer/c.h"
  refuses check_classes.sh 'core/peer/c.h:2: a::Large: 21 data members; at most 20'
done
class_of 19 '  int a_, b_ = 0;' > "$tree/core/peer/c.h"
refuses check_classes.sh 'core/peer/c.h:2: a::Large: 21 data members; at most 20'
class_of 3 > "$tree/core/peer/c.h"
for part in 1 2 3; do
  printf 'namespace a {\nint Large::part_%s() const {\n  return 1;\n}\n}\n' $part > "$tree/core/peer/part_$part.cc"
done
refuses check_classes.sh 'a::Large: 3 files with definitions (core/peer/part_1.cc core/peer/part_2.cc core/peer/part_3'
rm "$tree/core/peer/part_3.cc"
accepts check_classes.sh
rm "$tree"/core/peer/{c.h,part_1.cc,part_2.cc}

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
for check in classes columns folders functions mentions; do
  if "$here/check_$check.sh" "$tree/empty" > "$tree/said" 2>&1; then fail "check_$check.sh accepts an empty tree"; fi
done

if (( failures > 0 )); then echo "$failures failed"; exit 1; fi
echo "the checks of sources find what they should"
