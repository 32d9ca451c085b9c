# Source this file. A shrinking list names what was wrong before a check existed: lines "COUNT KEY". Nothing is added.
#
# compare_with_list LIST FOUND REFUSE STALE: FOUND has the present findings in the same form. For a key with more
# findings than the list says, calls REFUSE KEY COUNT ALLOWED; for a key with fewer, STALE KEY COUNT LISTED. Both print
# the complaint. Returns 1 if one of them was called. A list that does not exist is empty.
compare_with_list() {
  local list=$1 found=$2 refuse=$3 stale=$4 count key bad=0
  local -A listed=() now=()
  if [[ -e $list ]]; then
    while read -r count key; do
      if [[ -n $count && $count != \#* ]]; then listed[$key]=$count; fi
    done < "$list"
  fi
  while read -r count key; do now[$key]=$count; done < "$found"
  for key in "${!now[@]}"; do
    if (( now[$key] > ${listed[$key]:-0} )); then "$refuse" "$key" "${now[$key]}" "${listed[$key]:-0}"; bad=1; fi
  done
  for key in "${!listed[@]}"; do
    if (( ${now[$key]:-0} < listed[$key] )); then "$stale" "$key" "${now[$key]:-0}" "${listed[$key]}"; bad=1; fi
  done
  return $bad
}

# shrink_list LIST FOUND: lowers the counts of the list to the present ones, and never raises one.
shrink_list() {
  local count key now
  {
    grep '^#' "$1" || true
    while read -r count key; do
      if [[ -z $count || $count == \#* ]]; then continue; fi
      now=$(awk -v key="$key" '{ of = $0; sub(/^[0-9]+ /, "", of) } of == key { print $1 }' "$2")
      now=${now:-0}
      if (( now > count )); then now=$count; fi
      if (( now > 0 )); then echo "$now $key"; fi
    done < "$1" | sort -k 2
  } > "$1.new"
  mv "$1.new" "$1"
}
