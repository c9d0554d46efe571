#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-run --restarts and --spares: what is started again, from where, on which nodes, how often, and what it says. First with
# programs that stand in for sft and for SLURM, then with sft itself, whose ranks are killed.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

export TMPDIR=$work/tmp SFT_RESTART_PAUSE_S=0
mkdir -p bin share tmp
cp "$sft_run" bin/sft-run
cp -r "$(dirname "$sft_run")/../share/sft" share/sft

# Each line of `plan` is a start: the step of a checkpoint that it saves (- for none), its exit status, and what it writes to
# standard error, with | between lines. Starts are counted in `starts`, with their words.
stand_in bin/sft <<'SFT'
if [[ " $* " == *" --print-config "* ]]; then
  if [[ -n ${SETTINGS-} ]]; then
    echo 'sft: error: no settings' >&2
    exit "$SETTINGS"
  fi
  printf '[train]\noutput_dir = output\n'
  exit
fi
if [[ " $* " == *" --dry-run "* ]]; then
  echo '{"save_s": 1.5}'
  exit
fi
if [[ -n ${SFT_RUN_FOLDER-} ]]; then : >"$SFT_RUN_FOLDER/began"; fi
echo "${SFT_RESTARTS-none} $NODES $*" >>starts
read -r step status text < <(sed -n "$(wc -l <starts)p" plan)
if [[ $step != - ]]; then
  mkdir -p "output/checkpoint-$step"
  date +%N >"output/checkpoint-$step/checkpoint.h5"
fi
if [[ -n $text ]]; then tr '|' '\n' <<<"$text" >&2; fi
if [[ $status == sleep ]]; then
  trap 'exit 75' USR1
  for _ in $(seq 400); do sleep 0.05; done
fi
exit "$status"
SFT
# srun tells the run its nodes; the launcher's words are written to `launches`.
stand_in bin/srun <<'SRUN'
echo "$*" >>launches
nodes=none
while [[ $1 == -* ]]; do
  case $1 in --nodelist=*) nodes=${1#*=} ;; esac
  shift
done
NODES=$nodes exec "$@"
SRUN
stand_in bin/scontrol <<'SCONTROL'
case "$1 $2" in
  'show hostnames') seq -f 'n%g' 4 ;;
  '--oneliner show') echo "JobId=7 $(cat job_state) Partition=low ExcNodeList=(null)" ;;
  *) echo "scontrol $*" ;;
esac
SCONTROL
stand_in bin/sinfo <<'SINFO'
case $* in
  *%T*) cat states ;;
  *%n*) printf '%s\n' 'n1 host-a 10.0.0.1' 'n2 host-b 10.0.0.2' 'n3 host-c 10.0.0.3' ;;
  *) seq -f 'n%g' 6 ;;
esac
SINFO
stand_in bin/squeue <<'SQUEUE'
cat job_end
SQUEUE
: >states
echo NONE >job_end
echo 'JobState=RUNNING Reason=None EndTime=2027-11-28T22:36:42 PreemptTime=None' >job_state

# run_job PLAN_LINE... -- WORD...: one sft-run with these words in a job of four nodes of two ranks; its starts in `starts`.
run_job() {
  rm -rf output starts launches
  again "$@"
}
# again: the same, behind what was left before.
again() {
  : >plan
  rm -f starts launches
  while [[ $1 != -- ]]; do
    printf '%s\n' "$1" >>plan
    shift
  done
  shift
  status_of env PATH="$work/bin:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NODELIST='n[1-4]' SLURM_JOB_NUM_NODES=4 \
    SLURM_NTASKS_PER_NODE=2 NODES=all "$work/bin/sft-run" "$@" run.ini
}
: >run.ini
num_starts() { wc -l <starts; }
srun_launcher=(--launcher 'srun --mpi=pmix')

for cured in 1 5 76 137 139; do
  run_job "100 $cured" '- 0' -- --restarts 2 "${srun_launcher[@]}"
  check "status $cured is started again" test "$status $(num_starts)" = '0 2'
done
check 'it says why, from which step, and how many are left' \
  grep -qx 'Restart in 0 s (status 139): it goes on from step 100; 1 left.' out
check 'it goes on from what it saved' grep -q 'run.ini --checkpoint.resume_from_checkpoint auto$' starts
run_job '100 1' '- 0' -- --restarts 2 --launcher 'srun --mpi=pmix' run.ini --checkpoint.resume_from_checkpoint none \
  --train.seed 7
