#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole program on emulated GPUs: it trains as on CPUs and resumes with the same bits; a timeline changes none, nor does
# state on the node; it refuses too few GPUs, checks the machine, and ends when a rank never comes to a collective.
#
#   program.sh NVML_STAND_IN
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
sft=$bin/sft_emulated nvml=$1
# shellcheck source=tests/shell/gpu_training.sh
source "$frame_folder/gpu_training.sh"

# no_difference A B: the checkpoints have the same weights and moments.
no_difference() {
  "$sft_inspect" "$1" --optimizer --compare "$2" >tensors &&
    awk 'NR > 2 && NF > 2 { ++count; wrong += $2 != 0 } END { exit count > 20 && !wrong ? 0 : 1 }' tensors
}

# near A B: the losses of both are there, and the same to 3e-3: 8-bit floats round sums that come out on another side of a
# boundary to the next number.
near() { test "$(losses "$1" | wc -l)" -eq 4 && same_losses "$2" "$1" 3e-3; }
differs() { ! same_bits "$1" "$2"; }

make_tiny_run 4
check_training --device.comm auto

check "they save beside training" grep -q "saving checkpoint-000004 beside training" out
succeeds "2 ranks on GPUs, whose training waits for saves" "${train[@]}" --device.backend cuda --train.output_dir waits \
  --checkpoint.async false
check "the same bits" same_bits gpu waits
for step in 000002 000004; do
  succeeds "checkpoint $step is whole" "$sft_inspect" "gpu/checkpoint-$step" --verify
  check "and the same" no_difference "gpu/checkpoint-$step" "waits/checkpoint-$step"
done

# traced FOLDER: its timeline has both ranks, on all tracks that such a mesh uses, and the steps that were asked for.
traced() {
  local rank
  for rank in 0 1; do
    grep -q '"name":"block 0 backward",.*"pid":'"$rank,\"tid\":2," "$1/trace.json" || return 1          # compute
    grep -q '"name":"fsdp reduce_scatter_add",.*"pid":'"$rank,\"tid\":3," "$1/trace.json" || return 1  # communication
    [[ $(grep -c '"name":"step [23]",.*"pid":'"$rank," "$1/trace.json") -eq 2 ]] || return 1
  done
  [[ $(grep -c '"name":"step ' "$1/trace.json") -eq 4 ]]
}
succeeds "2 ranks on GPUs, with a timeline" "${train[@]}" --train.output_dir traced --device.backend cuda --train.profile_steps 2-3
check "the timeline has both ranks" traced traced
check "it changes no bit" same_bits gpu traced
check "there is none where none was asked for" test ! -e gpu/trace.json

succeeds "2 ranks on GPUs, with state and parameters on the node" "${train[@]}" --train.output_dir host \
  --device.backend cuda --train.offload_optimizer host --train.offload_parameters host
check "where they lie changes no bit" same_bits gpu host
refuses 2 'set parallel.zero_stage = 3' "${train[@]}" --train.output_dir stage_2 --device.backend cuda \
  --train.offload_parameters host --parallel.zero_stage 2

# On GPUs of compute capability 9.0.
for fp8 in tensorwise blockwise; do
  refuses 2 "train\.fp8 = $fp8. cannot be computed on this GPU .its compute capability is 8\.0" \
    "${train[@]}" --train.output_dir refused --device.backend cuda --train.fp8 "$fp8"
  export SFT_EMULATED_COMPUTE_CAPABILITY=90
  in_fp8=("${train[@]}" --train.fp8 "$fp8")
  succeeds "2 ranks on CPUs, $fp8" "${in_fp8[@]}" --device.backend cpu --train.output_dir "cpu_$fp8"
  succeeds "2 ranks on GPUs, $fp8" "${in_fp8[@]}" --device.backend cuda --train.output_dir "gpu_$fp8"
  check "GPUs train like CPUs" near "cpu_$fp8" "gpu_$fp8"
  check "it is another run than without" differs gpu "gpu_$fp8"
  succeeds "half of the steps" "${in_fp8[@]}" --device.backend cuda --train.output_dir "halves_$fp8" --train.max_steps 2
  succeeds "the other half" "${in_fp8[@]}" --device.backend cuda --train.output_dir "halves_$fp8" \
    --checkpoint.resume_from_checkpoint auto
  check "a resumed run has the same bits" same_bits "gpu_$fp8" "halves_$fp8"
  unset SFT_EMULATED_COMPUTE_CAPABILITY
