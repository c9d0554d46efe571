#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole program with device.attention = hopper on emulated GPUs of compute capability 9.0: it trains as with the kernels
# for all GPUs, whole rows, cut ones and windows, repeats its bits, and goes on without them where their numbers are wrong.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
sft=$bin/sft_emulated
# shellcheck source=tests/shell/gpu_training.sh
source "$frame_folder/gpu_training.sh"
export SFT_EMULATED_COMPUTE_CAPABILITY=90

make_tiny_run 2
on_gpus=("${train[@]}" --device.backend cuda --train.precision bf16)
on_hopper=("${on_gpus[@]}" --device.attention hopper)
differ() { ! same "$1" "$2"; }

succeeds "the kernels for all GPUs" "${on_gpus[@]}" --train.output_dir own
# Less than the trial takes for an error, so that it shows in the bits whose kernels a run has had.
export SFT_EMULATED_WGMMA_WRONG=2e-5
succeeds "those for Hopper" "${on_hopper[@]}" --train.output_dir hopper
check "it says so" grep -q 'attention: kernels for Hopper, tried beside those for all GPUs' out
check "it trains as with those for all" near_in_bf16 own hopper
check "in other bits" differ own hopper
succeeds "half of the steps" "${on_hopper[@]}" --train.output_dir halves --train.max_steps 1
succeeds "the other half" "${on_hopper[@]}" --train.output_dir halves --checkpoint.resume_from_checkpoint auto
check "a resumed run has the same bits" same_bits hopper halves

windowed=(--model.num_hidden_layers 2 --model.sliding_window 5 --model.layer_types 'full_attention,sliding_attention')
succeeds "windows by the kernels for all GPUs" "${on_gpus[@]}" "${windowed[@]}" --train.output_dir own_windows
succeeds "windows" "${on_hopper[@]}" "${windowed[@]}" --train.output_dir windows
check "it trains as with those for all" near_in_bf16 own_windows windows
check "in other bits" differ own_windows windows

cut=(--parallel.dp_shard_size 1 --parallel.sp_size 2 --data.row_order endless)
for method in ring all_gather ulysses; do
  of_method=("${cut[@]}" --parallel.sp_method "$method")
  succeeds "$method by the kernels for all GPUs" "${on_gpus[@]}" "${of_method[@]}" --train.output_dir "own_$method"
  succeeds "$method" "${on_hopper[@]}" "${of_method[@]}" --train.output_dir "$method"
  check "it trains as with those for all" near_in_bf16 "own_$method" "$method"
  check "in other bits" differ "own_$method" "$method"
done

SFT_EMULATED_WGMMA_WRONG=0.1 succeeds "wrong numbers" "${on_hopper[@]}" --train.output_dir wrong
check "it goes on with the kernels for all" grep -q 'as those for Hopper do not give what they give: ' err
check "in their bits" same_bits own wrong

refused=("${train[@]}" --device.attention hopper --train.output_dir refused)
SFT_EMULATED_COMPUTE_CAPABILITY=80 refuses 2 'its compute capability is 8\.0, and these kernels are for 9\.0' \
  "${refused[@]}" --device.backend cuda --train.precision bf16
SFT_EMULATED_GPUS=0 refuses 2 'compute on CPUs, and these kernels on GPUs' "${refused[@]}" --device.backend auto \
  --train.precision bf16
refuses 2 'does not go with precision = fp32' "${refused[@]}" --device.backend cuda --train.precision fp32
finish_checks
