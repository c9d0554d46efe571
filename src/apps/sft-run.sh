#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts sft on several ranks, and stops it in good order:
#
#   sft-run -n 16 INPUT.ini [--section.key VALUE ...]                      on this machine, however few cores it has
#   sft-run --launcher "mpirun --hostfile hosts -np 64" INPUT.ini          on several, with words of your own
#   sft-run --requeue --launcher "srun --mpi=pmix" INPUT.ini               in a SLURM job
#   sft-run --restarts 10 ...                                              starts again what another start can cure
#
# What it does between two starts is in run/ (installed as share/sft/run).
#
# Ctrl-C, SIGTERM, SIGHUP or SIGUSR1 saves a checkpoint and ends with status 75: the same command with
# --checkpoint.resume_from_checkpoint auto goes on from there. Further ones change nothing, but another Ctrl-C, after a
# second, ends the run at once.
set -euo pipefail

# What this script and the ranks on this machine tell each other: a file `stop` for those that start after a signal,
# `nothing-to-save` from one that a signal ended before the first step, `status` from rank 0 when its work is done.
folder='' pid='' guard='' timer='' num_signals=0 last_signal_us=0 is_interrupted=yes is_given_up=no

# pass_on SIGNAL: asks the ranks to stop; a second Ctrl-C ends them, and what is left after five seconds is killed.
# shellcheck disable=SC2317  # the traps call it
pass_on() {
  local now_us=${EPOCHREALTIME/[^0-9]/}
  is_interrupted=yes
  if [[ $1 == INT && $num_signals -gt 0 && $((now_us - last_signal_us)) -ge 1000000 ]]; then is_given_up=yes; fi
  num_signals=$((num_signals + 1)) last_signal_us=$now_us
  if [[ -n $folder ]]; then : >"$folder/stop" || true; fi
  if [[ -n $pid && $is_given_up == no ]]; then
    kill -USR1 "$pid" 2>/dev/null || true
  elif [[ -n $pid ]]; then
    kill -TERM "$pid" 2>/dev/null || true
    (trap - HUP INT TERM USR1 && sleep 5 && kill -0 "$$" && kill -KILL "$pid") </dev/null >/dev/null 2>&1 &
  fi
}

usage() {
  cat <<'END'
usage: sft-run (-n N | --launcher COMMAND) [--restarts N] [--spares K] [--requeue]
               INPUT.ini [--section.key VALUE ...]

  -n N                start N ranks on this machine with mpirun, also more than it has cores
  --launcher COMMAND  the command that starts the ranks, in place of mpirun -np N; cut at blanks
  --restarts N        start the ranks again, up to N times, when they end with a status that another
                      start can cure (not 0, 2, 3, 4 and 75), from the newest checkpoint; in a SLURM
                      job without the node that a line of the run or of SLURM names
  --without_progress N  the most restarts in a row that may save no further checkpoint (default: 3)
  --spares K          start on K nodes fewer than the SLURM job has; a spare one takes the place of
                      one that was named or that SLURM lost
  --requeue           put this SLURM job back into the queue after status 75 (stopped: run again to
                      go on), and where no restart or no node is left; it stops, and saves, in time
                      before the job's time is over
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

num_ranks='' launcher=() requeue=no restarts=0 spares=0 most_without_progress=3
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
      command -v "${launcher[0]}" >/dev/null || fail "there is no launcher ${launcher[0]} (install it, or load its module)"
      shift 2
      ;;
    --requeue)
      requeue=yes
      shift
      ;;
    --restarts | --spares | --without_progress)
      [[ ${2-} =~ ^(0|[1-9][0-9]*)$ ]] || fail "$1 needs a number"
      case $1 in
        --restarts) restarts=$2 ;;
        --spares) spares=$2 ;;
        *) most_without_progress=$2 ;;
      esac
      shift 2
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

readonly parts=$here/../share/sft/run
[[ -r $parts/restarts.sh ]] || fail "there is no $parts/restarts.sh, a part of this program (build or install it)"
# shellcheck source=src/apps/run/restarts.sh
source "$parts/restarts.sh"
# shellcheck source=src/apps/run/nodes.sh
source "$parts/nodes.sh"
# shellcheck source=src/apps/run/job_end.sh
source "$parts/job_end.sh"
# shellcheck source=src/apps/run/errors.sh
source "$parts/errors.sh"

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
fi
if [[ $(id -u) -eq 0 ]]; then # Open MPI asks both, whichever launcher calls it; others do not read them
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
if [[ $restarts -eq 0 ]]; then
  export OMPI_MCA_orte_execute_quiet=1 # after a status other than 0, the run's own line says it all
