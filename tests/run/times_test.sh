#!/bin/bash
# The times of steps: what ./run records in LOCKSTEP_TIMES, also when a step fails, and the table that it prints.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset LOCKSTEP_TIMES

fail() { printf 'times_test: %s\n' "$@" >&2; exit 1; }
equal() { [[ $2 == "$3" ]] || fail "$1; expected:" "$2" "but it is:" "$3"; }

# A copy of ./run in a folder where nothing is built: all packages are there, and CMake does what the test says.
mkdir "$folder/bin"
cp run "$folder/run"
printf '#!/bin/bash\necho ii\n' > "$folder/bin/dpkg-query"
cat > "$folder/bin/cmake" <<'CMAKE'
#!/bin/bash
case $1 in
  --version) echo "cmake version 3.25.1" ;;
  --preset) ! [[ -v NO_CONFIGURE ]] ;;
  --build) ! [[ -v NO_BUILD ]] ;;
esac
CMAKE
cp "$folder/bin/cmake" "$folder/bin/ctest"
chmod +x "$folder"/bin/*
export CI=1 PATH=$folder/bin:$PATH
build() { env "$@" "$folder/run" build debug > "$folder/out" 2>&1; }
steps() { cut -f1,2 "$folder/times"; }
times=LOCKSTEP_TIMES=$folder/times

build "$times"
equal "steps of a build" $'build debug\tconfigure debug\nbuild debug\tbuild debug' "$(steps)"
! grep -vqP '^[^\t]+\t[^\t]+\t\d+\t\d+$' "$folder/times" || fail "a line has other fields:" "$(cat "$folder/times")"

if build "$times" NO_BUILD=1; then fail "a build that fails ends well"; fi
equal "the step that fails" $'build debug\tbuild debug (FAILED)' "$(steps | tail -n 1)"
equal "steps of both builds" 4 "$(steps | wc -l)"

rm "$folder/times"
if build "$times" NO_CONFIGURE=1; then fail "a build that fails ends well"; fi
equal "steps of a failed configuration" $'build debug\tconfigure debug (FAILED)' "$(steps)"

rm "$folder/times"
build "$times" LOCKSTEP_BESIDE=1
equal "steps beside others" $'beside: build debug\tconfigure debug\nbeside: build debug\tbuild debug' "$(steps)"

rm "$folder/times"
build LOCKSTEP_TIMES=
[[ ! -e $folder/times ]] || fail "times without LOCKSTEP_TIMES"

printf 'check\tlint\t30500\t61000\ntest\tbuild release\t60000\t110000\ncheck\tlint\t9500\t9000\n' > "$folder/times"
equal "the table" "== times
 seconds   share    CPU s  step
    40.0  40.0 %     70.0  check: lint
    60.0  60.0 %    110.0  test: build release
   100.0 100.0 %    180.0  all" "$(./run times "$folder/times")"
printf 'test --python\ttest python\t60000\t40000\nbeside: test --tsan\tbuild tsan\t50000\t80000\n' > "$folder/times"
equal "the table of commands side by side" "== times
 seconds   share    CPU s  step
    60.0 100.0 %     40.0  test --python: test python
    50.0  83.3 %     80.0  beside: test --tsan: build tsan
    60.0 100.0 %    120.0  all" "$(./run times "$folder/times")"
: > "$folder/times"
equal "the empty table" "     0.0   0.0 %      0.0  all" "$(./run times "$folder/times" | tail -n 1)"
if ./run times "$folder/none" 2> "$folder/errors"; then fail "times of no file"; fi
grep -q 'times needs the file' "$folder/errors" || fail "another error:" "$(cat "$folder/errors")"
