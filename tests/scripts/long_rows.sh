#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rows of millions of tokens have room, as docs/benchmarks/2026-11-27-long-rows.md says: dry runs of Llama-3.1-8B on one H200
# and on eight, and of Qwen3-8B as in TRL's benchmark of context parallelism.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

runs=$source_folder/tests/tools/benchmarks/long_rows

for model in llama3-8b qwen3-8b; do cat "$runs/$model.ini" "$runs/run.ini" >"$model.ini"; done

# plan FILE MACHINE RANKS TOKENS WORD...: a dry run of one row, with what can be on the host there.
plan() {
  "$sft" "$1" --dry-run --json --machine "$2" --num_ranks "$3" --num_rows 1 --max_length "$4" --train.activation_offload true \
    --train.offload_optimizer host --train.offload_parameters host "${@:5}"
}
# fits WORD: whether the last plan does, true or false.
fits() { python3 -c 'import json; print(json.dumps(json.load(open("out"))["fits"]["fits"]))' | grep -qx "$1"; }
# gibibytes FILE: what that plan takes of the fullest GPU.
gibibytes() {
  most_bytes 'on the GPU' <"$1" | awk '{ print $1 / 2^30 }'
}
# takes LESS MORE: the last plan takes so many GiB, between these.
takes() { python3 -c 'import sys; low, taken, high = map(float, sys.argv[1:]); sys.exit(not low < taken < high)' "$1" "$(gibibytes out)" "$2"; }

pure=(--train.precision pure_bf16 --optimizer.moments_dtype bf16)
succeeds "two million tokens on one H200" plan llama3-8b.ini h200x1 1 2000000 "${pure[@]}" --train.attention_head_groups 1
check "there is room" fits true
check "in 66,529 bytes a token" takes 131 132
succeeds "2.4 million with heads in groups" plan llama3-8b.ini h200x1 1 2400000 "${pure[@]}" --train.attention_head_groups 8
check "in 56,689 bytes a token" takes 134 135
check "there is room" fits true
succeeds "2.5 million" plan llama3-8b.ini h200x1 1 2500000 "${pure[@]}" --train.attention_head_groups 8
check "there is none" fits false
for method in ring ulysses all_gather; do
  succeeds "eight million on eight H200, $method" plan llama3-8b.ini h200x8 8 8000000 "${pure[@]}" --parallel.sp_size 8 \
    --parallel.sp_method "$method"
  check "there is room" fits true
done
succeeds "TRL's row of a million on eight H100" plan qwen3-8b.ini h100x8 8 1048576 --parallel.sp_size 8 --parallel.sp_method ulysses
check "there is room" fits true
check "in half of the 56.2 GB that TRL reports" takes 20 27
finish_checks
