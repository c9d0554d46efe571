#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What tests/device/run.sh measures, on an emulated GPU and a tiny model: every figure is there, whatever it is.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
build=$bin/../emulated

shown=(out)

export SFT_DEVICE_MODELS=tiny SFT_DEVICE_LENGTHS=32 SFT_DEVICE_STEP_TOKENS=64 SFT_DEVICE_STEPS=1 SFT_DEVICE_TOKENS=64
export SFT_DEVICE_BENCH_OPS="--copy_mib 1 --product_size 64 --repetitions 1 --peak_tflops 1" PYTHON=/nowhere/python
export SFT_EMULATED_GPU_MEMORY=1073741824
# Kernels that miss their roofline are failures, and all do here.
prints 1 ' PASS, [0-9]+ FAIL, 1 SKIP$' "$source_folder/tests/device/run.sh" "$build" rooflines products step peers
check "every memory-bound kernel" grep -qE '^rooflines .*tiny: ' out
check "all of them have a share" grep -qE 'the slowest of 2[0-9] memory-bound kernels' out
for what in matmul attention_forward attention_backward; do
  check "the rate of $what" grep -qE "rows of 32: $what +[0-9.]+ TF/s, [0-9.]+ of the roof" out
done
check "tokens a second" grep -qE 'tiny with 2 layers, rows of 32, recomputation none: tokens/s +[1-9]' out
check "a step over its products" grep -qE 'step over its products and attention +(PASS|FAIL) +[0-9]' out
finish_checks
