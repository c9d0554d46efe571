#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-run: each signal to it reaches the run, its status is the run's, a run that had nothing to save may go on, and Open
# MPI adds no lines of its own. First with a program that stands in for sft, then with sft itself.
#
#   launcher.sh SFT_RUN SFT_PREPARE
set -euo pipefail

sft_run=$1 sft_prepare=$2
# shellcheck source=tests/support/checks.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/checks.sh"
mkdir bin elsewhere
cp "$sft_run" bin/sft-run
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

finish_checks
