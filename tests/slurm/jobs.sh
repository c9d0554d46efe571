#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The job templates in a SLURM of several nodes on this machine (cluster.sh): each runs to its end, and whatever happens to a
# job on its way, its losses are those of a run that nothing happened to, bit for bit.
#
#   jobs.sh [EMULATED_SFT]     an sft whose GPUs are emulated, for the template that asks for GPUs
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
jobs=$source_folder/jobs emulated=${1-}
# shellcheck source=tests/slurm/cluster.sh
source "$test_folder/cluster.sh"
begin_in_cluster 4

ln -s "$sft_run" sft-run
export SFT_RESTART_PAUSE_S=1 OMP_NUM_THREADS=1
make_run run.ini 60 400
printf '[checkpoint]\nsave_steps = 25\n' >>run.ini
shown=(log)

# submit TEMPLATE WORDS_OF_SBATCH OUTPUT [WORD...]: a job of a template, with its own #SBATCH lines but for its size; its
# number in `job`, what it prints in `log`.
submit() {
  local template=$1 output=$3
  local size=()
  read -r -a size <<<"$2"
  shift 3
  job=$(sbatch --parsable --cpus-per-task=1 --output="$work/$output.log" "${size[@]}" "$jobs/$template" run.ini \
    --train.output_dir "$output" "$@")
  : >"$output.log"
  ln -sf "$output.log" log
}

# field_of NAME JOB: of what SLURM tells of a job, as `COMPLETED` of JobState.
field_of() { scontrol --oneliner show job "$2" | sed -nE "1s/.* $1=([^ ]+).*/\1/p"; }
is_over() {
  # What goes back into the queue may not start for two minutes; some seconds are enough for the end of its last step.
  local start
  start=$(scontrol --oneliner show job "$1" | sed -nE '1s/.* JobState=PENDING .* EligibleTime=([^ ]+).*/\1/p')
  if [[ $start == 20* && $(date --date="$start" +%s) -gt $(($(date +%s) + 15)) ]]; then
    scontrol update "JobId=$1" StartTime=now+8
  fi
  [[ $(field_of JobState "$1") =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY)$ ]]
}
# ends_as STATE: the job ends so.
ends_as() {
  await_within "${2:-180}" is_over "$job" || true
  check "and the job ends as $1" test "$(field_of JobState "$job")" = "$1"
}
# as_uninterrupted FOLDER WHOLE: nothing is lost, nothing is wrong.
as_uninterrupted() {
  check 'with the losses of a run that nothing happened to' cmp <(losses_by_step "$2") <(losses_by_step "$1")
}
# ranks_of FOLDER: the processes of the ranks of that run, one a line, found within a step or two.
ranks_of() { pgrep --full --exact "$sft run.ini --train.output_dir $1( .*)?" || true; }
# rank_on NODE FOLDER: one that runs there.
rank_on() {
  local rank
  for rank in $(ranks_of "$2"); do
    if grep -qzFx "SLURMD_NODENAME=$1" "/proc/$rank/environ" 2>/dev/null; then
      echo "$rank"
      return
    fi
  done
}
# kill_on NODE FOLDER: a rank of that run there.
kill_on() { check "a rank on $1 is killed" kill -KILL "$(rank_on "$1" "$2")"; }
printed() { check "it says: $1" grep -qE "$1" log; }

one_node='--nodes=1 --ntasks-per-node=4'
two_nodes='--nodes=2 --ntasks-per-node=2'
two_and_spare='--nodes=3 --ntasks-per-node=2 --export=ALL,SFT_SPARES=1'

# 1. Each template, and nothing happens.
submit slurm_one_node.sbatch "$one_node" one
right 'slurm_one_node.sbatch'
ends_as COMPLETED
status_of "$sft_run" -n 4 run.ini --train.output_dir alone
as_uninterrupted one alone
submit slurm_many_nodes.sbatch "$two_nodes" many
right 'slurm_many_nodes.sbatch'
ends_as COMPLETED
printed '4 ranks on 2 nodes'
submit slurm_gpus_per_node.sbatch '--nodes=2 --ntasks-per-node=2 --gpus-per-node=2' no_gpus
right 'slurm_gpus_per_node.sbatch, where there are none'
ends_as FAILED
printed 'error: .*(CUDA|GPU)'
check 'without a restart' test "$(field_of Restarts "$job") $(grep -c Restart log)" = '0 0'
job=$(sbatch --parsable --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --array=0-1 --output="$work/rates-%a.log" \
  "$jobs/slurm_learning_rates.sbatch" run.ini --train.max_steps 20)
