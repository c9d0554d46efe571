#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts sft on several ranks, and stops it in good order:
#
#   sft-run -n 16 INPUT.ini [--section.key VALUE ...]                      on this machine, however few cores it has
#   sft-run --launcher "mpirun --hostfile hosts -np 64" INPUT.ini          on several, with words of your own
#   sft-run --requeue --launcher "srun --mpi=pmix" INPUT.ini               in a SLURM job
#
# Ctrl-C, SIGTERM, SIGHUP or SIGUSR1 saves a checkpoint and ends with status 75: the same command with
# --checkpoint.resume_from_checkpoint auto goes on from there. Further ones change nothing, but another Ctrl-C, after a
# second, ends the run at once.
set -euo pipefail

# What this script and the ranks on this machine tell each other: a file `stop` for those that start after a signal,
# `nothing-to-save` from one that a signal ended before the first step, `status` from rank 0 when its work is done.
folder='' pid='' guard='' num_signals=0 last_signal_us=0 is_interrupted=yes is_given_up=no

# pass_on SIGNAL: asks the ranks to stop; a second Ctrl-C ends them, and what is left after five seconds is killed.
# shellcheck disable=SC2317  # the traps call it
pass_on() {
  local now_us=${EPOCHREALTIME/[^0-9]/}
  is_interrupted=yes
  if [[ $1 == INT && $num_signals -gt 0 && $((now_us - last_signal_us)) -ge 1000000 ]]; then is_given_up=yes; fi
  num_signals=$((num_signals + 1)) last_signal_us=$now_us
  if [[ -n $folder ]]; then : >"$folder/stop" || true; fi
  if [[ -z $pid ]]; then return; fi
  if [[ $is_given_up == no ]]; then
    kill -USR1 "$pid" 2>/dev/null || true
  else
    kill -TERM "$pid" 2>/dev/null || true
    (trap - HUP INT TERM USR1 && sleep 5 && kill -0 "$$" && kill -KILL "$pid") </dev/null >/dev/null 2>&1 &
  fi
}

usage() {
  cat <<'END'
usage: sft-run (-n N | --launcher COMMAND) [--requeue] INPUT.ini [--section.key VALUE ...]

  -n N                start N ranks on this machine with mpirun, also more than it has cores
  --launcher COMMAND  the command that starts the ranks, in place of mpirun -np N; cut at blanks
  --requeue           put this SLURM job back into the queue after status 75 (stopped: run again to
                      go on)
  --help              print this text

From INPUT.ini on, all words are for sft; paths are relative to where sft-run is called. Ctrl-C,
SIGTERM, SIGHUP and SIGUSR1 save and stop, with status 75; so does one that comes before the first
step, when there is nothing to save.
END
}

# fail PROBLEM: one line, and the exit status of a wrong command line.
fail() {
  printf 'sft-run: error: %s; see sft-run --help\n' "$1" >&2
  exit 2
}

