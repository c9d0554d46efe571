#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demos' common functions among the constants of each demo: run_and_stop stops a run behind its step, and refuses one
# that ends otherwise.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
demos=$source_folder/inputs/demo

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
    if [[ $ends_with -eq 75 ]]; then
      check "$run_folder (steps: $num_steps): $said" test "$succeeded" = yes -a "$num_steps" -ge 3 -a "$num_steps" -lt 100
    else
      check "$run_folder: $said" test "$succeeded" = no
      check 'which says why' grep -q 'ended with status 1, not 75' <<<"$said"
    fi
  done
done
finish_checks
