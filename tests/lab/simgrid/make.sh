#!/bin/sh
# Makes golden.json anew: 20 topologies, seeds 1 to 20. Needs SimGrid (apt-get install libsimgrid-dev).
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
g++ -std=c++17 -O2 -Wall -Wextra golden.cc -lsimgrid -o "$work/golden"
seed=1
printf '[' > "$work/golden.json"
while [ "$seed" -le 20 ]; do
  [ "$seed" -eq 1 ] || printf ',\n' >> "$work/golden.json"
  "$work/golden" "$seed" --log=root.threshold:error >> "$work/golden.json"
  seed=$((seed + 1))
done
printf ']\n' >> "$work/golden.json"
mv "$work/golden.json" golden.json