num_ranks='' launcher=() requeue=no
while [[ $# -gt 0 ]]; do
  case $1 in
    -n | -np | --num_ranks)
      [[ ${2-} =~ ^[1-9][0-9]*$ ]] || fail "$1 needs a number of ranks"
      num_ranks=$2
      shift 2
      ;;
    --launcher)
      read -r -a launcher <<<"${2-}"
      [[ ${#launcher[@]} -gt 0 ]] || fail "--launcher needs a command such as \"srun --mpi=pmix\""
      shift 2
      ;;
    --requeue)
      requeue=yes
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) break ;;
  esac
done
if [[ -n $num_ranks && ${#launcher[@]} -gt 0 ]]; then fail "give -n or --launcher, not both (the launcher counts)"; fi
if [[ -z $num_ranks && ${#launcher[@]} -eq 0 ]]; then fail "how many ranks? give -n N, or --launcher"; fi
[[ $# -gt 0 ]] || fail "no run is described: give INPUT.ini"

# sft is beside this script, whether built, linked or installed.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
readonly sft=$here/sft
[[ -x $sft ]] || fail "there is no program $sft (build or install it)"

if [[ -n $num_ranks ]]; then
  command -v mpirun >/dev/null || fail "there is no mpirun on PATH (install Open MPI, or load its module)"
  launcher=(mpirun -np "$num_ranks")
  # More ranks than cores: no binding, and a waiting rank gives way. The second names are those of Open MPI 5.
  export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe-1}
  export PRTE_MCA_rmaps_default_mapping_policy=${PRTE_MCA_rmaps_default_mapping_policy-:oversubscribe}
  export OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy-none}
  export PRTE_MCA_hwloc_default_binding_policy=${PRTE_MCA_hwloc_default_binding_policy-none}
  # nproc would answer with OMP_NUM_THREADS where that is set.
  if [[ $num_ranks -gt $(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) ]]; then
    export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle-1}
  fi
  if [[ $(id -u) -eq 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
fi
export OMPI_MCA_orte_execute_quiet=1 # after a status other than 0, the run's own line says it all

folder=$(mktemp -d "${TMPDIR:-/tmp}/sft-run.XXXXXXXX" 2>/dev/null) || folder=''
if [[ -n $folder ]]; then export SFT_RUN_FOLDER=$folder; fi
readonly ended_by_signal=$((128 + $(kill -l USR1)))

# From here on no signal is lost; one that comes earlier ends this script, which has started nothing yet. No `$(...)` may
# follow while the traps are set: bash 5.2 confuses its words with those of a trap.
for signal in HUP INT TERM USR1; do
  # shellcheck disable=SC2064  # the name of now
  trap "pass_on $signal" "$signal"
done
trap '[[ -z $guard ]] || kill "$guard" 2>/dev/null || true; [[ -z $folder ]] || rm -rf "$folder"' EXIT

# A session of its own: Ctrl-C would make mpirun kill the ranks before they save. USR1 is ignored where mpirun does not
# handle it: while it starts, when the ranks are not there yet, and while it ends, when they have done their work.
start_ranks() {
  if [[ ${launcher[0]##*/} =~ ^(mpirun|mpiexec|orterun|prterun)$ ]]; then trap '' USR1; fi
  exec setsid "${launcher[@]}" "$sft" "$@"
}
# The end of mpirun itself can hang when all ranks have ended (Open MPI 4.1 with PMIx 4.2, in one of some hundred runs that
# are stopped): who has long done all the work is not waited for.
end_with_the_work() {
  local patience_s=10
  trap - HUP INT TERM USR1
  until [[ -s $folder/status || -e $folder/nothing-to-save ]]; do
    sleep 2
    kill -0 "$$" || return 0
  done
  sleep "$patience_s"
  kill -0 "$$" && kill -KILL "$1" # while this script waits for it, nobody else gets its number
}
status=$ended_by_signal
if [[ $num_signals -eq 0 ]]; then
  start_ranks "$@" &
  pid=$!
  if [[ -n $folder ]]; then
    end_with_the_work "$pid" </dev/null >/dev/null 2>&1 &
    guard=$!
  fi
fi
while [[ -n $pid && $is_interrupted == yes ]]; do # a signal ends the wait, not the command, whose status outlives it
  is_interrupted=no status=0
  wait "$pid" 2>/dev/null || status=$? # without the shell's own word on how it was killed
done
trap '' HUP INT TERM USR1

# A launcher that gets a signal while it ends may forget how the run ended, and mpirun may crash in its own end (Open MPI 4.1
# with PMIx 4.2, rarely).
if [[ $num_signals -gt 0 || $status -gt 128 ]] && [[ -s $folder/status ]]; then status=$(<"$folder/status"); fi
if [[ $status -gt 128 && -e $folder/nothing-to-save ]]; then status=$ended_by_signal; fi

# Ended by the signal that was passed on, before the first step, where the run stands as it stood.
if [[ $status -eq $ended_by_signal && $is_given_up == no ]]; then
  echo "Stopped before the first step: there was nothing to save."
  status=75
fi
if [[ $status -eq 75 && $requeue == yes ]]; then
  echo "Job ${SLURM_JOB_ID:?--requeue is for SLURM jobs} goes back into the queue."
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