check 'whatever it was told before' grep -qx '1 none run.ini --train.seed 7 run.ini --checkpoint.resume_from_checkpoint auto' starts
check 'and is told how often it was started again' test "$(cut -d' ' -f1 starts | xargs)" = '0 1'
check 'which the output folder remembers' test "$(wc -l <output/restarts.jsonl)" = 1
for lasting in 2 3 4; do
  run_job "100 $lasting" -- --restarts 2 "${srun_launcher[@]}"
  check "status $lasting is not" test "$status $(num_starts)" = "$lasting 1"
done
run_job '100 75' -- --restarts 2 "${srun_launcher[@]}"
check 'nor is 75' test "$status $(num_starts)" = '75 1'
run_job '100 1' -- "${srun_launcher[@]}"
check 'nor anything without --restarts' test "$status $(num_starts)" = '1 1'
run_job '- 1' '- 0' -- --restarts 2 "${srun_launcher[@]}"
check 'a run that has saved nothing begins as it was told to' test "$(grep -c resume_from starts)" = 0

run_job '100 1' '200 1' '300 1' -- --restarts 2 "${srun_launcher[@]}"
check 'there are so many restarts' test "$status $(num_starts)" = '1 3'
check 'and it says so' grep -qx 'No restart (status 1): no restart is left.' out
run_job '100 1' '- 1' '- 1' '- 1' '200 0' -- --restarts 9 "${srun_launcher[@]}"
check 'three in a row without progress are too many' test "$status $(num_starts)" = '1 4'
check 'and it says so' grep -qx 'No restart (status 1): 3 in a row came no further than step 100.' out
run_job '100 1' '- 1' '- 1' '200 1' '- 1' '- 1' '300 0' -- --restarts 9 "${srun_launcher[@]}"
check 'progress counts anew' test "$status $(num_starts)" = '0 7'
run_job '100 1' '- 1' -- --restarts 9 --without_progress 1 "${srun_launcher[@]}"
check 'how many are too many can be said' test "$status $(num_starts)" = '1 2'

# Nodes: the one that is named is not used again.
named='100 76 sft: error: rank 3 on n2 stands still (in a sum over world, for 300 s): look there'
run_job "$named" '- 0' -- --restarts 2 --spares 1 "${srun_launcher[@]}"
check 'a spare node waits' grep -qx -e '--nodes=3 --ntasks=6 --nodelist=n1,n2,n3 --mpi=pmix .*' <(head -n 1 launches)
run_job '- 0' -- --spares 2 --launcher srun
check 'also where the launcher is one word, and nothing is started again' \
  test "$(cut -d' ' -f2 starts)$(wc -w <launches)" = n1,n25
run_job "$named" '- 0' -- --restarts 2 --spares 1 "${srun_launcher[@]}"
check 'and takes the place of the one that is named' test "$(cut -d' ' -f2 starts | xargs)" = 'n1,n2,n3 n1,n3,n4'
check 'which is said' \
  grep -qx 'Restart in 0 s (status 76, rank 3 on n2): it goes on from step 100, without n2; 1 left.' out
check "the run's own line is passed on" grep -q '^sft: error: rank 3 on n2' err
for line in 'sft: error: rank 3 on n2.cluster.example stands still (x): y' \
  'sft: error: rank 3 on host-b stands still (x): y' 'srun: error: n2: task 3: Killed' \
  'srun: error: Node failure on n2' 'slurmstepd-n2: error: *** STEP 7.0 ON n2 CANCELLED AT 2026-11-23T17:00:00 DUE TO NODE FAILURE ***' \
  'sft: error: rank 3 on n2 stands still, with its whole node, which does not answer (x), for 450 s (y): z' \
  '  Remote daemon: [[61045,0],1] on node n2' \
  'mpirun noticed that process rank 3 with PID 0 on node n2 exited on signal 9 (Killed).'; do
  run_job "100 137 $line" '- 0' -- --restarts 2 --spares 1 "${srun_launcher[@]}"
  check "a node is named by: $line" test "$(tail -n 1 starts | cut -d' ' -f2)" = n1,n3,n4
done
run_job '- 137 srun: error: n2: task 3: Exited with exit code 3' '- 0' -- --restarts 2 "${srun_launcher[@]}"
check 'a status that the first rank ended with counts, not that of those that were ended' \
  test "$status $(num_starts)" = '3 1'
run_job '- 0 srun: error: task 0 launch failed: Unspecified error' '- 0' -- --restarts 2 "${srun_launcher[@]}"
check 'ranks that srun could not launch are no success' test "$status $(num_starts)" = '0 2'
run_job '100 137 slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-23T17:00:00 ***|srun: error: n1: task 0: Killed' '- 0' \
  -- --restarts 2 --spares 1 "${srun_launcher[@]}"
