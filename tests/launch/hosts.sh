#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-launch with a hostfile: ranks start on its machines. The two machines are this one under two names: in place of ssh
# Open MPI gets a script that notes the name and runs the words here.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
# shellcheck source=tests/shell/tiny_hub.sh
source "$frame_folder/tiny_hub.sh"
if ! "$mpiexec" --version | grep -q 'Open MPI\|OpenRTE'; then
  skip_test 'this is no Open MPI, which reads hostfiles by other rules'
fi
export SFT_CACHE=$work/cache HF_HUB_OFFLINE=1
make_tiny_model

# Open MPI's daemon of a machine empties and removes folders of its temporary folder: of machines that share one, under
# the daemon of another.
stand_in agent <<AGENT
# agent HOST WORD...
printf '%s\n' "\$1" >>"$work/reached"
export TMPDIR=$work/\$1.\$\$
mkdir "\$TMPDIR"
shift
exec bash -c "\$*"
AGENT
export OMPI_MCA_plm_rsh_agent=$work/agent PRTE_MCA_plm_ssh_agent=$work/agent
export OMPI_MCA_btl_tcp_if_include=lo # ranks of two machines talk by TCP, which leaves this device out where it may choose
export OMPI_MCA_rtc_hwloc_vmhole=none  # where its daemons share what they know of the machine they crash now and then
unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM # which Open MPI wants of root, and users do not type
printf 'first-machine slots=1\nsecond-machine slots=1\n' >hosts
launch=("$sft_launch" sft --model_name_or_path tiny/model --data_files pairs.jsonl --max_length 64 --use_cpu
  --per_device_train_batch_size 1 --max_steps 2)
unset PBS_NODEFILE LSB_DJOB_HOSTFILE LSB_MCPU_HOSTS
refuses 2 'num_machines = 2 without the names of machines' "${launch[@]}" --num_machines 2 --num_processes 2
succeeds 'a hostfile' timeout 120 "${launch[@]}" --num_machines 2 --num_processes 2 --hostfile hosts --output_dir two
check 'reaches both machines' test "$(sort -u reached | tr '\n' ' ')" = 'first-machine second-machine '
check 'starts as many ranks' grep -q 'dp_shard_size = 2' two/resolved.ini
check 'which train and leave a model' test -s two/model/model.safetensors
cat >machines.yaml <<'YAML'
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
num_machines: 2
machine_rank: 0
num_processes: 2
deepspeed_config:
  deepspeed_hostfile: hosts
  zero_stage: 2
YAML
succeeds "DeepSpeed's name for it" timeout 120 "${launch[@]}" --accelerate_config machines.yaml --output_dir named
check 'means the same' grep -qx 'zero_stage = 2' named/launch.ini
# Jobs of PBS, of one slot a host and of two.
rm reached
printf 'first-machine\nsecond-machine\n' >'the nodes'
export PBS_NODEFILE="$work/the nodes"
succeeds 'a job of PBS' timeout 120 "${launch[@]}" --output_dir job
check 'is taken with its hosts' test "$(sort -u reached | tr '\n' ' ')" = 'first-machine second-machine '
check 'and slots' grep -q 'dp_shard_size = 2' job/resolved.ini
cat "$PBS_NODEFILE" "$PBS_NODEFILE" >nodes
PBS_NODEFILE=nodes prints 0 'mpirun --hostfile nodes -np 4' "${launch[@]}" --output_dir more --print
refuses 2 'num_machines = 3, and the job has 2 hosts' "${launch[@]}" --num_machines 3 --output_dir more
refuses 2 'mpirun has no room for 9 ranks' env -u OMPI_MCA_rmaps_base_oversubscribe -u PRTE_MCA_rmaps_default_mapping_policy "${launch[@]}" --num_processes 9 --output_dir more
finish_checks
