# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# What the tests of the whole program on GPUs share, emulated or real ones. Source it behind frame.sh, with $mpiexec, $sft
# and $sft_prepare set.

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

# losses FOLDER: of its steps, a line each.
# shellcheck disable=SC2317
losses() { sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }

# alike FOLDER FOLDER: the losses of both are there, and the same to 1e-5.
# shellcheck disable=SC2317  # check calls it
alike() {
  paste <(losses "$1") <(losses "$2") | awk -v steps="$num_steps" '
    NF != 2 { exit 1 }
    { n += 1; d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5 * $1) bad = 1 }
    END { exit bad || n != steps }'
}

# near_in_bf16 FOLDER FOLDER: the same but for the rounding of bf16.
# shellcheck disable=SC2317
near_in_bf16() {
  paste <(losses "$1") <(losses "$2") | awk -v steps="$num_steps" '
    NF != 2 { exit 1 }
    { n += 1; d = $1 - $2; if (d < 0) d = -d; if (d > 2e-3 * $1) bad = 1 }
    END { exit bad || n != steps }'
}

# same FOLDER FOLDER: the losses of both are the same, bit for bit.
# shellcheck disable=SC2317
same() { [[ -s $1/metrics.jsonl ]] && diff <(losses "$1") <(losses "$2"); }

# check_training WORD...: with these keys of [device], GPUs train like CPUs, and a resumed run has the same bits.
check_training() {
  local on_gpus=("${train[@]}" --device.backend cuda "$@")
  succeeds "2 ranks on CPUs" "${train[@]}" --device.backend cpu --train.output_dir cpu
  succeeds "2 ranks on GPUs" "${on_gpus[@]}" --train.output_dir gpu
  check "GPUs train like CPUs" alike cpu gpu
  succeeds "2 ranks on GPUs, half of the steps" "${on_gpus[@]}" --train.output_dir halves --train.max_steps $((num_steps / 2))
  succeeds "the other half" "${on_gpus[@]}" --train.output_dir halves --checkpoint.resume_from_checkpoint auto
  check "a resumed run has the same bits" same gpu halves
}