right 'slurm_learning_rates.sbatch'
rates_are_over() { [[ -z $(squeue --noheader --job="$job") ]]; }
await_within 120 rates_are_over || true
ln -sf rates-1.log log
check 'trains with each rate' test "$(wc -l <output/learning_rate-1e-5/metrics.jsonl) $(
  wc -l <output/learning_rate-3e-5/metrics.jsonl)" = '20 20'

# 2. It is asked to stop, as before the end of its time.
submit slurm_one_node.sbatch "$one_node" stopped
await_steps stopped 60
scancel --batch --signal=USR1 "$job"
right 'SIGUSR1'
ends_as COMPLETED
check 'after one time in the queue' test "$(field_of Restarts "$job")" = 1
printed 'saved stopped/checkpoint'
as_uninterrupted stopped one

if [[ -n $emulated ]]; then
  mkdir -p gpu/bin gpu/share
  cp "$sft_run" gpu/bin/sft-run
  cp -r "$(dirname "$sft_run")/../share/sft" gpu/share/sft
  ln -s "$(readlink -f "$emulated")" gpu/bin/sft
  ln -sfn gpu/bin/sft-run sft-run
  two_of_gpus='--nodes=2 --ntasks-per-node=2 --gpus-per-node=2'
  submit slurm_gpus_per_node.sbatch "$two_of_gpus" gpus --train.max_steps 8
  right 'slurm_gpus_per_node.sbatch, with emulated GPUs'
  ends_as COMPLETED 300
  submit slurm_gpus_per_node.sbatch "$two_of_gpus" gpus_stopped --train.max_steps 8
  await_steps gpus_stopped 3
  scancel --batch --signal=USR1 "$job"
  right 'SIGUSR1'
  ends_as COMPLETED 300
  check 'after one time in the queue' test "$(field_of Restarts "$job")" = 1
  as_uninterrupted gpus_stopped gpus
  ln -sfn "$sft_run" sft-run
fi

# 3. It gives way to a job that matters more.
submit slurm_many_nodes.sbatch "$two_nodes" preempted
await_steps preempted 60
urgent=$(sbatch --parsable --partition=high --nodes=4 --exclusive --output=/dev/null --wrap='sleep 1')
right 'a job of a higher partition'
await_within 60 is_over "$urgent" || true
check 'gets the nodes' test "$(field_of JobState "$urgent")" = COMPLETED
ends_as COMPLETED
check 'after one time in the queue' test "$(field_of Restarts "$job")" = 1
as_uninterrupted preempted many

# 4. SLURM puts it back, without a word before.
submit slurm_one_node.sbatch "$one_node" requeued
await_steps requeued 60
scontrol requeue "$job"
right 'scontrol requeue'
ends_as COMPLETED
as_uninterrupted requeued one

# 5. Its step is cancelled.
submit slurm_one_node.sbatch "$one_node" cancelled
await_steps cancelled 60
scancel "$job.0"
right 'the step is cancelled'
ends_as COMPLETED
as_uninterrupted cancelled one

# 6. The job is cancelled, of each template: it saves, and is over.
# is_cancelled JOB FOLDER LOG: checks it.
is_cancelled() {
  ln -sf "$3" log
  ends_as CANCELLED
  check 'out of the queue' test "$(field_of Restarts "$1")" = 0
  printed "^Job $1 does not go back into the queue: it is cancelled\\.\$"
  check 'with a checkpoint' compgen -G "$2/checkpoint-*/checkpoint.h5"
}
for template in one_node many_nodes; do
  nodes=$one_node
  if [[ $template == many_nodes ]]; then nodes=$two_nodes; fi
  submit "slurm_$template.sbatch" "$nodes" "over_$template" --train.max_steps 1000000 --checkpoint.save_steps 0
  await_steps "over_$template" 20
  scancel "$job"
  right "slurm_$template.sbatch is cancelled"
  is_cancelled "$job" "over_$template" "over_$template.log"
done
array=$(sbatch --parsable --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --array=0-1 --output="$work/over-%a.log" \
  "$jobs/slurm_learning_rates.sbatch" run.ini --train.max_steps 1000000 --checkpoint.save_steps 0)
