#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sp_method = auto in whole runs on emulated GPUs: ranks exchange heads where the memory is enough for it, else the row goes
# round a ring, as the dry run says; and a resumed run goes on with the method that it had.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
sft=$bin/sft_emulated
# shellcheck source=tests/shell/gpu_training.sh
source "$frame_folder/gpu_training.sh"
num_steps=4

{
  tiny_model num_key_value_heads=4 head_dim=32
  short_run "$num_steps" 'activation_checkpointing = full' 'mlp_tile_tokens = 0' 'logging_steps = 1' | sed 's/fp32/bf16/; /backend/d'
  printf 'backend = cuda\n[parallel]\ndp_shard_size = 1\nsp_size = 4\nsp_method = auto\n[checkpoint]\nsave_steps = 2\n'
} >tiny.ini
seq -f 'The number %g comes behind the one before it.' 2000 | tr '\n' ' ' |
  sed -E 's/(.{240}).*/\1/; s/.*/{"text": "&"}/' >long.jsonl
"$sft_prepare" --input long.jsonl --output data --max_length 256 >/dev/null
dry=("$sft" tiny.ini --dry-run --num_ranks 4)
on_gpus=("$mpiexec" -np 4 "$sft" tiny.ini)

# needed OPTION...: bytes of the fuller GPU in a dry run.
needed() { "${dry[@]}" --json "$@" | most_bytes 'on the GPU'; }
# method FILE: what a start table says of attention.
method() { sed -n '/^  attention  /,/^  [a-z]/p' "$1" | head -n -1; }

# What a dry run assumes that CUDA and NCCL hold of a GPU, and an emulated one does not.
assumed_gib=$("${dry[@]}" | tr -s ' \n' ' ' | sed -n 's/.*are assumed to take \([0-9.]*\) GiB.*/\1/p')
absent=$(awk "BEGIN { printf \"%d\", ($assumed_gib - 0.25) * 1024 * 1048576 }")

exchanged=$(needed --parallel.sp_method ulysses) ring=$(needed --parallel.sp_method ring --train.attention_head_groups 4)
check "a ring in groups of heads takes less ($ring, $exchanged)" test "$ring" -lt "$exchanged"

# trains_as_planned NAME BYTES PATTERN OPTION...: with GPUs of so much memory, what is assumed included.
trains_as_planned() {
  local name=$1 bytes=$2 pattern=$3
  export SFT_EMULATED_GPU_MEMORY=$((bytes - absent))
  shift 3
  succeeds "$name, planned" "${dry[@]}" --memory "$bytes" --train.output_dir "$name" "$@"
  check "$name: it fits" grep -qE '^  fits +yes' out
  method out >planned
  succeeds "$name" "${on_gpus[@]}" --train.output_dir "$name" "$@"
  check "$name: the method" grep -q "$pattern" <(method out | tr -s ' \n' ' ')
  check "$name: as planned" diff planned <(method out)
}
trains_as_planned plenty $((8 << 30)) 'exchange heads (ulysses); auto: sends the least, '
trains_as_planned scarce "$((ring + (exchanged - ring) / 16))" \
  'a ring of 4 ranks; auto: sends the least of what fits in memory, .* ulysses [0-9.]* does not fit'
check "by groups of heads" grep -qx 'attention_head_groups = 4' scarce/resolved.ini
check "the losses are those of the other way" near_in_bf16 plenty scarce

keeps=(--train.attention_head_groups 4 --checkpoint.resume_from_checkpoint auto)
rm -r scarce/checkpoint-000004
trains_as_planned scarce $((8 << 30)) 'a ring of 4 ranks; auto: as in the checkpoint that the run goes on from' "${keeps[@]}"
succeeds "a ring from the start" "${on_gpus[@]}" --train.output_dir ring --parallel.sp_method ring --train.attention_head_groups 4
check "a resumed run has its bits" same_bits ring scarce
finish_checks
