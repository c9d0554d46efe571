#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole program on one GPU, which 2 ranks share: it trains as on CPUs and resumes with the same bits.
#
#   program.sh MPIEXEC SFT SFT_PREPARE
set -euo pipefail

mpiexec=$1 sft=$2 sft_prepare=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
support=$here
[[ -e $support/checks.sh ]] || support=$here/../support
# shellcheck source=tests/support/checks.sh
source "$support/checks.sh"
# shellcheck source=tests/support/gpu_training.sh
source "$support/gpu_training.sh"

make_tiny_run 4
check_training --device.comm host
finish_checks
