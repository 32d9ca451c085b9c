# Source this file. c_block N DOCUMENT: the N-th C example of a Markdown file.
c_block() { awk -v n="$1" '/^```c$/ {block += 1; inside = 1; next} /^```$/ {inside = 0} inside && block == n' "$2"; }
