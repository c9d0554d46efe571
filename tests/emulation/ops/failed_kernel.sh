#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A test program on GPUs ends behind the case in which a kernel broke off, whose name it prints: CUDA gives the same error
# to all cases behind it.
#
#   failed_kernel.sh PROGRAM
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
program=$1

SFT_EMULATED_KERNEL_FAULT=sum_squares prints 201 '^elementary/sum_squares is the last case that was run' \
  "$program" --run_test=elementary
check "one case failed" test "$(grep -c 'a CUDA kernel failed (an illegal memory access' out)" -eq 1
check "it names the kernel" grep -qE 'the last kernels launched were, newest first, [a-z_, ]*sum_squares' out
succeeds "all is well without" "$program" --run_test=elementary
finish_checks
