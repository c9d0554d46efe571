#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-run: each signal to it reaches the run, its status is the run's, a run that had nothing to save may go on, and Open
# MPI adds no lines of its own. First with a program that stands in for sft, then with sft itself.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

mkdir -p bin elsewhere tmp share
export TMPDIR=$work/tmp
cp "$sft_run" bin/sft-run
cp -r "$(dirname "$sft_run")/../share/sft" share/sft
cat >bin/sft <<'SFT'
#!/usr/bin/env bash
# Stands in for sft: its first word says how it takes a stop.
if [[ " $* " == *" --print-config "* ]]; then exit; fi
case $1 in
  saves) trap 'echo 75 >"$SFT_RUN_FOLDER/status"; exit 75' USR1 ;;
  is-killed)
    : >"$SFT_RUN_FOLDER/began"
    [[ $PMI_RANK == 0 ]] && kill -s "$2" $$
    ;;
  ends) exit "$2" ;;
  tells) # what a rank leaves for sft-run, and how the launcher ends
    for name in ${3//,/ }; do echo "${name#*=}" >"$SFT_RUN_FOLDER/${name%=*}"; done
    exit "$2"
    ;;
  words)
    printf '%s\n' "$PWD" "$@"
    : >"$SFT_RUN_FOLDER/began"
    exit
    ;;
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
status_of bin/sft-run --launcher "env 'NAME=two words' OTHER=a\\ b\"'\" \$HOME=x" words
check "quotes of --launcher keep blanks, and nothing is replaced" test "$status" = 0
printf '#!/usr/bin/env bash\nprintf "%%s|" "$@"\n' >bin/show-words
chmod +x bin/show-words
status_of bin/sft-run --launcher "$work/bin/show-words --hostfile 'my [hosts], #1' -np 2" run.ini
check "so does a hostfile" test "$(cat out)" = "--hostfile|my [hosts], #1|-np|2|$work/bin/sft|run.ini|"
refuses 2 'all quotes closed' bin/sft-run --launcher "env 'open" run.ini
refuses 2 '99999999999 is too many ranks \(65536 is the most\)' bin/sft-run -n 99999999999 run.ini
refuses 2 'two numbers of ranks are given, 2 and 3' bin/sft-run -n 2 -n 3 run.ini

# Who ended a run decides whether it may go on: status 75 is for those that were asked to stop.
while read -r given left expected; do
  status_of bin/sft-run --launcher env tells "$given" "$left"
  check "a launcher that ends with $given, when $left is left: $expected" test "$status" = "$expected"
done <<'STATUSES'
137 nothing-to-save 137
205 nothing-to-save 205
139 nothing-to-save,began 139
138 nothing-to-save 75
143 nothing-to-save 75
129 nothing-to-save 75
139 status=0 0
3 ending=3,began 3
STATUSES
status_of bin/sft-run --launcher env ends 17
check "a run that ends without a word is told of" grep -q '^sft-run: error: env ended with status 17 (it said nothing)' err

# MPICH: its mpiexec joins all statuses, and counts a rank that it killed as 9.
cat >bin/mpiexec.stand-in <<'HYDRA'
#!/usr/bin/env bash
[[ $1 == --version ]] && echo 'HYDRA build details:' && exit
"$@"
HYDRA
chmod +x bin/mpiexec.stand-in
while read -r given left expected; do
  status_of bin/sft-run --launcher "$work/bin/mpiexec.stand-in" tells "$given" "$left"
  check "an mpiexec of MPICH that ends with $given, when $left is left: $expected" test "$status" = "$expected"
done <<'STATUSES'
79 status=75,began 75
9 ending=76,began 76
13 began 137
2 ending=2,began 2
3 began 137
2 nowhere 2
15 nothing-to-save,began 75
STATUSES

