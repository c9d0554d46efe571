# shellcheck shell=bash
# Sourced by the scripts of this folder: stopping a run in good order, and going on later.

# run_until_stopped COMMAND...: runs it; SIGTERM, SIGHUP, SIGUSR1 and Ctrl-C sent to this script reach it as SIGUSR1 alone,
# at which sft saves a checkpoint and ends with status 75. Returns the command's status.
run_until_stopped() {
  setsid "$@" & # a session of its own: Ctrl-C would make mpirun kill the ranks before they save
  local pid=$! status=0 interrupted=1
  # shellcheck disable=SC2064  # the process is known now
  trap "interrupted=1; kill -USR1 $pid 2>/dev/null || true" HUP INT TERM USR1
  while [ "$interrupted" -eq 1 ]; do # a signal ends the wait, not the command, whose status outlives it
    interrupted=0 status=0
    wait "$pid" || status=$?
  done
  trap - HUP INT TERM USR1
  return "$status"
}

# requeue_if_stopped STATUS: puts this SLURM job back into the queue after status 75, then ends the script with STATUS.
requeue_if_stopped() {
  if [ "$1" -eq 75 ]; then
    echo "Stopped after saving; job $SLURM_JOB_ID goes back into the queue."
    scontrol requeue "$SLURM_JOB_ID"
  fi
  exit "$1"
}
