#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Signals while a model computes whose matrix products are as large as those of a real one: a run that one signal stops, then
# a storm of them, saves each time, goes on, and leaves the numbers of an uninterrupted run, to the bit.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_run run.ini 100 12
sed -i -e 's/^hidden_size.*/hidden_size = 512/' -e 's/^num_attention_heads.*/num_attention_heads = 8/' \
  -e 's/^intermediate_size.*/intermediate_size = 1408/' run.ini
printf '[checkpoint]\nsave_steps = 0\nsave_hub_model = true\nresume_from_checkpoint = auto\n' >>run.ini
rm data/*
"$sft_prepare" --input pairs.jsonl --output data --max_length 256 >/dev/null
mkfifo nothing

# storm PID: signals, one or two milliseconds apart.
storm() {
  for _ in $(seq 300); do
    kill -s USR1 "$1" 2>/dev/null || return 0
    read -r -t 0.001 <>nothing || true
  done
}

# stop KIND STEPS WORD...: runs the command until it has logged that many more steps in $run, and stops it.
stop() {
  local kind=$1 num_steps=$2 pid status=0
  shift 2
  # A run that goes on has steps of before: no signal may come before it listens.
  if [[ -e $run/metrics.jsonl ]]; then num_steps=$((num_steps + $(wc -l <"$run/metrics.jsonl"))); fi
  "$@" >out 2>err &
  pid=$!
  await_steps "$run" "$num_steps"
  if [[ $kind == storm ]]; then storm "$pid"; else kill -s TERM "$pid"; fi
  wait "$pid" || status=$?
  check "$run: $kind: saves and stops" test "$status" = 75
}

for isa in AVX2 DEFAULT; do
  for threads in 1 2; do
    run=$isa-$threads
    words=(env "ONEDNN_MAX_CPU_ISA=$isa" "OMP_NUM_THREADS=$threads" OMP_WAIT_POLICY=passive "$sft" run.ini)
    succeeds "$run: uninterrupted" "${words[@]}" --train.output_dir "whole-$run"
    stop signal 1 "${words[@]}" --train.output_dir "$run"
    stop storm 1 "${words[@]}" --train.output_dir "$run"
    succeeds "$run: goes on to its end" "${words[@]}" --train.output_dir "$run"
    check "$run: the same losses and gradient norms" test "$(numbers_of "$run")" = "$(numbers_of "whole-$run")"
    check "$run: the same weights" cmp "$run/model/model.safetensors" "whole-$run/model/model.safetensors"
  done
done

finish_checks