done
SFT_EMULATED_COMPUTE_CAPABILITY=100 refuses 2 'cuBLAS multiplies with scales of 128 numbers on 9\.0 alone' \
  "${train[@]}" --train.output_dir refused --device.backend cuda --train.fp8 blockwise
SFT_EMULATED_COMPUTE_CAPABILITY=100 succeeds "one scale for a matrix, on other GPUs" \
  "${train[@]}" --train.output_dir other_fp8 --device.backend cuda --train.fp8 tensorwise
check "with the same bits" same_bits gpu_tensorwise other_fp8

SFT_EMULATED_DRIVER=12080 refuses 2 'GPUs of this node cannot be used .its driver knows CUDA up to 12\.8, and .* CUDA 13' \
  "${train[@]}" --train.output_dir old_driver --device.backend auto
SFT_EMULATED_DRIVER=12080 succeeds "an old driver, and CPUs are asked for" \
  "${train[@]}" --train.output_dir on_cpus --device.backend cpu
for refused in alloc register; do
  SFT_EMULATED_NCCL_REFUSES=$refused succeeds "NCCL has no memory of its own ($refused)" \
    "${train[@]}" --train.output_dir "without_$refused" --device.backend cuda
  check "it is warned of once" test "$(grep -c 'NCCL works with copies' err)" -eq 1
  check "with the same bits" same_bits gpu "without_$refused"
done

export XDG_CACHE_HOME=$work/cache
tuned=("${train[@]}" --device.backend cuda --device.matmul_autotune true)
SFT_EMULATED_FASTEST_MATMUL=3 succeeds "measured products" "${tuned[@]}" --train.output_dir tuned
check "it says what that gained" \
  grep -qE 'matmul: ([0-9]+) of \1 products measured in .*, [0-9.]+ % faster together than what cuBLASLt puts first' out
