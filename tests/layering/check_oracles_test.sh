#!/bin/bash
# Plants one line at a time into a small tree and looks whether check_oracles.sh says what it should.
set -euo pipefail
check=$(cd "$(dirname "$0")" && pwd)/check_oracles.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/sim/checkers"
failures=0

refused() {  # line, words of the complaint
  printf '// A file.\n%s\n' "$1" > "$tree/sim/checkers/a.h"
  local said
  if said=$("$check" "$tree" 2>&1) || [[ $said != *"a.h:2: "*"$2"* ]]; then
    printf 'FAILED: should refuse %s and say "%s", but said:\n%s\n' "$1" "$2" "$said"; failures=$((failures + 1))
  fi
}
accepted() {  # line
  printf '// A file.\n%s\n' "$1" > "$tree/sim/checkers/a.h"
  local said
  if ! said=$("$check" "$tree" 2>&1); then
    printf 'FAILED: refused %s\n%s\n' "$1" "$said"; failures=$((failures + 1))
  fi
}

refused '#include "core/ring/schedule.h"' 'must not include "core/ring/schedule.h"'
refused '#include "core/kernels/reference.h"' 'must not include "core/kernels/reference.h"'
refused '#include "core/kernels/checksum.h"' 'must not include'
refused '#include "core/state/election.h"' 'must not include'
refused 'if (ring::goes_direct(request)) return {};' 'must not call core/ring or core/kernels'
refused 'if (goes_direct(request)) return {};' 'must not call goes_direct()'
refused 'const auto bytes = encoded_size(format, 3);' 'must not call encoded_size()'
refused 'reference::fold(a, b);' 'must not call core/ring or core/kernels'
accepted '#include "core/ring/request.h"'
accepted 'const ring::Request& request = call.request;'
accepted 'if (oracle::is_direct(request)) return {};'
accepted 'return "encoded_size(x)";  // or checksum(y)'

if (( failures > 0 )); then echo "$failures failed"; exit 1; fi
