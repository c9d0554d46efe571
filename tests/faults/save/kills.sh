#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run that saves beside training and is killed at random moments, one rank or all, until it has come to its end: no
# checkpoint is ever damaged, none that was complete is lost, and the numbers are those of a run that nobody killed.
#
#   kills.sh COUNT MPIEXEC SFT SFT_PREPARE SFT_INSPECT
set -euo pipefail

count=$1 mpiexec=$2 sft=$3 sft_prepare=$4 sft_inspect=$5
# shellcheck source=tests/support/checks.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../support/checks.sh"

num_steps=200
make_run run.ini 100 $num_steps
printf '[checkpoint]\nsave_steps = 2\nsave_total_limit = 2\nresume_from_checkpoint = auto\n' >>run.ini
seed=${SFT_TEST_SEED:-$((SECONDS + $$))}
RANDOM=$seed
echo "seed $seed: SFT_TEST_SEED=$seed repeats it"

# newest_of FOLDER: its newest complete checkpoint.
newest_of() { find "$1" -maxdepth 1 -name 'checkpoint-??????' | sort | tail -n 1; }
# numbers_of FOLDER: what it logged, without what the clock and the memory say.
numbers_of() { grep -o '"step":[0-9]*\|"loss":[^,]*\|"grad_norm":[^,]*' "$1/metrics.jsonl" || true; }

succeeds 'nobody kills it' "$mpiexec" -np 2 "$sft" run.ini --train.output_dir whole
words=(run.ini --train.output_dir killed)
killed=0 ends=0
while ((killed < count)); do
  # A run that came to its end begins again.
  if [[ -e killed/checkpoint-000$num_steps ]]; then
    check "end $((++ends)): the numbers of the run that nobody killed" test "$(numbers_of killed)" = "$(numbers_of whole)"
    rm -r killed
  fi
  before=$(newest_of killed 2>/dev/null || true)
  "$mpiexec" -np 2 "$sft" "${words[@]}" >out 2>err &
  launcher=$!
  # From the first line that it logs on, which is when it saves, up to a second.
  for _ in $(seq 400); do
    if grep -q 'first forward pass' out || ! kill -0 "$launcher" 2>/dev/null; then break; fi
    sleep 0.01
  done
  sleep "0.$(printf %03d $((RANDOM % 700)))"
  read -ra ranks < <(cat "/proc/$launcher/task/"*/children 2>/dev/null | tr '\n' ' ') || true
  if ((${#ranks[@]} == 2)); then
    if ((RANDOM % 2)); then ranks=("${ranks[RANDOM % 2]}"); fi
    kill -KILL "${ranks[@]}" 2>/dev/null || true
    killed=$((killed + 1))
  fi
  wait "$launcher" || true
  newest=$(newest_of killed || true)
  if [[ -n $newest ]]; then
    if ! "$sft_inspect" "$newest" --verify >out 2>err; then wrong "kill $killed: $newest is damaged"; fi
  fi
  if [[ -n $before && ! $newest > $before && $newest != "$before" ]]; then
    wrong "kill $killed: $before was complete, the newest is now $newest"
  fi
done
succeeds 'comes to its end' "$mpiexec" -np 2 "$sft" "${words[@]}"
check "after $killed kills: the numbers of the run that nobody killed" test "$(numbers_of killed)" = "$(numbers_of whole)"
succeeds 'and its last checkpoint' "$sft_inspect" "killed/checkpoint-000$num_steps" --verify
check 'nothing is half there' test -z "$(find killed -name '*.tmp')"

finish_checks
