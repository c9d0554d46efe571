#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-run: each signal to it reaches the run, its status is the run's, a run that had nothing to save may go on, and Open
# MPI adds no lines of its own. First with a program that stands in for sft, then with sft itself.
#
#   launcher.sh SFT_RUN SFT_PREPARE
set -euo pipefail

sft_run=$(readlink -f "$1") sft_prepare=$(readlink -f "$2")
# shellcheck source=tests/support/checks.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/checks.sh"
mkdir -p bin elsewhere tmp share
export TMPDIR=$work/tmp
cp "$sft_run" bin/sft-run
cp -r "$(dirname "$sft_run")/../share/sft" share/sft
cat >bin/sft <<'SFT'
#!/usr/bin/env bash
# Stands in for sft: its first word says how it takes a stop.
case $1 in
  saves) trap 'exit 75' USR1 ;;
  ends) exit "$2" ;;
  words) printf '%s\n' "$PWD" "$@" && exit ;;
esac
touch ready
for _ in $(seq 200); do sleep 0.05; done
SFT
cat >bin/scontrol <<'SCONTROL'
#!/usr/bin/env bash
echo "scontrol $*"
SCONTROL
chmod +x bin/*

# stop SIGNAL WORD...: starts sft-run WORD..., waits for the file `ready`, sends the signal; the exit status in $status.
stop() {
  local signal=$1
  shift
  rm -f ready
  env --default-signal=INT "$@" >out 2>err & # a shell starts background commands with SIGINT ignored
  local pid=$!
  until [[ -e ready ]]; do sleep 0.05; done
  kill -s "$signal" "$pid"
  status=0
  wait "$pid" || status=$?
}

for signal in HUP INT TERM USR1; do
  stop "$signal" bin/sft-run --launcher env saves
  check "$signal makes it save and stop" test "$status" = 75
done
stop TERM bin/sft-run --launcher env "is not training yet"
check "a stop before the first step may go on" test "$status" = 75
check "and says so" grep -q 'nothing to save' out
status_of bin/sft-run --launcher env ends 3
check "the run's status is its own" test "$status" = 3
status_of bin/sft-run --launcher "no-such-launcher -n 2" saves
check "a launcher that is not there is a wrong command line" test "$status" = 2
check "and is named" grep -q 'there is no launcher no-such-launcher' err
status_of env -u SLURM_JOB_ID bin/sft-run --requeue --launcher env saves
check "without a job there is no queue to go back to" test "$status" = 2
PATH=$work/bin:$PATH SLURM_JOB_ID=7 stop USR1 bin/sft-run --requeue --launcher env saves
check "a stopped job goes back into the queue" grep -qx 'scontrol requeue 7' out
ln -s "$work/bin/sft-run" elsewhere/sft-run
(cd elsewhere && status_of ./sft-run --launcher "env NAME=value" words "with blanks" --section.key 1 && mv out err ..)
check "words and the folder stay as they are" test "$(cat out)" = "$work/elsewhere
words
with blanks
--section.key
1"
for words in "" "-n" "-n 0 x.ini" "-n 2" "x.ini" "-n 2 --launcher env x.ini" "--launcher"; do
  # shellcheck disable=SC2086  # several words
  status_of bin/sft-run $words
  check "refused: sft-run $words" test "$status $(grep -c '^sft-run: error: ' err)" = "2 1"
done

# The program itself, through mpirun.
make_run run.ini 60 1000000
printf '[checkpoint]\nsave_steps = 0\n' >>run.ini
# await_run: makes `ready` when the run has logged something.
await_run() {
  until [[ -s output/metrics.jsonl ]]; do sleep 0.05; done
  touch ready
}
await_run &
stop TERM "$sft_run" -n 4 run.ini
check "SIGTERM saves and stops 4 ranks" test "$status" = 75
check "with a checkpoint" compgen -G 'output/checkpoint-*/checkpoint.h5'
check "Open MPI adds nothing" test ! -s err
status_of "$sft_run" -n 4 run.ini --model.hidden_size 33
check "a wrong key ends all ranks with its status" test "$status" = 2
check "and one line" test "$(wc -l <err)" = 1
mkfifo never.ini
(sleep 2 && touch ready) &
stop TERM "$sft_run" -n 2 never.ini
check "SIGTERM ends ranks that wait for their configuration" test "$status" = 75

# takes_signals PID: the script is so far that it handles SIGTERM (15). Until it is this script that the process runs, the
# handler is that of the process that started it, and the signal is lost.
takes_signals() {
  local caught
  if grep -qzF launcher.sh "/proc/$1/cmdline"; then return 1; fi
  caught=$(sed -n 's/^SigCgt:[[:space:]]*/0x/p' "/proc/$1/status")
  (((caught >> 14) & 1))
}

# send_after SECONDS SIGNAL WORD...: starts sft-run WORD... and sends the signal so long after it has begun to run; the exit
# status in $status.
send_after() {
  local delay=$1 signal=$2
  shift 2
  "$sft_run" "$@" >out 2>err &
  local pid=$!
  until takes_signals "$pid" || ! kill -0 "$pid"; do sleep 0.01; done
  sleep "$delay"
  kill -s "$signal" "$pid"
  status=0
  wait "$pid" || status=$?
}

