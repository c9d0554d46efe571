#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The part `first` of tests/device/run.sh on an emulated GPU of compute capability 9.0 and a tiny model: every step passes
# that a machine without NVIDIA's tools and PyTorch can take.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
build=$bin/../emulated

shown=(out)

mkdir tools
# shellcheck disable=SC2016
stand_in tools/nvidia-smi <<<'if [[ $* == *compute_cap* ]]; then echo 9.0; else echo "an emulated GPU"; fi'
export PATH=$PWD/tools:$PATH PYTHON=/nowhere/python
export SFT_EMULATED_COMPUTE_CAPABILITY=90 SFT_EMULATED_GPUS=1 SFT_EMULATED_GPU_MEMORY=1073741824
export SFT_DEVICE_MODELS=tiny SFT_DEVICE_LENGTHS=32 SFT_DEVICE_TOKENS=64 SFT_DEVICE_FIRST_LAYERS=1
export SFT_DEVICE_BENCH_OPS="--copy_mib 1 --product_size 64 --repetitions 1 --peak_tflops 1"
# The emulation is slow: here no step is ended.
export SFT_DEVICE_STEP_S=2400 SFT_DEVICE_PART_S=2400

prints 0 ' PASS, 0 FAIL, 4 SKIP$' "$source_folder/tests/device/run.sh" "$build" first
check "kernels of every file, also those for Hopper" test "$(grep -c '^PASS .*a kernel of .*cu:' out)" -ge 29
check "attention for Hopper" grep -q '^PASS .*attention for Hopper as on CPUs' out
check "rates" grep -qE 'rows of 32, for Hopper: attention_forward +[0-9.]+ TF/s' out
check "NCCL without MPI" grep -qE "NCCL alone: memory +NCCL's, registered" out
check "tokens a second" grep -qE 'tiny: tokens/s +[1-9]' out
finish_checks
