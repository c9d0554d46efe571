#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a signal, or an output that nobody reads any more, does to the whole program: before training it ends it, while it
# trains it saves and stops with status 75, and Ctrl-C ends a run that is stuck.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

make_run long.ini 60 1000000
printf '[checkpoint]\nsave_steps = 0\n' >>long.ini

# start WORD...: runs it in the background with the signals of a terminal; its process in $pid.
start() {
  env --default-signal=INT,HUP,PIPE "$@" >out 2>err &
  pid=$!
}

# ending PID SECONDS: the status of the process in $status; "running" when it has not ended by then.
ending() {
  status=running
  for _ in $(seq $(($2 * 20))); do
    if ! kill -0 "$1" 2>/dev/null; then
      status=0
      wait "$1" || status=$?
      return
    fi
    sleep 0.05
  done
}

# saved FOLDER: its newest checkpoint is of the last step that was logged, or later.
saved() {
  local logged saved
  logged=$(tail -n 1 "$1/metrics.jsonl" | sed -n 's/^{"step":\([0-9]*\),.*/\1/p')
  saved=$(find "$1" -path '*/checkpoint-*/checkpoint.h5' | sed 's/.*checkpoint-0*\([0-9]*\)\/.*/\1/' | sort -n | tail -n 1)
  [[ -n $saved && $saved -ge $logged ]]
}

# Before training: waiting for a file that never comes.
mkfifo never.ini
for signal in TERM INT HUP USR1; do
  start "$sft" never.ini
  sleep 0.5
  kill -s "$signal" "$pid"
  ending "$pid" 5
  check "$signal ends a program that waits for its configuration" test "$status" = $((128 + $(kill -l "$signal")))
  kill -KILL "$pid" 2>/dev/null || true
done

# While it trains, without mpirun.
for signal in TERM INT HUP USR1; do
  start "$sft" long.ini --train.output_dir "$signal"
  await_steps "$signal" 3
  kill -s "$signal" "$pid"
  ending "$pid" 20
  check "$signal saves and stops" test "$status" = 75
  check "$signal leaves a checkpoint" saved "$signal"
done

# No handler may interrupt a thread that computes: one thread takes the signals, and crashes are not handled at all.
# quiet PID: in each thread but that one, what the process handles (and what stops it) is blocked.
quiet() {
  local thread caught blocked num_takers=0
  local -r crashes=0x4e8 stops=0x4203 # SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV; SIGHUP, SIGINT, SIGUSR1, SIGTERM
  for thread in /proc/"$1"/task/*/status; do
    caught=$(sed -n 's/^SigCgt:[[:space:]]*/0x/p' "$thread") blocked=$(sed -n 's/^SigBlk:[[:space:]]*/0x/p' "$thread")
    if ((caught & crashes)); then return 1; fi
    if [[ $(sed -n 's/^Name:[[:space:]]*//p' "$thread") == signals ]]; then
      num_takers=$((num_takers + 1))
    elif (((caught & ~(1 << 32) | stops) & ~blocked)); then # (33 is the C library's own)
      return 1
    fi
  done
  ((num_takers == 1))
}
start env OMP_NUM_THREADS=2 "$sft" long.ini --train.output_dir threads
await_steps threads 3
check "no handler runs on a thread that computes" quiet "$pid"
kill -s SEGV "$pid"
ending "$pid" 20
check "a crash ends the program at once" test "$status" = $((128 + $(kill -l SEGV)))
check "and MPI adds no words" test ! -s err

# Senders that send twice at once, as timeout does, mean it once.
start timeout --preserve-status 4 "$sft" long.ini --train.output_dir twice
ending "$pid" 30
check "SIGTERM twice at once saves and stops" test "$status" = 75
check "SIGTERM twice at once leaves a checkpoint" saved twice

# What was ignored at the start, as under nohup, stays ignored.
(trap '' HUP && exec "$sft" long.ini --train.output_dir ignored >out 2>err) &
pid=$!
await_steps ignored 3
kill -s HUP "$pid"
ending "$pid" 1
check "SIGHUP under nohup is ignored" test "$status" = running
kill -s TERM "$pid"
ending "$pid" 20
check "SIGTERM under nohup saves and stops" test "$status" = 75

# Nobody reads the output any more.
set +e
"$sft" long.ini --train.output_dir head 2>err | head -n 30 >out
statuses=("${PIPESTATUS[@]}")
check "a closed output saves and stops" test "${statuses[0]}" = 75
check "a closed output leaves a checkpoint" saved head
# (A line for every hundred of these short steps: mpirun itself ends all ranks when it has a line that it cannot write.)
"$mpiexec" -np 2 "$sft" long.ini --train.output_dir mpi_head --train.logging_steps 100 2>err | head -n 30 >out
statuses=("${PIPESTATUS[@]}")
# (141: mpirun found out itself, at its end.)
check "a closed output of mpirun saves and stops" grep -qxE '75|141' <<<"${statuses[0]}"
check "a closed output of mpirun leaves a checkpoint" saved mpi_head
set -e

# Stuck in a step: a rank that does not answer.
start "$mpiexec" -np 2 "$sft" long.ini --train.output_dir stuck
await_steps stuck 3
mapfile -t ranks < <(processes_of "$sft long.ini --train.output_dir stuck")
check "two ranks run" test "${#ranks[@]}" = 2
kill -s STOP "${ranks[0]}"
sleep 0.3
kill -s USR1 "$pid"
ending "$pid" 2
check "a first signal waits for the step" test "$status" = running
sleep 1.1
kill -s USR1 "$pid"
ending "$pid" 2
check "and so does a second one" test "$status" = running
kill -s INT "$pid"
ending "$pid" 15
check "Ctrl-C ends a run that is stuck" test "$status" != running
check "with a status that is no success" test "$status" != 0 -a "$status" != 75
kill -s KILL "$pid" "${ranks[@]}" 2>/dev/null || true

finish_checks
