#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A small run on two ranks: it trains, saves, and goes on from what it saved with the same losses.
#
#   smoke.sh MPIRUN SFT SFT_PREPARE
set -euo pipefail

mpirun=$1 sft=$2 sft_prepare=$3
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_run run.ini 40 6
printf '[parallel]\ndp_shard_size = 2\n[checkpoint]\nsave_steps = 3\n' >>run.ini

train=("$mpirun" -np 2 "$sft" run.ini)

# losses FOLDER: of its steps from the fourth on, with their gradient norms
losses() {
  sed -nE 's/.*("step": *[456],).*("loss": *[^,]*,).*("grad_norm": *[^,]*,).*/\1 \2 \3/p' "$1/metrics.jsonl"
}

succeeds 'two ranks train' "${train[@]}" --train.output_dir whole --checkpoint.resume_from_checkpoint none
check 'three steps have losses' test "$(losses whole | wc -l)" -eq 3
succeeds 'they go on from the third step' "${train[@]}" --train.output_dir rest \
  --checkpoint.resume_from_checkpoint whole/checkpoint-000003
check 'with the same losses' diff <(losses whole) <(losses rest)
finish_checks
