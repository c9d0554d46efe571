#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The probe of NCCL for a GPU that nothing has run on yet, on an emulated GPU: every call is right, memory that NCCL
# refuses is said, and the program, also that for a GPU where it is built, asks for neither MPI nor HDF5.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

probe=$bin/emulation_script_nccl_probe
export SFT_EMULATED_GPUS=1

prints 0 "^memory: NCCL's, registered$" "$probe"
check "versions" grep -qE '^versions: NCCL 2[.][0-9]+[.][0-9]+ ' out
for call in ncclAllReduce ncclReduceScatter ncclAllGather 'ncclSend and ncclRecv'; do
  check "$call" grep -q "^$call: right$" out
done
prints 0 '^memory: ncclMemAlloc refused .unhandled cuda error.$' env SFT_EMULATED_NCCL_REFUSES=alloc "$probe"
check "all calls without NCCL's memory" test "$(grep -c ': right$' out)" -eq 4
prints 0 "^memory: NCCL's, ncclCommRegister refused .unhandled system error.$" env SFT_EMULATED_NCCL_REFUSES=register "$probe"
check "all calls without registered memory" test "$(grep -c ': right$' out)" -eq 4
prints 1 'error: .* failed .*: ' env SFT_EMULATED_GPUS=0 "$probe"

for program in "$probe" "$bin/device_nccl_probe"; do
  [[ -e $program ]] || continue
  ldd "$program" >out
  check "${program##*/} has its libraries" test "$(grep -c 'not found' out)" -eq 0
  check "${program##*/} asks for neither MPI nor HDF5" test "$(grep -cE 'libmpi|libopen-|libpmix|libhdf5' out)" -eq 0
done
finish_checks
