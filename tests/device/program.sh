#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole program on one GPU, which 2 ranks share: it trains as on CPUs and resumes with the same bits.
#
#   program.sh MPIEXEC SFT SFT_PREPARE
set -euo pipefail

mpiexec=$1 sft=$2 sft_prepare=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
support=$here
[[ -e $support/frame.sh ]] || support=$here/../shell
# shellcheck source=tests/shell/frame.sh
source "$support/frame.sh"
# shellcheck source=tests/shell/gpu_training.sh
source "$support/gpu_training.sh"

make_tiny_run 4
check_training --device.comm host
finish_checks
