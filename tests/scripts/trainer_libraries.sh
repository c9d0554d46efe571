#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The trainer holds nothing that only the preparation of data needs.
#
#   trainer_libraries.sh SFT SFT_PREPARE
set -euo pipefail
sft=$1 sft_prepare=$2
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

# shellcheck disable=SC2317  # these are called through check
needs() {
  readelf -d "$1" >out && grep -E "NEEDED.*\\[lib($2)\\." out
}
# shellcheck disable=SC2317
holds() {
  nm -C "$1" >out && grep -qE " [Tt] sft::($2)::" out
}
# shellcheck disable=SC2317
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
