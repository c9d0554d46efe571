#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that stands still: the others say which, where and how, and the run ends with status 76. A rank that is merely slow
# goes on, and is named as slow.
#
#   hang.sh STOP_AT_LIBRARY
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"
library=$1

make_run run.ini 400 1000000 --num_shards 40 # more files than are held open: rows are read from the disk
printf '[checkpoint]\nsave_steps = 0\n' >>run.ini
host=$(hostname)
ranks=("$mpiexec" -np 4)
timeout_s=3

# stands_still PLACE PATTERN WORD...: rank 3 is held at that place of stop_at.cpp after some steps of the run, and the line
# has the pattern.
stands_still() {
  local place=$1 pattern=$2 status=0 pid begin
  shift 2
  rm -rf "$place" go
  STOP_AT=$place STOP_RANK=3 STOP_WHEN=$work/go LD_PRELOAD=$library "${ranks[@]}" "$sft" run.ini \
    --train.output_dir "$place" --device.comm_timeout_s "$timeout_s" "$@" >out 2>err &
  pid=$!
  await_steps "$place" 3
  touch go
  begin=$SECONDS
  for _ in $(seq 600); do
    if ! kill -0 "$pid" 2>/dev/null; then break; fi
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" || status=$?
  check "$place: the status of a hang" test "$status" -eq 76
  check "$place: in time" test $((SECONDS - begin)) -le $((timeout_s + 20))
  check "$place: one line" test "$(grep -c 'error: ' err)" -eq 1
  if grep -qE "error: rank 3 on $host stands still, $pattern" err; then
    right "$(grep -m1 'error: ' err | cut -c -220)"
  else
    wrong "$place: no line like /$pattern/"
  fi
}

stopped='stopped by a signal, in'
stands_still gather "$stopped (all_gather|reduce_scatter_add|all_reduce)( of [^,]+)? over [a-z]+ \(call [0-9]+\), for [0-9]+ s \(rank 0 is in "
stands_still sum "$stopped .*(sum|max) over [a-z]+ \(call [0-9]+\), for [0-9]+ s \("
# A thread reads ahead: a rank that is stopped while it does may be anywhere itself.
stands_still read "$stopped .*, for [0-9]+ s \(rank 0 is in .* over "
stands_still save "$stopped saving, for [0-9]+ s \(rank 0 is in saving, all_gather over world" --checkpoint.save_steps 5
# A thread reads 4 MiB ahead: of micro-batches of many rows a run comes to the end in some steps, not in thousands.
stands_still hang 'in reading rows, for [0-9]+ s \(rank 0 is in ' --train.per_device_train_batch_size 32

# A rank that is stopped half of the time, for less than the timeout.
"${ranks[@]}" "$sft" run.ini --train.output_dir slow --device.comm_timeout_s 1 --train.max_steps 60 --train.logging_steps 10 \
  --model.hidden_size 512 --model.num_hidden_layers 4 --model.intermediate_size 1024 >out 2>err &
pid=$!
await_steps slow 1
for process in $(processes_of "$sft run.ini --train.output_dir slow"); do
  if tr '\0' '\n' <"/proc/$process/environ" | grep -qxE '(OMPI_COMM_WORLD|PMI)_RANK=2'; then slow=$process; fi
done
while kill -0 "$pid" 2>/dev/null; do
  kill -STOP "$slow" 2>/dev/null || break
  sleep 0.2
  kill -CONT "$slow" 2>/dev/null || break
  sleep 0.1
done
status=0
wait "$pid" || status=$?
check 'a rank that is merely slow ends nothing' test "$status" -eq 0
check 'it is named once' test "$(grep -cE "warning: rank 2 on $host computes [0-9.]+ times as long as the median rank" err)" -eq 1
check 'and stands in the metrics' grep -qE '"slowest_rank":2,"slowest_ratio":[1-9]' slow/metrics.jsonl
finish_checks
