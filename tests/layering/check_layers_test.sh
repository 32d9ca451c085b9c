#!/bin/bash
# Plants one include at a time into a small tree and looks whether check_layers.sh says what it should.
set -euo pipefail
check=$(cd "$(dirname "$0")" && pwd)/check_layers.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{core/{base,kernels,peer},transport,sim,fuzz,tests/core,bindings/{c/include,cli,python,examples,swarm}}
failures=0

# Writes the file: two harmless lines, then the line under test.
plant() { printf '// A file.\n#pragma once\n%s\n' "$2" > "$tree/$1"; }

refused() {  # file, line, words of the complaint
  plant "$1" "$2"
  local said
  if said=$("$check" "$tree" 2>&1); then
    echo "FAILED: accepted in $1: $2"; failures=$((failures + 1))
  elif [[ $said != *"$1:3: "*"$3"* ]]; then
    printf 'FAILED: %s: %s\n  should name %s:3 and say "%s", but said:\n%s\n' "$1" "$2" "$1" "$3" "$said"; failures=$((failures + 1))
  fi
  rm "$tree/$1"
}

accepted() {  # file, line
  plant "$1" "$2"
  local said
  if ! said=$("$check" "$tree" 2>&1); then
    printf 'FAILED: refused in %s: %s\n%s\n' "$1" "$2" "$said"; failures=$((failures + 1))
  fi
  rm "$tree/$1"
}

for header in thread mutex shared_mutex condition_variable future chrono random fstream iostream filesystem \
              unordered_map unordered_set ctime atomic sys/socket.h unistd.h asio.hpp fmt/format.h openssl/ssl.h \
              semaphore latch barrier stop_token locale csignal time.h; do
  refused core/base/a.h "#include <$header>" "core must not include <$header>"
done
refused core/peer/a.cc '#include "transport/engine.h"' 'core must not include transport'
refused core/peer/a.cc '#include "sim/world.h"' 'core must not include sim'
refused core/peer/a.cc '  #  include   "sim/world.h"  // why' 'core must not include sim'
refused core/peer/a.cc '#include <hwy/highway.h>' 'only core/kernels may include Highway'
refused core/peer/a.cc '#include <cfenv>' 'core must not include <cfenv>'
refused core/peer/a.cc '#include "../../sim/world.h"' 'path from the top'
refused core/peer/a.cc '#include "b.h"' 'path from the top'
refused core/peer/a.cc '#include SOMETHING' 'include of a macro'
refused core/peer/a.cc 'thread_local int counter = 0;' 'core must be pure'
refused core/peer/assert.cc 'thread_local LastWords* last = nullptr;' 'core must be pure'
refused core/base/assert.cc 'thread_local int counter = 0;' 'core must be pure'
accepted core/base/assert.cc 'thread_local LastWords* last = nullptr;'
refused core/peer/a.cc 'const char* home = getenv("HOME");' 'core must be pure'
refused transport/a.cc '#include "sim/world.h"' 'transport must not include sim'
refused transport/a.cc '#include "bindings/c/guard.h"' 'transport must not include c'
refused transport/a.cc '#include <lockstep.h>' 'transport must not include c'
refused sim/a.cc '#include "transport/engine.h"' 'sim must not include transport'
refused sim/a.cc '#include "fuzz/door.h"' 'sim must not include fuzz'
refused sim/a.cc '#include "tests/support/cluster.h"' 'sim must not include tests'
refused fuzz/a.cc '#include "transport/engine.h"' 'fuzz must not include transport'
refused bindings/c/a.cc '#include "sim/world.h"' 'c must not include sim'
refused bindings/python/a.cc '#include "core/base/ids.h"' 'python must not include core'
refused bindings/python/a.cc '#include "transport/engine.h"' 'python must not include transport'
refused bindings/c/a.cc '#include "bindings/swarm/swarm.h"' 'c must not include swarm'
refused sim/a.cc '#include "bindings/swarm/swarm.h"' 'sim must not include swarm'
refused bindings/swarm/a.cc '#include "tests/support/cluster.h"' 'swarm must not include tests'
refused bindings/cli/a.cc '#include "tests/support/cluster.h"' 'cli must not include tests'
refused bindings/examples/a.c '#include "core/base/ids.h"' 'examples must not include core'

accepted core/base/a.h '#include <vector>'
accepted core/base/a.h '#include "core/base/ids.h"'
accepted core/base/a.h '// no thread_local here'
accepted core/wire.cc '#include <xxhash.h>'
accepted core/kernels/a.cc '#include "hwy/foreach_target.h"'
accepted core/kernels/a.cc '#include <cfenv>'
accepted transport/a.cc '#include <asio.hpp>'
accepted transport/a.cc '#include "core/base/ids.h"'
accepted sim/a.cc '#include <unordered_map>'
accepted fuzz/a.cc '#include "sim/world.h"'
accepted fuzz/a.cc '#include "transport/tls/records.h"'
accepted bindings/c/a.cc '#include "transport/engine.h"'
accepted bindings/c/a.cc '#include "lockstep.h"'
accepted bindings/cli/a.cc '#include "sim/world.h"'
accepted bindings/python/a.cc '#include "lockstep.h"'
accepted bindings/python/a.cc '#include "core/kernels/training/outer_step.h"'
refused bindings/python/a.cc '#include "core/kernels/reduce.h"' 'python must not include core'
accepted bindings/python/a.cc '#include "bindings/swarm/swarm.h"'
accepted bindings/swarm/a.cc '#include "sim/world.h"'
accepted bindings/swarm/a.cc '#include "bindings/c/calls.h"'
accepted bindings/examples/a.c '#include <lockstep.h>'
accepted tests/core/a.cc '#include "sim/world.h"'

# Every complaint of a tree is given, not only the first; a tree without sources is a mistake of the caller.
plant core/base/a.h '#include <thread>'
plant sim/a.cc '#include "transport/engine.h"'
said=$("$check" "$tree" 2>&1) && { echo "FAILED: accepted two bad files"; failures=$((failures + 1)); }
[[ $said == *core/base/a.h:3:* && $said == *sim/a.cc:3:* ]] || { echo "FAILED: not both named: $said"; failures=$((failures + 1)); }
mkdir "$tree/empty"
if "$check" "$tree/empty" > "$tree/said" 2>&1; then echo "FAILED: accepted an empty tree"; failures=$((failures + 1)); fi

if (( failures > 0 )); then echo "$failures failed"; exit 1; fi
echo "check_layers.sh: all as it should be"
