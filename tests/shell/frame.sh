# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Frame of every test in shell. A test sources it first and ends with finish_checks:
#
#   # shellcheck source=tests/shell/frame.sh
#   source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
#
# It stands in a folder of its own then, $work, which goes at the end with all that the test has started. It has the paths
# of programs and sources, and counts its checks. Output of the last command is in the files `out` and `err`. By hand a test
# takes the programs of build/release; SFT_TEST_BIN and SFT_TEST_MPIEXEC name others.
set -euo pipefail

frame_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
test_folder=$(cd "$(dirname "$0")" && pwd)
source_folder=$(realpath "$frame_folder/../..")
bin=$(realpath -m "${SFT_TEST_BIN:-$source_folder/build/release/bin}")
mpiexec=${SFT_TEST_MPIEXEC:-mpirun}
sft=$bin/sft sft_config=$bin/sft-config sft_convert=$bin/sft-convert sft_generate=$bin/sft-generate
sft_inspect=$bin/sft-inspect sft_launch=$bin/sft-launch sft_prepare=$bin/sft-prepare sft_prove=$bin/sft-prove
sft_run=$bin/sft-run

work=$(mktemp -d)
trap 'jobs -p | xargs --no-run-if-empty kill -KILL 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

failures=0
shown=(out err) # files that a wrong check shows
limit_s=60      # for a program to end in, and for what is awaited to come

right() { printf 'ok    %s\n' "$*"; }

# wrong TEXT...: counts a failure and shows what was printed last.
wrong() {
  failures=$((failures + 1))
  printf 'WRONG %s\n' "$*"
  show_output
}

show_output() {
  local file
  for file in "${shown[@]}"; do
    if [[ -s $file ]]; then tail -n 40 "$file" | sed 's/^/      /'; fi
  done
}

# check NAME CONDITION...: CONDITION is a command that holds; what it prints is shown.
check() {
  local name=$1
  shift
  if "$@"; then right "$name"; else wrong "$name: not $*"; fi
}

# same_text NAME A B: the texts are equal and not empty.
same_text() {
  if [[ -n $2 && $2 == "$3" ]]; then right "$1"; else wrong "$1: $2 and $3"; fi
}

# other_text NAME A B: neither text is empty, and they are not equal.
other_text() {
  if [[ -n $2 && -n $3 && $2 != "$3" ]]; then right "$1"; else wrong "$1: $2 and $3"; fi
}

# status_of WORD...: runs it; its exit status in $status.
status_of() {
  status=0
  timeout "$limit_s" "$@" >out 2>err || status=$?
}

# succeeds NAME WORD...: the command ends well.
succeeds() {
  local name=$1 status=0
  shift
  "$@" >out 2>err || status=$?
  if [[ $status -eq 0 ]]; then right "$name"; else wrong "$name: status $status of $*"; fi
}

# refuses STATUS PATTERN WORD...: the command ends with that status and one error line, which holds the pattern (an
# extended regular expression).
refuses() {
  local expected=$1 pattern=$2 status
  shift 2
  status_of "$@"
  if [[ $status -eq $expected && $(grep -c 'error: ' err) -eq 1 ]] && grep 'error: ' err | grep -qE -- "$pattern"; then
    right "$(grep 'error: ' err | cut -c -160)"
  else
    wrong "$*: status $status, not $expected, or not one error line like /$pattern/"
  fi
}

# prints STATUS PATTERN WORD...: the command ends with that status and prints, on either stream, a line with the pattern.
prints() {
  local expected=$1 pattern=$2 status=0
  shift 2
  "$@" >out 2>&1 || status=$?
  : >err
  if [[ $status -eq $expected ]] && grep -qE -- "$pattern" out; then
    right "$(grep -m1 -E -- "$pattern" out)"
  else
    wrong "$*: status $status, not $expected, or no line like /$pattern/"
  fi
}

# await COMMAND...: returns when it succeeds; ends the test where it does not within $limit_s.
await() {
  local end=$((SECONDS + limit_s))
  until "$@"; do
    if [[ $SECONDS -ge $end ]]; then
      wrong "not within $limit_s s: $*"
      finish_checks
    fi
    sleep 0.05
  done
}

# processes_of WORDS: the processes whose command line begins so, one a line.
processes_of() {
  local candidate
  local -a words
  for candidate in /proc/[0-9]*; do
    # It may have ended. (No process is started for each of them: there are hundreds.)
    { mapfile -d '' -t words <"$candidate/cmdline"; } 2>/dev/null || continue
    if [[ "${words[*]} " == "$1 "* ]]; then echo "${candidate#/proc/}"; fi
  done
}

# stand_in FILE: makes it a command, whose body is read.
stand_in() {
  { echo '#!/usr/bin/env bash' && cat; } >"$1"
  chmod +x "$1"
}

# python_with MODULE: the first Python that has it.
python_with() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    "$candidate" -c "import $1" 2>/dev/null && { echo "$candidate"; return; }
  done
  echo "no python3 with $1: run \`make deps\`" >&2
  return 1
}

# skip_test TEXT: ends the test as one that cannot run here (SKIP_RETURN_CODE of its ctest).
skip_test() {
  echo "skipped: $1"
  exit 77
}

# finish_checks: ends the test, badly where a check was wrong.
finish_checks() {
  echo "$failures wrong"
  exit $((failures > 0))
}

# shellcheck source=tests/shell/runs.sh
source "$frame_folder/runs.sh"
