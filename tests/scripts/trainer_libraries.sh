#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The trainer holds nothing that only the preparation of data needs.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

needs() {
  readelf -d "$1" >out && grep -E "NEEDED.*\\[lib($2)\\." out
}
holds() {
  nm -C "$1" >out && grep -qE " [Tt] sft::($2)::" out
}
lacks() {
  ! "$@"
}
check 'sft is not linked with zstd' lacks needs "$sft" zstd
check 'sft holds no code of prepare and jinja' lacks holds "$sft" 'prepare|jinja'
check 'sft-prepare is linked with zstd' needs "$sft_prepare" zstd
for room in prepare jinja; do
  check "sft-prepare holds code of $room" holds "$sft_prepare" "$room"
done
finish_checks
