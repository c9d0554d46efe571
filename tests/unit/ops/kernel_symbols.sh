#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails when an object of the kernels defines a weak function outside the namespace of its instruction set, or has
# initializers, which would run on every processor.
#
#   kernel_symbols.sh OBJECT...
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

[[ $# -ge 3 ]] || { echo "no objects" >&2; exit 1; }
for object in "$@"; do
  isa=$(grep -oE 'sft_kernels_[a-z0-9]+' <<<"$object" | head -1)
  foreign=$(nm --demangle --defined-only "$object" | grep ' W ' | grep -vF "sft::ops::cpu::${isa#sft_kernels_}::" || true)
  foreign+=$(nm "$object" | grep '_GLOBAL__sub_I' || true)
  if [[ -n $foreign ]]; then
    wrong "$object: $foreign"
  fi
done
finish_checks
