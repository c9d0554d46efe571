#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails when an object of the kernels defines a weak function outside the namespace of its instruction set, or has
# initializers, which would run on every processor.
#
#   kernel_symbols.sh OBJECT...
set -euo pipefail

[[ $# -ge 3 ]] || { echo "no objects" >&2; exit 1; }
failures=0
for object in "$@"; do
  isa=$(grep -oE 'sft_kernels_[a-z0-9]+' <<<"$object" | head -1)
  foreign=$(nm --demangle --defined-only "$object" | grep ' W ' | grep -vF "sft::ops::cpu::${isa#sft_kernels_}::" || true)
  foreign+=$(nm "$object" | grep '_GLOBAL__sub_I' || true)
  if [[ -n $foreign ]]; then
    printf '%s\n%s\n' "$object" "$foreign"
    failures=1
  fi
done
exit "$failures"
