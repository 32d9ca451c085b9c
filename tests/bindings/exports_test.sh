#!/bin/bash
# usage: exports_test.sh <liblockstep.so> <lockstep.h>
# The shared library shows exactly the functions of the header, and takes little of the stack of threads that never call
# it: glibc puts thread-local storage there.
set -euo pipefail
shown=$(nm -D --defined-only "$1" | awk '{print $3}' | sort)
declared=$(grep -o '^LOCKSTEP_API[^(]*(' "$2" | grep -o 'lockstep_[a-z_]*($' | tr -d '(' | sort)
[[ -n $declared ]] || { echo "FAILED: no function found in $2"; exit 1; }
diff <(echo "$declared") <(echo "$shown") || {
  echo "FAILED: < declared in the header, > exported by the library"
  exit 1
}
local_bytes=$(( $(readelf -lW "$1" | awk '$1 == "TLS" {print $6}') ))
(( local_bytes <= 4096 )) || {
  echo "FAILED: $local_bytes bytes of thread-local storage, at most 4096 allowed"
  exit 1
}
echo "ok: $(wc -l <<< "$shown") functions"
