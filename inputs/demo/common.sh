# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the two demos share. Source it in the root of the project.

say() { printf '\n== %s\n' "$*"; }
show() {
  printf '$ %s\n' "$*"
  "$@"
}
fail() {
  printf 'demo: %s\n' "$*" >&2
  exit 1
}

# The system's Python, which has Debian's packages, before any other.
python_with_matplotlib() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -c 'import matplotlib, h5py' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  fail "no Python with matplotlib and h5py: sudo apt-get install python3-matplotlib python3-h5py"
}

# wordnet_animals GLOSSES: the synonym sets of WordNet's file 05 (animals), without scientific names, as questions and
# answers.
wordnet_animals() {
  [[ -r $1 ]] || fail "$1 is missing: sudo apt-get install wordnet-base"
  awk '$2 == "05" && $5 !~ /[A-Z]/' "$1" | awk -f inputs/demo/wordnet_to_jsonl.awk
}

# last_step FOLDER: the last step of a run that writes there.
last_step() {
  tail -n 1 "$1/metrics.jsonl" 2>/dev/null | sed -n 's/^{"step":\([0-9]*\),.*/\1/p'
}

# run_and_stop FOLDER STEP COMMAND...: runs sft-run, which writes to FOLDER, and stops it after STEP, as a cluster would.
run_and_stop() {
  local folder=$1 last_wanted=$2 job status=0
  shift 2
  printf '$ %s\n' "$*"
  "$@" &
  job=$!
  # shellcheck disable=SC2064  # of this job
  trap "kill $job 2>/dev/null || true" EXIT
  while kill -0 $job 2>/dev/null && [[ $(last_step "$folder" || true) -lt $last_wanted ]]; do sleep 0.2; done
  printf '$ kill %s   # of sft-run\n' $job
  kill $job || true
  wait $job || status=$?
  trap - EXIT
  [[ $status -eq 75 ]] || fail "the interrupted run ended with status $status, not 75"
  echo "status 75: stopped, saved, run again to go on"
}