# await_line PATTERN PID: waits until the process has printed a line with the pattern into `out`; fails where it ends first.
# shellcheck disable=SC2317  # check calls it
await_line() {
  until grep -q "$1" out; do
    if ! kill -0 "$2" 2>/dev/null; then
      grep -q "$1" out
      return
    fi
    sleep 0.01
  done
}

# send_at PATTERN SIGNAL WORD...: the same, as soon as it has printed a line with the pattern.
send_at() {
  local pattern=$1 signal=$2
  shift 2
  : >out
  "$sft_run" "$@" >out 2>err &
  local pid=$!
  check "it prints '$pattern'" await_line "$pattern" "$pid"
  kill -s "$signal" "$pid" 2>/dev/null || true
  status=0
  wait "$pid" || status=$?
}

# A signal while mpirun starts the ranks. It is not lost: the run would go on for hours.
for delay in 0 0.02 0.05 0.1 0.2 0.3 0.5; do
  send_after "$delay" TERM -n 4 run.ini --train.output_dir "early-$delay"
  check "SIGTERM after $delay s is not lost" test "$status" = 75
  check "and says what became of it" grep -qE 'nothing to save|saving after step' out
done

# A launcher that hangs when the ranks have ended, as mpirun sometimes does.
cat >bin/hanging <<'HANGING'
#!/usr/bin/env bash
"$@"
exec sleep 600
HANGING
chmod +x bin/hanging
status=0
"$sft_run" --launcher "$work/bin/hanging env" run.ini --train.output_dir hanging --train.max_steps 2 >out 2>err || status=$?
check 'the status of a run whose launcher hangs is its own' test "$status" = 0

# One that crashes when the ranks have ended.
cat >bin/crashing <<'CRASHING'
#!/usr/bin/env bash
trap '' USR1
env -u BASH_ENV --default-signal=USR1 "$@" &
pid=$!
trap 'kill -USR1 "$pid"' USR1
until wait "$pid" || ! kill -0 "$pid" 2>/dev/null; do :; done
kill -SEGV $$
CRASHING
chmod +x bin/crashing
status=0
"$sft_run" --launcher "$work/bin/crashing" run.ini --train.output_dir crashing --train.max_steps 2 >out 2>err || status=$?
check 'the status of a run whose launcher crashes is its own' test "$status" = 0
send_after 1 TERM --launcher "$work/bin/crashing" never.ini
check 'a run that was stopped before its first step may go on, whatever its launcher does' test "$status" = 75
check 'and says so' grep -q 'nothing to save' out

# Launchers that are slow and lose signals: the ranks find out at their start.
cat >bin/late <<'LATE'
#!/usr/bin/env bash
trap '' USR1
sleep 2
exec "$@"
LATE
chmod +x bin/late
send_after 0.5 TERM --launcher "$work/bin/late env" run.ini --train.output_dir late
check "a signal that the launcher loses is not lost" test "$status" = 75
check "and the run says so" grep -q 'nothing to save' out

# Two signals to ranks that are not training yet: mpirun takes two seconds to end after the first one.
"$sft_run" -n 2 never.ini >out 2>err &
pid=$!
sleep 2
for _ in 1 2; do
  kill -s TERM "$pid" 2>/dev/null || true
  sleep 1.2
done
status=0
wait "$pid" || status=$?
check "two signals before the first step may go on" test "$status" = 75
check "and the run says so" grep -q 'nothing to save' out

# A signal when the run has come to its end by itself.
for _ in 1 2 3; do
  send_at ' saved output-done' TERM -n 4 run.ini --train.output_dir output-done --train.max_steps 2
  check "SIGTERM after a finished run leaves its status" test "$status" = 0
  check "and its words" test "$(grep -c 'nothing to save' out)" = 0
  rm -r output-done
done

# A second one when the run has saved and ends, which mpirun takes two seconds for.
: >out
"$sft_run" -n 4 run.ini --train.output_dir twice >out 2>err &
pid=$!
check "it has begun" await_line ' 1/1000000 ' "$pid"
kill -s TERM "$pid"
check "it saves" await_line ' saved twice' "$pid"
for _ in $(seq 8); do
  sleep 0.2
  kill -s TERM "$pid" 2>/dev/null || true
done
status=0
wait "$pid" || status=$?
check "more signals while a stopped run ends leave its status" test "$status" = 75

# A run that is stuck: a rank that does not answer.
sft=$(dirname "$(readlink -f "$sft_run")")/sft
: >out
env --default-signal=INT "$sft_run" -n 2 run.ini --train.output_dir stuck >out 2>err &
pid=$!
check "it has begun" await_line ' 1/1000000 ' "$pid"
mapfile -t ranks < <(processes_of "$sft run.ini --train.output_dir stuck")
check "two ranks run" test "${#ranks[@]}" = 2
kill -s STOP "${ranks[0]}"
kill -s INT "$pid"
sleep 1.2
kill -s TERM "$pid"
sleep 1.2
check "SIGTERM after Ctrl-C leaves a run that may still save" kill -0 "$pid"
kill -s INT "$pid"
begin=$SECONDS status=0
wait "$pid" || status=$?
check "a second Ctrl-C ends it" test $((SECONDS - begin)) -le 10
check "with a status that is no success" test "$status" != 0 -a "$status" != 75
check "and no rank is left" test -z "$(processes_of "$sft run.ini --train.output_dir stuck")"

check "nothing is left in the folder for temporary files" test -z "$(find tmp -name 'sft-run.*')"

finish_checks
