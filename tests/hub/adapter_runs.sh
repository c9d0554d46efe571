# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of adapters share: the end of their configurations, and how they run and are read. Behind
# shell/frame.sh, in a test that has set mpiexec and sft.

# base_run: the sections behind [model] of a run that only leaves the folder base/model.
base_run() {
  cat <<INI
[data]
train_files = data/train-*.h5
[train]
max_steps = 0
output_dir = base
precision = fp32
[checkpoint]
save_hub_model = true
[device]
backend = cpu
INI
}

# run RANKS WORD...: sft on so many ranks.
run() { "${mpiexec:?}" -np "$1" "${sft:?}" "${@:2}"; }

# losses FOLDER: of every step that the run there has logged.
losses() { grep -o '"loss":[^,]*' "$1/metrics.jsonl"; }
