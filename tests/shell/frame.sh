# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests in shell share: a work folder that goes at the end, data to train on, and checks that are counted. A
# test sources this file, which goes to the work folder, and ends with finish_checks. What commands print goes to the files
# `out` and `err`.

work=$(mktemp -d)
trap 'jobs -p | xargs --no-run-if-empty kill -KILL 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work" || exit 1

failures=0
shown=(out err) # files that a wrong check shows

right() { printf 'ok    %s\n' "$*"; }

# wrong TEXT...: counts a failure and shows what was printed last.
wrong() {
  failures=$((failures + 1))
  printf 'WRONG %s\n' "$*"
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

limit_s=60 # for a program to end in

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

# python_with MODULE: the first Python that has it.
python_with() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    "$candidate" -c "import $1" 2>/dev/null && { echo "$candidate"; return; }
  done
  echo "no python3 with $1: run \`make deps\`" >&2
  return 1
}

# make_pairs COUNT: pairs.jsonl, records of a prompt and its completion.
make_pairs() {
  local i
  for i in $(seq "$1"); do
    printf '{"prompt": "What is number %d?\\n", "completion": "the one after %d"}\n' "$i" $((i - 1))
  done >pairs.jsonl
}

# tiny_model: an [model] section of a model that trains in milliseconds, for the byte tokenizer.
tiny_model() {
  cat <<INI
[model]
hidden_size = 32
num_hidden_layers = 1
num_attention_heads = 4
num_key_value_heads = 2
intermediate_size = 32
vocab_size = 272
INI
}

# make_data COUNT: pairs.jsonl, and its rows in the folder `data`.
make_data() {
  make_pairs "$1"
  "${sft_prepare:?}" --input pairs.jsonl --output data --max_length 48 >/dev/null
}

# short_run MAX_STEPS [LINE...]: sections [data], [train] and [device] of a run that trains on `data` on CPUs, one row a rank
# and step. The lines are more of [train].
short_run() {
  cat <<INI
[data]
train_files = data/train-*.h5
[train]
per_device_train_batch_size = 1
max_steps = $1
precision = fp32
INI
  if [[ $# -gt 1 ]]; then printf '%s\n' "${@:2}"; fi
  printf '[device]\nbackend = cpu\n'
}

# make_run FILE RECORDS MAX_STEPS: the configuration FILE of a tiny model, every step of which is logged, and `data` for it.
# Sections [checkpoint], [optimizer] and [parallel] may follow.
make_run() {
  make_data "$2"
  tiny_model >"$1"
  short_run "$3" 'logging_steps = 1' >>"$1"
}

# await_steps FOLDER COUNT: returns when the run there has logged that many steps.
await_steps() {
  for _ in $(seq 600); do
    if [[ -e $1/metrics.jsonl && $(wc -l <"$1/metrics.jsonl") -ge $2 ]]; then return; fi
    sleep 0.05
  done
  echo "no $2 steps in $1"
  cat out err
  exit 1
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

# finish_checks: ends the test, badly where a check was wrong.
finish_checks() {
  echo "$failures wrong"
  exit $((failures > 0))
}