check 'nor by one that was ended with its step' test "$(tail -n 1 starts | cut -d' ' -f2)" = n1,n2,n3
run_job '100 1 srun: error: n2: task 3: Exited with exit code 1' '- 0' -- --restarts 2 --spares 1 "${srun_launcher[@]}"
check 'not by a rank that ends with an error of its own' test "$(tail -n 1 starts | cut -d' ' -f2)" = n1,n2,n3
run_job "$named" '- 0' -- --restarts 2 "${srun_launcher[@]}"
check 'without a spare node it is used again' test "$(cut -d' ' -f2 starts | xargs)" = 'none none'
check 'which is said' grep -q 'on the same nodes, since no spare is left; 1 left.$' out
echo 'n3 down*' >states
run_job '100 1' '- 0' -- --restarts 2 --spares 1 "${srun_launcher[@]}"
check 'nothing starts on a node that SLURM has lost' test "$(cut -d' ' -f2 starts | xargs)" = 'n1,n2,n4 n1,n2,n4'
run_job "$named" '- 0' -- --restarts 2 --spares 1 "${srun_launcher[@]}"
check 'where too few are left, one that was named does' test "$(cut -d' ' -f2 starts | xargs)" = 'n1,n2,n4 n1,n4,n2'
printf 'n1 down\nn3 drained\n' >states
run_job -- --restarts 2 --spares 1 "${srun_launcher[@]}"
check 'without enough nodes nothing starts' test "$status $(grep -c 'has lost so many' err)" = '2 1'
: >states

# The queue.
run_job "$named" '- 1 sft: error: rank 1 on n2 stands still (x): y' -- --requeue --restarts 5 "${srun_launcher[@]}"
check 'a node that fails again leaves the job to the queue' grep -qx 'scontrol requeue 7' out
check 'which takes other nodes' grep -qx 'scontrol update JobId=7 ExcNodeList=n2' out
run_job '100 1' '200 1' -- --requeue --restarts 1 "${srun_launcher[@]}"
check 'so does the last restart' grep -qx 'scontrol requeue 7' out
run_job '100 1' '- 1' '- 1' -- --requeue --restarts 2 "${srun_launcher[@]}"
check 'the queue is no way around progress: first' grep -qx 'scontrol requeue 7' out
SLURM_RESTART_COUNT=1 again '- 1' '- 1' -- --requeue --restarts 2 "${srun_launcher[@]}"
check 'then it ends' test "$status $(num_starts) $(grep -c 'scontrol requeue' out)" = '1 1 0'
again '200 1' '300 0' -- --requeue --restarts 2 "${srun_launcher[@]}"
check 'a job of a user counts anew' test "$status $(num_starts)" = '0 2'
date --date='+50 seconds' +%FT%T >job_end
run_job '100 sleep' -- --requeue --restarts 2 "${srun_launcher[@]}"
check 'a run is stopped before the end of its job' grep -q "time is over in [0-9]* s: it is time to save, which is planned to take 2 s" out
check 'and goes back into the queue' grep -qx 'scontrol requeue 7' out
echo NONE >job_end

# Where SLURM says that it ends the job, that decides. As SLURM 22.05 says it.
while IFS='|' read -r what state expected; do
  echo "$state" >job_state
  run_job '100 75' -- --requeue "${srun_launcher[@]}"
  check "a job $what: $expected" grep -qx "Job 7 $expected" out
  check "and is told so once" test "$status $(grep -c 'scontrol requeue 7' out)" = \
    "75 $(grep -cx 'goes back into the queue\.' <<<"$expected")"
done <<'FATES'
that was sent a signal|JobState=RUNNING Reason=None EndTime=Unknown PreemptTime=None|goes back into the queue.
whose time is over|JobState=COMPLETING Reason=TimeLimit EndTime=2026-11-28T22:38:37 PreemptTime=None|goes back into the queue.
that gives way to another|JobState=COMPLETING Reason=None EndTime=2026-11-28T22:37:06 PreemptTime=2026-11-28T22:36:58|goes back into the queue.
that SLURM requeues|JobState=COMPLETING Reason=None EndTime=Unknown|goes back into the queue by itself.
that was cancelled|JobState=COMPLETING Reason=None EndTime=2026-11-28T22:36:11 PreemptTime=None|does not go back into the queue: it is cancelled.
that was cancelled and is gone|JobState=CANCELLED Reason=None EndTime=2026-11-28T22:36:11 PreemptTime=None|does not go back into the queue: it is cancelled.
FATES
echo 'JobState=RUNNING Reason=None EndTime=Unknown PreemptTime=None' >job_state
SLURM_ARRAY_JOB_ID=5 SLURM_ARRAY_TASK_ID=2 run_job '100 75' -- --requeue "${srun_launcher[@]}"
check 'a task of an array goes back alone' grep -qx 'scontrol requeue 5_2' out
run_job '- 75' -- --requeue "${srun_launcher[@]}"
for _ in 1 2; do SLURM_RESTART_COUNT=1 again '- 75' -- --requeue "${srun_launcher[@]}"; done
check 'a run that comes no further goes back three times' grep -qx 'scontrol requeue 7' out
SLURM_RESTART_COUNT=1 again '- 75' -- --requeue "${srun_launcher[@]}"
check 'and no more' test "$status $(grep -c 'scontrol requeue' out)" = '75 0'
check 'which it says' grep -qx 'Job 7 does not go back into the queue: 4 starts in a row came no further than step 0.' out
SLURM_RESTART_COUNT=1 again '200 75' -- --requeue "${srun_launcher[@]}"
check 'one that saves has no limit' grep -qx 'scontrol requeue 7' out

