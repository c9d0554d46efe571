# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Trains the whole program on GPUs, emulated or real ones. frame.sh comes first, and $sft where it is another program.

# make_tiny_run STEPS: tiny.ini of so many steps of 2 ranks, with a checkpoint behind half of them.
make_tiny_run() {
  num_steps=$1
  make_run tiny.ini 12 "$num_steps"
  cat >>tiny.ini <<INI
[optimizer]
adam_epsilon = 1e-6
lr_scheduler_type = constant
[checkpoint]
save_steps = $((num_steps / 2))
[parallel]
dp_shard_size = 2
INI
}

# A run of 2 ranks; --train.output_dir is to be added.
train=("$mpiexec" -np 2 "$sft" tiny.ini)

# alike FOLDER FOLDER: the losses of both are there, and the same to 1e-5.
alike() { test "$(losses "$1" | wc -l)" -eq "$num_steps" && same_losses "$2" "$1" 1e-5; }

# near_in_bf16 FOLDER FOLDER: the same but for the rounding of bf16.
near_in_bf16() { test "$(losses "$1" | wc -l)" -eq "$num_steps" && same_losses "$2" "$1" 2e-3; }

# same_bits FOLDER FOLDER: the losses of both are the same, bit for bit.
same_bits() { [[ -s $1/metrics.jsonl ]] && diff <(losses "$1") <(losses "$2"); }

# check_training WORD...: with these keys of [device], GPUs train like CPUs, and a resumed run has the same bits.
check_training() {
  local on_gpus=("${train[@]}" --device.backend cuda "$@")
  succeeds "2 ranks on CPUs" "${train[@]}" --device.backend cpu --train.output_dir cpu
  succeeds "2 ranks on GPUs" "${on_gpus[@]}" --train.output_dir gpu
  check "GPUs train like CPUs" alike cpu gpu
  succeeds "2 ranks on GPUs, half of the steps" "${on_gpus[@]}" --train.output_dir halves --train.max_steps $((num_steps / 2))
  succeeds "the other half" "${on_gpus[@]}" --train.output_dir halves --checkpoint.resume_from_checkpoint auto
  check "a resumed run has the same bits" same_bits gpu halves
}
