#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The job templates: what the run gets to know of the network, of spare nodes and of the task of an array.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
jobs=$source_folder/jobs

mkdir bin
stand_in bin/sft-run <<'SFT_RUN'
printf '%s\n' "$@"
env | grep -E '^(NCCL|OMPI)_' | sort
SFT_RUN
stand_in bin/scontrol <<'SCONTROL'
[[ "$*" == "show hostnames node[01-02]" ]] && printf "node01\nnode02\n"
SCONTROL
stand_in bin/getent <<'GETENT'
[[ $2 == node02 ]] && echo "10.1.0.2 STREAM node02" && echo "10.1.0.2 DGRAM"
GETENT
stand_in bin/ip <<'IP'
[[ "$*" == "-o route get 10.1.0.2" ]] && echo "10.1.0.2 dev eno1 src 10.1.0.1 uid 0"
IP

# submit TEMPLATE NODES [NAME=VALUE...]: runs it as SLURM would, on the first node.
submit() {
  local template=$1 nodes=$2
  shift 2
  succeeds "$template on $nodes nodes" env -u NCCL_SOCKET_IFNAME -u OMPI_MCA_btl_tcp_if_include "$@" \
    PATH="$work/bin:$PATH" SLURM_SUBMIT_DIR="$work" SLURM_CPUS_PER_TASK=4 SLURM_JOB_NUM_NODES="$nodes" \
    SLURM_JOB_NODELIST='node[01-02]' bash "$jobs/$template" run.ini --train.max_steps 7
}

for template in slurm_gpus_per_node.sbatch slurm_many_nodes.sbatch; do
  submit "$template" 2
  check 'words reach the run' grep -qx -e '--train.max_steps' out
  check 'ranks fill a node before the next' grep -q 'distribution=block:block' out
  check "Open MPI's sockets use the interface to the other node" grep -qx 'OMPI_MCA_btl_tcp_if_include=eno1' out
  submit "$template" 2 OMPI_MCA_btl_tcp_if_include=ib0
  check 'what is set stays' grep -qx 'OMPI_MCA_btl_tcp_if_include=ib0' out
  submit "$template" 1
  check 'one node needs no network' test "$(grep -c '_if_include\|_IFNAME' out)" = 0
done

submit slurm_gpus_per_node.sbatch 2
check "so do NCCL's" grep -qx 'NCCL_SOCKET_IFNAME==eno1' out
check 'every rank sees all GPUs of its node' grep -q -e '--gpu-bind=none' out
stand_in bin/ip <<<'exit 2'
submit slurm_gpus_per_node.sbatch 2
check 'without a route nothing is set' test "$(grep -c '_if_include\|_IFNAME' out)" = 0
stand_in bin/getent <<<'exit 2'
submit slurm_many_nodes.sbatch 2
check 'nor where a node has no address, without an error line' test "$(grep -c '_if_include\|_IFNAME' out)$(cat err)" = 0

submit slurm_many_nodes.sbatch 2 SFT_SPARES=1
check 'a spare node is none of the mesh' test "$(grep -x -A1 -e '--spares\|--parallel.dp_replicate_size' out | xargs)" = \
  '--spares 1 -- --parallel.dp_replicate_size 1'
submit slurm_learning_rates.sbatch 1 SLURM_ARRAY_TASK_ID=1
check 'a task of an array has its learning rate' grep -qx 3e-5 out
check 'and its folder' grep -qx output/learning_rate-3e-5 out
submit slurm_learning_rates.sbatch 1 SLURM_ARRAY_TASK_ID=1 LEARNING_RATES='1e-3 2e-3'
check 'of those that are given' grep -qx 2e-3 out
status_of env PATH="$work/bin:$PATH" SLURM_SUBMIT_DIR="$work" SLURM_CPUS_PER_TASK=4 SLURM_ARRAY_TASK_ID=4 \
  bash "$jobs/slurm_learning_rates.sbatch" run.ini
check 'a task without one ends with status 2' test "$status $(grep -c 'sbatch --array=0-3' err)" = '2 1'
finish_checks
