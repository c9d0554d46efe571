#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demos' common functions among the constants of each demo: run_and_stop stops a run behind its step, and refuses one
# that ends otherwise.
#
# usage: tests/scripts/demo_shell.sh FOLDER_OF_THE_DEMOS
set -euo pipefail
demos=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# A run that writes a step every tenth of a second, and ends with the status given when it is stopped.
cat >run.sh <<'RUN'
trap 'exit $2' TERM
for step in {1..100}; do
  echo "{\"step\":$step,\"loss\":1}" >>"$1/metrics.jsonl"
  sleep 0.1
done
RUN

for demo in run.sh model.sh; do
  for ends_with in 75 1; do
    run_folder=$demo-$ends_with
    mkdir "$run_folder"
    said=$(
      eval "$(grep '^readonly' "$demos/$demo")"
      # shellcheck source=inputs/demo/common.sh
      source "$demos/common.sh"
      run_and_stop "$run_folder" 3 bash run.sh "$run_folder" "$ends_with" 2>&1
    ) && succeeded=yes || succeeded=no
    num_steps=$(wc -l <"$run_folder/metrics.jsonl")
    case $ends_with in
      75) [[ $succeeded == yes && $num_steps -ge 3 && $num_steps -lt 100 ]] ;;
      1) [[ $succeeded == no && $said == *"ended with status 1, not 75"* ]] ;;
    esac || {
      printf 'run_and_stop in %s (succeeded: %s, steps: %d):\n%s\n' "$run_folder" "$succeeded" "$num_steps" "$said" >&2
      exit 1
    }
  done
done
