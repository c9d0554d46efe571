#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-launch in a job of a SLURM of several nodes on this machine (cluster.sh): it starts the ranks with srun, on all nodes,
# as many as the job has tasks, and refuses another number of machines.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
# shellcheck source=tests/slurm/cluster.sh
source "$test_folder/cluster.sh"
# shellcheck source=tests/shell/tiny_hub.sh
source "$frame_folder/tiny_hub.sh"
export SFT_CACHE=$work/cache HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
make_tiny_model
begin_in_cluster 2
shown=(log)

# in_job NAME WORD...: a job of 2 nodes with 2 tasks each, which is one command of sft-launch; its status in `state`.
is_over() { [[ $(scontrol --oneliner show job "$1" | sed -nE '1s/.* JobState=([^ ]+).*/\1/p') =~ ^(COMPLETED|FAILED|TIMEOUT)$ ]]; }
in_job() {
  local name=$1 job
  shift
  job=$(sbatch --parsable --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 --output="$work/$name.log" \
    --wrap="$(printf '%q ' "$sft_launch" sft --model_name_or_path tiny/model --data_files pairs.jsonl --max_length 64 \
      --per_device_train_batch_size 1 --max_steps 3 --use_cpu --output_dir "$name" "$@")")
  ln -sf "$name.log" log
  await_within 120 is_over "$job" || true
  state=$(scontrol --oneliner show job "$job" | sed -nE '1s/.* JobState=([^ ]+).*/\1/p')
}

in_job tasks
check 'a command in a job' test "$state" = COMPLETED
check 'starts its tasks with srun' grep -q -- '--launcher .srun .*--ntasks=4' log
check 'on all nodes' grep -q '4 ranks on 2 nodes' log
check 'and leaves a model' test -s tasks/model/model.safetensors
in_job fewer --num_processes 2 --num_machines 2 --accelerate_config zero2
check 'a number of ranks' test "$state" = COMPLETED
check 'is obeyed' grep -q -- '--ntasks=2' log
in_job planned --tp_size auto
check 'sizes that are auto' test "$state" = COMPLETED
check 'are for the nodes of the job' grep -q 'by the rates of cpux2x2' log
in_job others --num_machines 3
check 'other machines than those of the job' test "$state" = FAILED
check 'are refused' grep -q 'num_machines = 3, and the SLURM job has 2 nodes' log
finish_checks