for rate in 1e-5 3e-5; do await_steps "output/learning_rate-$rate" 20; done
scancel --batch --signal=USR1 "${array}_0"
job=${array}_0
right 'one task of an array is stopped'
waits_in_queue() { [[ $(field_of Restarts "$job") -eq 1 ]]; }
check 'and goes back into the queue' await_within 60 waits_in_queue
check 'alone' test "$(field_of JobState "${array}_1") $(field_of Restarts "${array}_1")" = 'RUNNING 0'
scancel "${array}_1"
right 'another one is cancelled'
job=${array}_1
is_cancelled "${array}_1" output/learning_rate-3e-5 over-1.log
scancel "$array"

# 7. A rank is killed: another node takes the place of its own.
submit slurm_many_nodes.sbatch "$two_and_spare" killed
await_steps killed 60
kill_on n2 killed
ends_as COMPLETED
check 'without the queue' test "$(field_of Restarts "$job")" = 0
printed '^Restart in 1 s \(status [0-9]+, rank [23] on n2\): it goes on from step [1-9][0-9]*, without n2; 9 left\.$'
as_uninterrupted killed many

# 8. A node is drained, then a rank on another one is killed: only two are left.
submit slurm_many_nodes.sbatch '--nodes=4 --ntasks-per-node=2 --export=ALL,SFT_SPARES=2' drained
await_steps drained 60
scontrol update nodename=n1 state=drain reason=test
kill_on n2 drained
right 'another node is drained'
await_within 60 grep -q 'Restart' log
await_steps drained 100
check 'neither runs anything' test -z "$(rank_on n1 drained)$(rank_on n2 drained)"
ends_as COMPLETED
scontrol update nodename=n1 state=resume || true
as_uninterrupted drained many

# 9. A node is lost.
submit slurm_many_nodes.sbatch "$two_and_spare" lost
await_steps lost 60
rank=$(rank_on n2 lost)
lose_node n2 "$(ps -o ppid= -p "$rank")" "$rank" # and the daemon of its step
right 'a node is lost'
await_within 90 grep -q Restart log || true
check 'nothing runs on it' test -z "$(rank_on n2 lost)"
ends_as COMPLETED
start_node n2
check 'without the queue' test "$(field_of Restarts "$job")" = 0
printed '^Restart in 1 s \(.*it goes on from step [1-9][0-9]*'
as_uninterrupted lost many

# 10. A node without a spare one fails twice: the job leaves it.
submit slurm_one_node.sbatch "$one_node" twice
await_steps twice 60
node=$(field_of NodeList "$job")
kill_on "$node" twice
await_within 60 grep -q 'Restart in' log || true
printed "^Restart in 1 s \\(status [0-9]+, rank [0-3] on $node\\): it goes on from step [1-9][0-9]*, on the same nodes"
await_steps twice 150
kill_on "$node" twice
right 'a node fails twice'
ends_as COMPLETED
printed "^Restart from the queue \\(status [0-9]+, rank [0-3] on $node\\): .*without $node; no spare node is left"
check 'and the job goes to another one' test "$(field_of ExcNodeList "$job")" = "$node" -a \
  "$(field_of NodeList "$job")" != "$node"
as_uninterrupted twice one

# 11. mpirun in place of srun, which starts its own daemons through it. (All nodes have the memory of one host here, which
# Open MPI takes for several: messages through sockets.)
ln -sf mpirun.log log
job=$(sbatch --parsable --nodes=3 --ntasks-per-node=2 --cpus-per-task=1 --output="$work/mpirun.log" \
  --wrap='OMPI_MCA_btl=self,tcp ./sft-run --restarts 3 --spares 1 --launcher mpirun run.ini --train.output_dir mpirun \
    --parallel.dp_replicate_size 2 --parallel.dp_shard_size auto')
await_steps mpirun 60
kill_on n2 mpirun
right 'under mpirun'
ends_as COMPLETED
printed '^Restart in 1 s \(status [0-9]+, rank [23] on n2\): it goes on from step [1-9][0-9]*, without n2; 2 left\.$'
as_uninterrupted mpirun many

# 12. Its time comes to an end: sft-run saves a minute and some seconds before, SLURM's own signal would come later.
submit slurm_one_node.sbatch "$one_node --time=2 --signal=B:USR1@5" timely --train.max_steps 1000000 --checkpoint.save_steps 0
right 'the end of its time'
is_requeued() { [[ $(field_of Restarts "$job") -eq 1 ]]; }
check 'comes with a place in the queue' await_within 110 is_requeued
printed "^The job's time is over in [56][0-9] s: it is time to save, which is planned to take 1 s\.$"
check 'and a checkpoint' compgen -G 'timely/checkpoint-*/checkpoint.h5'
scancel "$job"

finish_checks
