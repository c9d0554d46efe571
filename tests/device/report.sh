# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# What run.sh writes down: results in $output/results.tsv, a line each of part, verdict, what, and a value; what programs
# print in $output/PART/NAME.log. Uses $output, $part, $deadline (in SECONDS), $failures.

no_time="no time left" # how the value of a SKIP begins that is for the part's time alone

# record VERDICT WHAT VALUE: PASS, FAIL, SKIP, or a FIGURE without a verdict.
record() {
  printf '%s\t%s\t%s\t%s\n' "$part" "$1" "$2" "$3" >>"$output/results.tsv"
  printf '%-6s  %s%s\n' "$1" "$2" "${3:+: $3}"
  if [[ $1 == FAIL ]]; then failures=$((failures + 1)); fi
}

# judge WHAT VALUE CONDITION: PASS where the condition, an awk expression, holds.
judge() {
  if awk "BEGIN { exit !($3) }" </dev/null; then record PASS "$1" "$2"; else record FAIL "$1" "$2"; fi
}

# logged NAME COMMAND...: runs it until the part's time is up; what it prints goes to $log. Shows the end of that where it
# fails. $late: whether the time was up before it began.
logged() {
  local left=$((deadline - SECONDS)) status=0
  log=$output/$part/$1.log late=no
  shift
  if [[ $left -le 0 ]]; then
    echo "the part's time was up before it began" >"$log"
    late=yes status=124
  else
    printf '%s\n' "$*" >"$log.command"
    timeout --kill-after=10 "$left" "$@" </dev/null >"$log" 2>&1 || status=$?
  fi
  if [[ $status -ne 0 ]]; then tail -n 30 "$log" | sed 's/^/        /'; fi
  return "$status"
}

# check NAME WHAT COMMAND...: PASS where it ends well, the value is how long it took; SKIP where no time is left for it.
check() {
  local name=$1 what=$2 begin=$SECONDS status=0
  shift 2
  logged "$name" "$@" || status=$?
  if [[ $late == yes ]]; then
    record SKIP "$what" "$no_time"
    return "$status"
  fi
  case $status in
    0) record PASS "$what" "$((SECONDS - begin)) s" ;;
    124 | 137) record FAIL "$what" "no end after $((SECONDS - begin)) s" ;;
    *) record FAIL "$what" "status $status, see $log" ;;
  esac
  return "$status"
}

# value KEY FILE [FIELD]: the number behind the key on a line of its own, or another field of that line.
value() { awk -v key="$1" -v field="${3:-2}" '$1 == key { print $field; exit }' "$2"; }

# print_table: all results there are, the parts in the order of run.sh's list, and how many of what was skipped had no time
# left.
print_table() {
  echo
  local -a parts=("$@")
  local p
  for p in "${parts[@]}"; do
    awk -F '\t' -v part="$p" '$1 == part' "$output/results.tsv"
  done | awk -F '\t' -v no_time="$no_time" '
    { part[NR] = $1; verdict[NR] = $2; what[NR] = $3; value[NR] = $4
      if (length($3) > widest) widest = length($3)
      count[$2] += 1
      if ($2 == "SKIP" && index($4, no_time) == 1) late += 1 }
    END {
      for (i = 1; i <= NR; ++i) {
        printf "%-10s  %-" widest "s  %-6s  %s\n", part[i] == part[i - 1] ? "" : part[i], what[i],
               verdict[i] == "FIGURE" ? "" : verdict[i], value[i]
      }
      printf "\n%d PASS, %d FAIL, %d SKIP", count["PASS"], count["FAIL"], count["SKIP"]
      if (late) printf ", %d of them with no time left", late
      printf "\n"
    }'
}