fi
if [[ $requeue == yes ]]; then
  [[ -n ${SLURM_JOB_ID-} ]] || fail "--requeue is for SLURM jobs"
fi
if [[ $spares -gt 0 ]]; then
  is_in_job || fail "--spares is for SLURM jobs"
  [[ ${launcher[0]##*/} =~ ^(srun|mpirun|orterun)$ ]] || fail "--spares needs srun, or mpirun of Open MPI, as the launcher"
  [[ $(ranks_per_node) -gt 0 ]] || fail "--spares needs as many ranks on each node (sbatch --ntasks-per-node)"
  [[ $spares -lt $SLURM_JOB_NUM_NODES ]] || fail "--spares leaves none of $SLURM_JOB_NUM_NODES nodes"
fi

readonly ended_by_signal=$((128 + $(kill -l USR1)))
if [[ $restarts -gt 0 && $1 != -* && -e $1 && ! -f $1 ]]; then
  fail "--restarts needs a file that can be read again, not $1"
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/sft-run.XXXXXXXX" 2>/dev/null) || folder=''
if [[ -z $folder && ($restarts -gt 0 || $spares -gt 0) ]]; then
  fail "there is no place for temporary files, which --restarts and --spares need (set TMPDIR)"
fi
if [[ -n $folder ]]; then export SFT_RUN_FOLDER=$folder; fi

# From here on no signal is lost; one that comes earlier ends this script, which has started nothing yet. No `$(...)` may
# follow while the traps are set: bash 5.2 confuses its words with those of a trap. So functions that use it run `apart`,
# and tell what they have to by files.
for signal in HUP INT TERM USR1; do
  # shellcheck disable=SC2064  # the name of now
  trap "pass_on $signal" "$signal"
done
# Behind the others: with it alone bash handles signals itself, and ends.
trap '[[ -z $guard ]] || kill "$guard" 2>/dev/null || true
  [[ -z $timer ]] || kill "$timer" 2>/dev/null || true
  [[ -z $folder ]] || rm -rf "$folder"' EXIT

# apart COMMAND...: in a process of its own, which signals leave alone.
apart() { (
  trap '' HUP INT TERM USR1
  "$@"
); }

# count_restarts: tells the ranks how often they were started again.
count_restarts() {
  apart num_recorded "$output_dir" >"$folder/num_recorded"
  read -r SFT_RESTARTS <"$folder/num_recorded"
  export SFT_RESTARTS
}

# Where the run leaves its checkpoints, the nodes that it starts on, and when its job ends, where these matter.
output_dir=''
if [[ -n $folder && ($restarts -gt 0 || $requeue == yes) ]]; then
  apart print_output_dir "$sft" "$@" >"$folder/output_dir"
  read -r output_dir <"$folder/output_dir" || true
fi
if [[ $restarts -gt 0 ]]; then
  apart begin_restarts "$folder" "$output_dir"
  count_restarts
fi
if [[ $spares -gt 0 ]]; then
  : >>"$folder/excluded"
  apart choose_nodes "$folder" || fail "SLURM has lost so many nodes that $((SLURM_JOB_NUM_NODES - spares)) are not left"
fi
if [[ $requeue == yes ]]; then
  watch_job_end "$$" "$output_dir" "$num_ranks" "$sft" "$@" </dev/null 2>/dev/null &
  timer=$!
fi

# place_ranks: sets `command`, the launcher's words for the nodes that were chosen.
place_ranks() {
  command=("${launcher[@]}")
  if [[ ! -s $folder/nodes ]]; then return; fi
  local nodes=()
  mapfile -t nodes <"$folder/nodes"
  local IFS=,
  apart placed "${launcher[0]}" "${nodes[*]}" "${launcher[@]:1}" >"$folder/command"
  mapfile -t command <"$folder/command"
}
# A session of its own: Ctrl-C would make mpirun kill the ranks before they save. USR1 is ignored where mpirun does not
# handle it: while it starts, when the ranks are not there yet, and while it ends, when they have done their work.
start_ranks() {
  if [[ ${launcher[0]##*/} =~ ^(mpirun|mpiexec|orterun|prterun)$ ]]; then trap '' USR1; fi
  exec setsid "${command[@]}" "$sft" "$@"
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

# run_once WORD...: starts the ranks and waits for their end; the exit status in `status`.
run_once() {
  status=$ended_by_signal
  if [[ $num_signals -gt 0 ]]; then return; fi
  if [[ -n $folder ]]; then rm -f "$folder/status" "$folder/nothing-to-save"; fi
  place_ranks
  if [[ $restarts -gt 0 ]]; then
    open_errors "$folder"
    start_ranks "$@" 2>"$folder/errors-pipe" &
  else
    start_ranks "$@" &
  fi
  pid=$!
  if [[ -n $folder ]]; then
    end_with_the_work "$pid" </dev/null >/dev/null 2>&1 &
    guard=$!
  fi
  is_interrupted=yes
  while [[ $is_interrupted == yes ]]; do # a signal ends the wait, not the command, whose status outlives it
    is_interrupted=no status=0
    wait "$pid" 2>/dev/null || status=$? # without the shell's own word on how it was killed
  done
  pid=''
  if [[ -n $guard ]]; then kill "$guard" 2>/dev/null || true; fi
  guard=''
  if [[ $restarts -gt 0 ]]; then close_errors; fi

  # A launcher that gets a signal while it ends may forget how the run ended, and mpirun may crash in its own end (Open MPI
  # 4.1 with PMIx 4.2, rarely).
  if [[ $num_signals -gt 0 || $status -gt 128 ]] && [[ $is_given_up == no && -s $folder/status ]]; then
    read -r status <"$folder/status"
  fi
  # A step that srun could not launch is no success, though its status may say so.
  if [[ $restarts -gt 0 && $status -eq 0 ]] && apart is_not_launched "$folder/errors"; then status=1; fi
  # Ranks that were ended for the sake of one that failed had nothing to save either.
  if [[ $restarts -gt 0 && $status -gt 128 ]] && apart first_failure "$folder/errors" "$status" >"$folder/failure"; then
    read -r status <"$folder/failure"
  elif [[ $status -gt 128 && -e $folder/nothing-to-save ]]; then
    status=$ended_by_signal
  fi
}

# resume WORD...: sets `words`, those of the run but for where it goes on from: a key may be given once.
resume() {
  local -r key='^--(checkpoint\.)?resume_from_checkpoint'
  words=()
  while [[ $# -gt 0 ]]; do
    if [[ $1 =~ $key$ && $# -gt 1 ]]; then
      shift
    elif [[ ! $1 =~ $key(=|$) ]]; then
      words+=("$1")
    fi
    shift
  done
  words+=(--checkpoint.resume_from_checkpoint auto)
}

# pause SECONDS: a signal ends it.
pause() {
  sleep "$1" >/dev/null 2>&1 &
  wait "$!" || true
  kill "$!" 2>/dev/null || true
}

words=("$@") action=restart
while [[ $action == restart ]]; do
  run_once "${words[@]}"
  action=end
  if [[ $restarts -eq 0 || $is_given_up == yes || $status -eq $ended_by_signal ]]; then break; fi
  if [[ $num_signals -gt 0 ]]; then is_stopped=yes; else is_stopped=no; fi
  apart decide "$folder" "$output_dir" "$status" "$is_stopped" >"$folder/decision" || true
  { read -r action && read -r seconds && read -r told; } <"$folder/decision" || true
  if [[ -n $told ]]; then echo "$told"; fi
  if [[ $action != restart ]]; then break; fi
  count_restarts
  if apart has_saved "$folder" "$output_dir"; then resume "$@"; fi
  pause "$seconds"
done
trap '' HUP INT TERM USR1

# Ended by the signal that was passed on, before the first step, where the run stands as it stood.
if [[ $status -eq $ended_by_signal && $is_given_up == no && $action == end ]]; then
  echo "Stopped before the first step: there was nothing to save."
  status=75
fi
if [[ $requeue == yes ]] && [[ $status -eq 75 || $action == requeue ]]; then
  echo "Job $SLURM_JOB_ID goes back into the queue."
  requeue_job "$folder"
fi
exit "$status"
