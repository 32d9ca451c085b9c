#!/bin/bash
# usage: requirements_test.sh <cmake> <source directory>
# Where packages are missing, configuring stops with one line that names all of them.
set -euo pipefail
cmake=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Hides what lies in /usr/include, so that every library seems to be missing.
if "$cmake" -S "$source" -B "$work/build" -DCMAKE_IGNORE_PATH=/usr/include -DLOCKSTEP_TESTS=ON > "$work/log" 2>&1; then
  echo "FAILED: it was configured without any library"
  exit 1
fi
line=$(grep 'apt-get install' "$work/log") || { cat "$work/log"; echo "FAILED: it does not say what to install"; exit 1; }
kinds=()
if [[ $(uname -m) == x86_64 ]]; then kinds=(libipsec-mb-dev); fi
for package in "${kinds[@]}" libasio-dev libcli11-dev libfmt-dev libhwy-dev libssl-dev libtomlplusplus-dev \
  libxxhash-dev nlohmann-json3-dev libgmock-dev libgtest-dev librapidcheck-dev libbenchmark-dev; do
  if [[ " $line " != *" $package "* ]]; then printf 'FAILED: "%s" does not name %s\n' "$line" "$package"; exit 1; fi
done
if [[ " $line " == *" g++ "* ]]; then printf 'FAILED: "%s" names g++, which is there\n' "$line"; exit 1; fi
if grep -q 'The CXX compiler' "$work/log"; then cat "$work/log"; echo "FAILED: it looked at compilers first"; exit 1; fi
echo "ok: $line"