# MPICH itself, where it is installed.
if command -v mpiexec.mpich >/dev/null; then
  while read -r way expected; do
    # shellcheck disable=SC2086  # several words
    status_of bin/sft-run --launcher 'mpiexec.mpich -n 2' ${way//,/ }
    check "MPICH: $way ends with $expected" test "$status" = "$expected"
  done <<'WAYS'
is-killed,KILL 137
is-killed,ILL 137
is-killed,INT 137
tells,76,ending=76 76
tells,2,ending=2 2
tells,0,status=0 0
WAYS
  check 'a rank that was killed is told of' grep -q . <(bin/sft-run --launcher 'mpiexec.mpich -n 2' is-killed KILL 2>&1 |
    grep '^sft-run: error: a rank was ended by a signal')
  stop TERM bin/sft-run --launcher 'mpiexec.mpich -n 2' saves
  check 'MPICH: a stop is no failure' test "$status" = 75
fi

# Intel MPI: its mpirun is a script, which starts mpiexec.hydra and waits for it.
mkdir -p intel
cat >intel/mpirun <<'INTEL'
#!/bin/sh
"$@"
INTEL
chmod +x intel/mpirun
stop TERM bin/sft-run --launcher "$work/intel/mpirun" saves
check "a stop reaches what a script starts as mpirun" test "$status" = 75

# A launcher that hangs at its start, and one that loses the signal.
mkdir -p hangs
cat >hangs/mpirun <<'HANGS'
#!/usr/bin/env bash
if [[ $1 == --version ]]; then exit; fi
touch ready
sleep 600 &
echo $! >sleeper
wait
exec sleep 600
HANGS
cat >hangs/mpiexec <<'LOSES'
#!/usr/bin/env bash
trap '' USR1
env --default-signal=USR1 "$@" &
kill -STOP $$
LOSES
chmod +x hangs/*
SFT_STOP_PATIENCE_S=1 stop TERM bin/sft-run --launcher "$work/hangs/mpirun" run.ini
check "a launcher that hangs is ended" test "$status" = 75
check "which is said" grep -q 'mpirun hung, and was ended' err
check "with all that it started" test ! -e "/proc/$(cat sleeper)"
stop TERM bin/sft-run --launcher "$work/hangs/mpiexec" saves
check "ranks are asked to stop, whatever became of their launcher" test -z "$(processes_of "bash $work/bin/sft saves")"

for words in "" "-n" "-n 0 x.ini" "-n 2" "x.ini" "-n 2 --launcher env x.ini" "--launcher"; do
  # shellcheck disable=SC2086  # several words
  status_of bin/sft-run $words
  check "refused: sft-run $words" test "$status $(grep -c '^sft-run: error: ' err)" = "2 1"
done

# The program itself, through mpirun.
mkfifo never.ini
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

# In the shell of an interactive step of SLURM: what needs no MPI, and one rank. Ranks that have no PMI are refused.
sft=$(dirname "$(readlink -f "$sft_run")")/sft
in_step=(env SLURM_NODELIST="$(hostname)" SLURM_STEP_ID=0)
for words in --version --help 'run.ini --print-config' 'run.ini --dry-run' \
  'run.ini --train.max_steps 1 --train.output_dir in-step'; do
  # shellcheck disable=SC2086  # several words
  status_of "${in_step[@]}" "$sft" $words
  check "in a step: sft $words" test "$status" = 0 -a -s out
done
status_of "${in_step[@]}" "$(dirname "$sft")/sft-generate" in-step/checkpoint-000001 --prompt What --max_new_tokens 2
check "in a step: sft-generate" test "$status" = 0 -a -s out
refuses 2 '4 ranks were started, but each is alone' "${in_step[@]}" SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 "$sft" run.ini

# A rank that is killed while it starts, as the system does when memory runs out.
if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
  "$sft_run" -n 2 never.ini >out 2>err &
  pid=$!
  until [[ $(processes_of "$sft never.ini" | wc -l) -eq 2 ]]; do sleep 0.05; done
  kill -KILL "$(processes_of "$sft never.ini" | tail -n 1)"
  status=0
  wait "$pid" || status=$?
  check "a rank that is killed before the first step" test "$status" = 137
  check "is named with its signal and host" \
    grep -qE "^sft-run: error: rank [01] on $(hostname) was ended by signal 9 " err
  check "nothing else is said" test "$(wc -l <err) $(grep -c 'nothing to save' out)" = '1 0'
fi
status_of "$sft_run" -n 4 run.ini --model.hidden_size 33
check "a wrong key ends all ranks with its status" test "$status" = 2
check "and one line" test "$(wc -l <err)" = 1
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