# Messages of SLURM and mpirun about a rank that was killed, without --restarts.
while IFS='|' read -r given line expected words; do
  run_job "- $given $line" -- --launcher 'srun --mpi=pmix'
  check "status $given with '$line': $expected" test "$status" = "$expected"
  check "it is named: $words" grep -q "^sft-run: error: $words was ended by signal" err
done <<'KILLED'
143|srun: error: n2: task 3: Killed|137|rank 3 on n2
143|srun: error: n1: tasks 4,6: Segmentation fault|139|rank 4 on n1
137|mpirun noticed that process rank 3 with PID 0 on node n2 exited on signal 9 (Killed).|137|rank 3 on n2
KILLED
printf '%s\n' '- 137 prterun noticed that process rank 1 with PID 31038 on node vm exited on|signal 9 (Killed).' >broken_line
run_job "$(<broken_line)" -- --launcher srun
check 'Open MPI 5 breaks the line' grep -q '^sft-run: error: rank 1 on vm was ended by signal 9' err

# Settings that cannot be read: which folder the run goes on from is not known.
rm -rf output starts
status_of env PATH="$work/bin:$PATH" SETTINGS=2 bin/sft-run --restarts 2 --launcher env run.ini
check 'without settings nothing starts' test "$status" = 2 -a ! -e starts
check 'and both programs say why' grep -qx 'sft: error: no settings' err
check 'in a line each' grep -q 'sft-run: error: --restarts and --requeue need output_dir' err

# A stop between two starts.
rm -rf output starts
printf '100 1\n- 0\n' >plan
PATH=$work/bin:$PATH NODES=all SFT_RESTART_PAUSE_S=30 bin/sft-run --launcher env --restarts 2 run.ini >out 2>err &
pid=$!
await grep -q Restart out
kill -TERM "$pid"
status=0
wait "$pid" || status=$?
check 'a signal between two starts stops it' test "$status $(num_starts)" = '75 1'

mkfifo pipe.ini
for words in '--restarts' '--restarts x run.ini' '--spares 1 --launcher env run.ini' \
  '--launcher env --restarts 1 pipe.ini'; do
  # shellcheck disable=SC2086  # several words
  status_of bin/sft-run $words
  check "refused: sft-run $words" test "$status $(grep -c '^sft-run: error: ' err)" = "2 1"
done

# The program itself, on 4 ranks. A run that was interrupted has the losses of one that was not, bit for bit.
make_run run.ini 60 400 # long enough to be killed in the middle, also by a machine that is busy
printf '[checkpoint]\nsave_steps = 50\n' >>run.ini
limit_s=120
status_of "$sft_run" -n 4 run.ini --train.output_dir whole
check 'a run that nothing happens to' test "$status" = 0

# kill_at STEP FOLDER: kills a rank of the run there as soon as it has logged that step; its process in `killed`.
kill_at() {
  local ranks=()
  await_steps "$2" "$1"
  mapfile -t ranks < <(processes_of "$sft run.ini --train.output_dir $2")
  kill -KILL "${ranks[2]}"
}
kill_at 100 killed &
status_of "$sft_run" -n 4 --restarts 3 run.ini --train.output_dir killed
check 'a rank that is killed is no end' test "$status" = 0
check 'it is named' grep -qE "^Restart in 0 s \(status [0-9]+, rank [0-9] on $(hostname)\): it goes on from step [1-9][0-9]*;" out
check 'in one line, without those of Open MPI' test ! -s err
check 'the losses are those of the run that nothing happened to' cmp <(losses_by_step whole) <(losses_by_step killed)
check 'nothing is left in the folder for temporary files' test -z "$(find tmp -name 'sft-run.*')"

finish_checks
