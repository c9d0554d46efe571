#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The trainer carries kernels for GPUs; programs that prepare, plan, ask or convert carry none.
#
#   gpu_code.sh PROGRAM...
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

# shellcheck disable=SC2317  # called through check
has_kernels() {
  readelf -SW "$1" >out && grep -qF ' .nv_fatbin ' out
}
# shellcheck disable=SC2317
lacks_kernels() {
  ! has_kernels "$1"
}
check 'sft has kernels' has_kernels "$sft"
for program; do
  check "$(basename "$program") has no kernels" lacks_kernels "$program"
done
finish_checks
