#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole program on one GPU, which 2 ranks share: it trains as on CPUs and resumes with the same bits.
# frame.sh lies beside it on a machine that run.sh was packed for.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -e $here/frame.sh ]] || here=$here/../shell
# shellcheck source=tests/shell/frame.sh
source "$here/frame.sh"
# shellcheck source=tests/shell/gpu_training.sh
source "$here/gpu_training.sh"

make_tiny_run 4
check_training --device.comm host
finish_checks
