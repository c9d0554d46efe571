#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One folder, two runs: the second is refused by name, whichever way the first was started, and does it no harm. A killed
# run leaves no lock behind. And a line of metrics.jsonl that cannot be written ends a run with a checkpoint.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../shell/frame.sh"

make_run run.ini 60 1000000
printf '[checkpoint]\nsave_steps = 50\nsave_total_limit = 2\n' >>run.ini

shown+=(second)

# second_run WORD...: runs it, with what it prints in the file `second`; its exit status in $status.
second_run() {
  status=0
  timeout 60 "$@" >second 2>&1 || status=$?
}

# 1. A second run beside the first.
"$mpiexec" -np 2 "$sft" run.ini --train.output_dir shared >out 2>err &
first=$!
await_steps shared 20
holder=$(sed -n 's/^process \([0-9]*\) on host .* since 20.*/\1/p' shared/run.lock)
check "the lock names the process of rank 0" grep -qa "$sft" "/proc/$holder/cmdline"
for ranks in 1 2; do
  second_run "$mpiexec" -np "$ranks" "$sft" run.ini --train.output_dir shared --checkpoint.resume_from_checkpoint auto
  check "a second run on $ranks ranks is refused" test "$status" = 3
  check "one line names the holder" test "$(grep -c "error: another run is writing to shared (process $holder on host " second)" = 1
done
kill -USR1 "$first"
status=0
wait "$first" || status=$?
check "the first run ends in good order" test "$status" = 75
check "no line of another run is among the first one's" test "$(wc -l <shared/metrics.jsonl)" = \
  "$(tail -n 1 shared/metrics.jsonl | sed 's/^{"step":\([0-9]*\),.*/\1/')"

# 2. A restart at once after mpirun was killed: what is left of the first run has ended, or holds the folder.
for _ in 1 2 3; do
  "$mpiexec" -np 2 "$sft" run.ini --train.output_dir killed --checkpoint.resume_from_checkpoint auto >out 2>err &
  first=$!
  lines=0
  if [[ -e killed/metrics.jsonl ]]; then lines=$(wc -l <killed/metrics.jsonl); fi
  await_steps killed $((lines + 70))
  kill -KILL "$first"
  wait "$first" 2>/dev/null || true
  second_run "$mpiexec" -np 2 "$sft" run.ini --train.output_dir killed --checkpoint.resume_from_checkpoint auto \
    --train.max_steps 1
  check "a restart after kill -9 waits for the rest of the first run" test "$status" = 0
done

# 3. A full disk, as metrics.jsonl meets it first: no file may grow past the limit.
(trap '' XFSZ && exec "$sft" run.ini --train.output_dir full --checkpoint.save_steps 0 >/dev/null 2>err) &
first=$!
await_steps full 10
prlimit --pid "$first" --fsize=600000
status=0
wait "$first" || status=$?
check "a full disk ends the run with status 3" test "$status" = 3
check "one line names metrics.jsonl" test "$(grep -c 'error: cannot write full/metrics.jsonl' err)" = 1
logged=$(grep -c '}$' full/metrics.jsonl || true)
saved=$(find full -name checkpoint.h5 | sed 's/.*checkpoint-0*\([0-9]*\)\/.*/\1/')
check "it saved first" test "${saved:-0}" -ge "$logged"

finish_checks
