#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every error that NCCL finds in queued work ends the run with one line, which names group, rank and NCCL's own words, and
# with status 1 on all ranks: nobody waits for work that never ends.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
program=$bin/emulation_comm_hang

# ends_with WHERE RESULT WORDS: of NAME:RANK:LAUNCH, NCCL's number of the error and its text.
ends_with() {
  local group=${1%%:*} rank=${1#*:}
  rank=${rank%%:*}
  export SFT_EMULATED_NCCL_ERROR=$1:$2
  refuses 1 "error: rank $rank: [a-zA-Z0-9 ]+ failed in group $group on rank $rank \($3; told to fail" \
    "$mpiexec" -np 2 "$program"
}

ends_with fsdp:1:6 1 'unhandled cuda error'
ends_with fsdp:0:6 2 'unhandled system error'
ends_with fsdp:1:6 3 'internal error'
ends_with fsdp:1:6 6 'remote process exited or there was a network error'
ends_with tp:0:3 6 'remote process exited or there was a network error'
finish_checks
