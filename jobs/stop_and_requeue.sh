# shellcheck shell=bash
# Sourced by the scripts of this folder: stopping a run in good order, and going on later.

# run_until_stopped COMMAND...: runs it; SIGTERM, SIGUSR1 and Ctrl-C sent to this script reach it as SIGUSR1 alone, at which
# sft saves a checkpoint and ends with status 75. Returns the command's status.
run_until_stopped() {
  setsid "$@" & # a session of its own: Ctrl-C would make mpirun kill the ranks before they save
  local pid=$! status=0
  # shellcheck disable=SC2064  # the process is known now
  trap "kill -USR1 $pid 2>/dev/null || true" INT TERM USR1
  wait "$pid" || status=$?
  while kill -0 "$pid" 2>/dev/null; do # a signal ended the wait, not the command
    status=0
    wait "$pid" || status=$?
  done
  trap - INT TERM USR1
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
