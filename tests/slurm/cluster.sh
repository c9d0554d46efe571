# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# A SLURM cluster of several nodes on this machine: munged, slurmctld, and one slurmd a node, which tells them by name and
# port. Everything of it lies in one folder, nothing needs systemd, cgroups or a database. Every node offers more cores
# than there may be, so that the templates' own #SBATCH lines fit. A test sources this file after frame.sh and calls
# begin_in_cluster; it is skipped where SLURM is not installed.

PATH=$PATH:/usr/sbin # where daemons are
cluster='' cluster_memory='' # its folders, the second one in shared memory
cluster_daemons=()

# cluster_is_installed: all that start_cluster needs is there; else says what is not.
cluster_is_installed() {
  local program missing=()
  for program in munged mungekey slurmctld slurmd sbatch; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then return 0; fi
  echo "there is no ${missing[*]}: \`make slurm-deps\` installs SLURM"
  return 1
}

# free_port: one that nobody listens on; each call answers another.
cluster_port=$((20000 + RANDOM % 10000))
free_port() {
  while cluster_port=$((cluster_port + 1)) && (: <>"/dev/tcp/127.0.0.1/$cluster_port") 2>/dev/null; do :; done
}

# await_within SECONDS COMMAND...: waits until it succeeds; fails where it does not.
await_within() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= end)); then return 1; fi
    sleep 0.2
  done
}

# write_cluster_files NODES: slurm.conf. Partition `low` gives way to `high`: its jobs go back into the queue.
write_cluster_files() {
  local number controller_port host
  host=$(hostname)
  free_port
  controller_port=$cluster_port
  cat >"$cluster/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host
SlurmctldPort=$controller_port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$cluster/munge.socket
CredType=cred/munge
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool-%n
TmpFS=$cluster/tmp-%n
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd-%n.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd-%n.log
SlurmctldTimeout=5
SlurmdTimeout=15
InactiveLimit=0
KillWait=5
MinJobAge=300
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog=$cluster/task-prolog
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
SlurmdParameters=config_overrides
SlurmdDebug=info
GresTypes=gpu
CONF
  # Open MPI names its files in shared memory by the host, which is the same for all nodes here.
  cat >"$cluster/task-prolog" <<PROLOG
#!/usr/bin/env bash
echo "export OMPI_MCA_btl_vader_backing_directory=$cluster_memory/\$SLURMD_NODENAME"
echo "export OMPI_MCA_osc_sm_backing_directory=$cluster_memory/\$SLURMD_NODENAME"
PROLOG
  chmod +x "$cluster/task-prolog"
  for number in $(seq "$1"); do
    mkdir -p "$cluster/tmp-n$number" "$cluster_memory/n$number"
    free_port
    printf 'NodeName=n%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=64 RealMemory=1000 Gres=gpu:4 State=UNKNOWN\n' \
      "$number" "$host" "$cluster_port" >>"$cluster/slurm.conf"
  done
  cat >>"$cluster/slurm.conf" <<CONF
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=30
PartitionName=high Nodes=ALL Default=NO MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
CONF
  printf 'Name=gpu File=/dev/%s\n' null zero full random >"$cluster/gres.conf" # in place of GPUs, which it only counts
}

# start_daemon WORD...: in the foreground of its own, so that stop_cluster knows it.
start_daemon() {
  "$@" >>"$cluster/daemons.log" 2>&1 </dev/null &
  cluster_daemons+=("$!")
}

start_node() { start_daemon slurmd -D -N "$1"; }

# lose_node NODE PID...: without a word, as when its power fails: its daemon, and these processes of its jobs.
lose_node() {
  local -r number=${1#n}
  shift
  local -r daemon=${cluster_daemons[number + 1]} # the first two are munged and slurmctld
  kill -KILL "$daemon" "$@"
  wait "$daemon" 2>/dev/null || true # without the shell's own word
  unset 'cluster_daemons[number + 1]'
}

# start_cluster FOLDER NODES: returns when all nodes are idle.
all_nodes_are_idle() { [[ $(sinfo -h -N -p low -t idle -o %N | wc -l) -eq $1 ]]; }
start_cluster() {
  cluster=$1
  cluster_memory=$(mktemp -d /dev/shm/sft-cluster.XXXXXXXX)
  mkdir -p "$cluster/state"
  chmod 755 "$cluster"
  mungekey --create --keyfile "$cluster/munge.key" --bits 1024
  start_daemon munged --foreground --force --key-file "$cluster/munge.key" --socket "$cluster/munge.socket" \
    --pid-file "$cluster/munged.pid" --log-file "$cluster/munged.log" --seed-file "$cluster/munge.seed"
  export SLURM_CONF=$cluster/slurm.conf
  write_cluster_files "$2"
  await_within 20 test -S "$cluster/munge.socket" || return 1
  start_daemon slurmctld -D
  local number
  for number in $(seq "$2"); do start_node "n$number"; done
  await_within 60 all_nodes_are_idle "$2"
}

no_job_is_left() { [[ -z $(timeout 5 squeue --noheader) ]]; }
no_daemon_is_left() { ! kill -0 "${cluster_daemons[@]}"; }
# stop_cluster: ends all jobs and daemons.
stop_cluster() {
  if [[ -z $cluster ]]; then return; fi
  timeout 20 scancel --full --signal=KILL --user "$(id -un)" 2>/dev/null || true
  timeout 20 scancel --user "$(id -un)" 2>/dev/null || true
  await_within 20 no_job_is_left || true
  kill "${cluster_daemons[@]}" 2>/dev/null || true
  await_within 10 no_daemon_is_left || true
  kill -KILL "${cluster_daemons[@]}" 2>/dev/null || true
  wait "${cluster_daemons[@]}" 2>/dev/null || true # without the shell's own word on each
  rm -rf "$cluster_memory"
}

# begin_in_cluster NODES: a test goes on when all nodes are idle, and ends where they do not come up. The cluster goes with it.
begin_in_cluster() {
  trap 'stop_cluster; rm -rf "${work:?}"' EXIT
  trap 'exit 143' TERM # (a trap of its own: bash then runs that of EXIT)
  if start_cluster "$work/cluster" "$1"; then
    right 'the cluster starts'
    return
  fi
  tail -n 20 "$work"/cluster/*.log
  wrong 'the cluster starts'
  finish_checks
}

cluster_is_installed || exit 77
