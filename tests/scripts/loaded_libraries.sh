#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A build with CUDA starts where none of NVIDIA's libraries is: they are loaded when a GPU is used.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

needs_none_of() {
  readelf -d "$1" >out && ! grep -E "NEEDED.*\\[lib($2)" out
}
check 'NVIDIA libraries are not loaded at the start' needs_none_of "$sft" 'cuda|cublas|cudnn|nccl|nv'
succeeds 'sft starts without them' env -u LD_LIBRARY_PATH "$sft" --version
finish_checks
