#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints a table of what each way to split costs: tokens a second of a 40M Llama on 1, 2, 4, 8 and 16 ranks, split over
# the data with each ZeRO stage, over the sequence with each method, and over tensors.
#
# usage: tests/tools/benchmarks/splits.sh [BUILD_FOLDER [PRECISION [STEPS]]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../../build/release}" && pwd)
precision=${2:-bf16} steps=${3:-3}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none

# Every step has 16 rows of 512 tokens, whatever the ranks: one document each, or a long row of 16 of them.
readonly rows=16 length=512

# rate RANKS OPTION...: tokens a second, or - for what the model or the mesh does not allow.
rate() {
  local ranks=$1
  shift
  mpirun -np "$ranks" "$build/bin/bench_step" --precision "$precision" --steps "$steps" "$@" 2>/dev/null |
    awk '$1 == "tokens_per_second" { rate = $2 } END { print rate ? rate : "-" }'
}
data_split() { rate "$1" --dp_shard_size "$1" --rows $((rows / $1)) --length $length --zero_stage "$2"; }
sequence_split() {
  rate "$1" --sp_size "$1" --rows 1 --length $((rows * length)) --document_length $length --sp_method "$2" \
    --ulysses_size "${3:-0}"
}
tensor_split() { rate "$1" --tp_size "$1" --rows $rows --length $length --tp_sequence_parallel "$2"; }

# line NAME COMMAND...: a line of the table; the command is called with the ranks, then its words.
line() {
  local name=$1 command=$2 ranks
  shift 2
  printf '| %s |' "$name"
  for ranks in 1 2 4 8 16; do printf ' %s |' "$("$command" "$ranks" "$@" || true)"; done
  printf '\n'
}

echo "tokens/s, $precision, $rows x $length tokens a step"
echo "| | 1 rank | 2 | 4 | 8 | 16 |"
echo "|---|---|---|---|---|---|"
for stage in 0 1 2 3; do line "dp_shard, zero_stage = $stage" data_split $stage; done
for method in ring all_gather ulysses; do line "sp, $method" sequence_split $method; done
line "sp, hybrid, ulysses_size = 2" sequence_split hybrid 2
line "tp" tensor_split 0
line "tp, tp_sequence_parallel" tensor_split 1
