#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One rank gets no memory, or no room for its files, while the engine is set up: one line, which names the rank, and the
# status of the contract.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
helper=$bin/faults_memory_helper

for request in 1 9 20; do
  refuses 1 '^faults_memory_helper: error: rank 2: cannot allocate anything' "$mpiexec" -np 3 "$helper" request "$request"
done
refuses 2 '^faults_memory_helper: error: rank 2: cannot offload activations' "$mpiexec" -np 3 "$helper" activations .
refuses 3 '^faults_memory_helper: error: rank 2: cannot offload the optimizer.s state' "$mpiexec" -np 3 "$helper" moments .
succeeds "a run that lacks nothing ends well" "$mpiexec" -np 3 "$helper" request 0

finish_checks
