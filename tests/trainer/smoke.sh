#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A small run on two ranks: it trains, saves, and goes on from what it saved with the same losses.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_run run.ini 40 6
printf '[parallel]\ndp_shard_size = 2\n[checkpoint]\nsave_steps = 3\n' >>run.ini

train=("$mpiexec" -np 2 "$sft" run.ini)

succeeds 'two ranks train' "${train[@]}" --train.output_dir whole --checkpoint.resume_from_checkpoint none
succeeds 'they go on from the third step' "${train[@]}" --train.output_dir rest \
  --checkpoint.resume_from_checkpoint whole/checkpoint-000003
check 'three steps have losses and norms' test "$(numbers_of rest | wc -l)" -eq 9
check 'with the same losses' diff <(numbers_of whole | tail -n 9) <(numbers_of rest)
finish_checks
