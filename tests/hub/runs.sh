# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Helpers of the tests of folders in FP8 and 4 bits: a model to begin from, runs, their losses, and tensors of folders. Sourced
# once `mpiexec`, `sft` and `sft_prepare` are set.

quantized_folder=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
# shellcheck source=tests/shell/frame.sh
source "$quantized_folder/../shell/frame.sh"

run() { "${mpiexec:?}" -np "$1" "${sft:?}" "${@:2}"; }

# make_base: base/model, whose matrices are of whole blocks.
make_base() {
  {
    tiny_model | sed 's/^\(hidden_size\|intermediate_size\) = .*/\1 = 128/; s/^num_hidden_layers.*/num_hidden_layers = 2/'
    short_run 0 'output_dir = base'
    printf '[checkpoint]\nsave_hub_model = true\n'
  } >base.ini
  succeeds 'a model to begin from' run 1 base.ini
}

# same_losses A B TOLERANCE: of all steps, relative.
same_losses() {
  python3 - "$@" <<'PYTHON'
import json, sys
first, second = ([line["loss"] for line in map(json.loads, open(f"{run}/metrics.jsonl")) if "loss" in line]
                 for run in sys.argv[1:3])
assert len(first) == len(second) > 1
assert all(abs(a - b) <= float(sys.argv[3]) * abs(b) for a, b in zip(first, second)), (first, second)
PYTHON
}

# with_tensors WORD...: Python with the module tensor_files; the program comes on its standard input.
with_tensors() { PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$quantized_folder/../shell python3 - "$@"; }