check "the list lies with the run and with the user" cmp tuned/matmul_algorithms.txt cache/sft/matmul/*
check "it trains as ever" alike gpu tuned
succeeds "with the list of the user, half of the steps" "${tuned[@]}" --train.output_dir tuned_halves --train.max_steps 2
check "nothing is measured again" grep -qE 'matmul: 0 of [0-9]+ products measured' out
rm -r cache
succeeds "the other half, with the list of the run" \
  "${tuned[@]}" --train.output_dir tuned_halves --checkpoint.resume_from_checkpoint auto
check "nothing is measured again" grep -qE 'matmul: 0 of [0-9]+ products measured' out
check "with the same bits" same_bits tuned tuned_halves
export SFT_EMULATED_COMPUTE_CAPABILITY=90
tuned=("${tuned[@]}" --train.fp8 blockwise --train.output_dir tuned_fp8)
SFT_EMULATED_FASTEST_MATMUL=3 succeeds "measured products in fp8, half of the steps" "${tuned[@]}" --train.max_steps 2
check "they are measured" grep -qE 'matmul: ([0-9]+) of \1 products measured in .*, [0-9.]+ % faster together' out
check "the list has them, beside others" test "$(cut -d ' ' -f 1 tuned_fp8/matmul_algorithms.txt | grep -c '^fp8$')" -gt 3 -a \
  "$(grep -cE '^[0-9]+x' tuned_fp8/matmul_algorithms.txt)" -gt 1
rm -r cache
succeeds "the other half, with the list of the run" "${tuned[@]}" --checkpoint.resume_from_checkpoint auto
check "nothing is measured again" grep -qE 'matmul: 0 of [0-9]+ products measured' out
check "with the same bits" same_bits gpu_blockwise tuned_fp8
unset SFT_EMULATED_COMPUTE_CAPABILITY
refuses 2 'device\.matmul_autotune = true. does not go with backend = cpu' \
  "${train[@]}" --train.output_dir refused --device.backend cpu --device.matmul_autotune true

# A kernel that breaks off on one rank ends all of them.
cat >with_fault <<'SH'
#!/bin/sh
# with_fault RANK NAME[:N] WORD...: runs the words; on that rank this kernel breaks off.
[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" != "$1" ] || export SFT_EMULATED_KERNEL_FAULT="$2"
shift 2
exec "$@"
SH
chmod +x with_fault
kernels='a CUDA kernel failed \(an illegal memory access was encountered; the last kernels launched were, newest first, '
for device in '--device.comm auto' '--device.comm host' '--device.cuda_graphs true'; do
  read -ra words <<<"$device"
  for fault in gated_forward:3 update:3; do
    refuses 1 "error: rank 1: $kernels.*${fault%:*}.*\): run again with CUDA_LAUNCH_BLOCKING=1" \
      "$mpiexec" -np 2 ./with_fault 1 "$fault" "$sft" tiny.ini --device.backend cuda --train.output_dir broken "${words[@]}"
    check "it came no further" test "$(grep -c '' broken/metrics.jsonl)" -lt "$num_steps"
    rm -r broken
  done
done
SFT_EMULATED_KERNEL_FAULT=gated_forward:3 refuses 1 "error: $kernels.*gated_forward" \
  "$sft" tiny.ini --device.backend cuda --train.output_dir broken --parallel.dp_shard_size 1

export SFT_EMULATED_GPUS=1
refuses 2 'GPU' "${train[@]}" --train.output_dir few --device.backend cuda
succeeds "2 ranks on one GPU, with copies through the host" \
  "${train[@]}" --train.output_dir shared --device.backend cuda --device.comm host
check "they train like CPUs too" alike cpu shared
succeeds "2 ranks on one GPU, by a CUDA-aware MPI" \
  "${train[@]}" --train.output_dir by_mpi --device.backend cuda --device.comm mpi
check "the same bits as through the host" same_bits shared by_mpi
SFT_EMULATED_CUDA_AWARE_MPI=0 refuses 2 'device\.comm = mpi. cannot send from the memory of GPUs' \
  "${train[@]}" --train.output_dir refused --device.backend cuda --device.comm mpi
unset SFT_EMULATED_GPUS

# What is measured is as large as a slow machine can measure.
succeeds "a check of the machine" "${train[@]}" --check --device.backend cuda
check "its collectives" grep -qx 'every collective is right in fsdp, fsdp gathers' out
check "each rank's GPU" test "$(grep -cE '^ *rank [01]  .*, GPU [01], GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}' out)" -eq 2
check "products and copies" test "$(grep -cE '^ *(float32 product|copy in memory.*)  +[0-9.]+ G[A-Z/a-z]+  slowest: rank' out)" -eq 2
check "no clock without the driver's library" test "$(grep -cE 'clock' out)" -eq 0
ln -s "$nvml" libnvidia-ml.so.1
export LD_LIBRARY_PATH=$PWD${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
succeeds "by a CUDA-aware MPI, with a driver" "${train[@]}" --check --device.backend cuda --device.comm mpi
check "it says how tensors travel" grep -qE '^ *collectives +MPI from the memory of the GPUs$' out
check "the clocks" grep -qE '^ *clock in products, of 1980 MHz +1395 MHz  slowest: rank [01] with 1395 MHz$' out
held='its power limit, its temperature'
check "what holds them down" grep -qF "(what holds a clock down: rank 0: $held; rank 1: $held)" out

export SFT_EMULATED_NCCL_HANG=:1:8
prints 76 'error: .*stands? still.*group fsdp waits in call' \
  "${train[@]}" --train.output_dir hang --device.backend cuda --device.comm_timeout_s 5
finish_checks
