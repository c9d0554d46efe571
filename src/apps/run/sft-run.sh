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
    apart signal_launcher USR1 "$pid"
  elif [[ -n $pid ]]; then
    apart signal_launcher TERM "$pid"
    (trap - HUP INT TERM USR1 && sleep 5 && kill -0 "$$" && end_all "$pid") </dev/null >/dev/null 2>&1 &
  fi
}

usage() {
  cat <<'END'
usage: sft-run (-n N | --launcher COMMAND) [--restarts N] [--spares K] [--requeue]
               INPUT.ini [--section.key VALUE ...]

  -n N                start N ranks on this machine with mpirun, also more than it has cores
  --launcher COMMAND  the command that starts the ranks, in place of mpirun -np N; cut at blanks,
                      which quotes keep: "mpirun --hostfile 'my hosts' -np 64"
  --restarts N        start the ranks again, up to N times, when they end with a status that another
                      start can cure (not 0, 2, 3, 4 and 75), from the newest checkpoint; in a SLURM
                      job without the node that a line of the run or of SLURM names
  --without_progress N  the most restarts in a row, or places in the queue, that may save no further
                      checkpoint (default: 3)
  --spares K          start on K nodes fewer than the SLURM job has; a spare one takes the place of
                      one that was named or that SLURM lost
  --requeue           put this SLURM job back into the queue after status 75 (stopped: run again to
                      go on), and where no restart or no node is left, unless it was cancelled; it
                      stops, and saves, in time before the job's time is over
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

# sft is beside this script, whether built, linked or installed.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
readonly sft=$here/sft
[[ -x $sft ]] || fail "there is no program $sft (build or install it)"
readonly parts=$here/../share/sft/run
for part in restarts nodes names job_end queue refusals errors launcher ending; do
  [[ -r $parts/$part.sh ]] || fail "there is no $parts/$part.sh, a part of this program (build or install it)"
  # shellcheck source=/dev/null  # each is checked by itself
  source "$parts/$part.sh"
done

num_ranks='' launcher=() requeue=no restarts=0 spares=0 most_without_progress=3
while [[ $# -gt 0 ]]; do
  case $1 in
    -n | -np | --num_ranks)
      [[ ${2-} =~ ^[1-9][0-9]*$ ]] || fail "$1 needs a number of ranks"
      [[ ${#2} -le 5 && $2 -le 65536 ]] || fail "$1 $2 is too many ranks (65536 is the most)"
      [[ -z $num_ranks || $num_ranks == "$2" ]] || fail "two numbers of ranks are given, $num_ranks and $2"
      num_ranks=$2
      shift 2
      ;;
    --launcher)
      mapfile -t launcher < <(words_of "${2-}" || echo)
      [[ ${#launcher[@]} -gt 0 && -n ${launcher[0]} ]] ||
        fail "--launcher needs a command such as \"srun --mpi=pmix\", with all quotes closed"
      command -v "${launcher[0]}" >/dev/null || fail "there is no launcher ${launcher[0]} (install it, or load its module)"
      shift 2
      ;;
    --requeue)
      requeue=yes
      shift
      ;;
    --restarts | --spares | --without_progress)
      [[ ${2-} =~ ^(0|[1-9][0-9]*)$ ]] || fail "$1 needs a number"
      # shellcheck disable=SC2034  # the parts in run/ read them
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

if [[ -n $num_ranks ]]; then
  command -v mpirun >/dev/null || fail "there is no mpirun on PATH (install Open MPI, or load its module)"
  launcher=(mpirun -np "$num_ranks")
  prepare_local_ranks
fi
prepare_launcher
check_hostfiles "${launcher[@]:1}"
if is_mpirun "${launcher[0]}" && ! is_script "${launcher[0]}"; then is_program_of_mpi=yes; else is_program_of_mpi=no; fi
# When sft-run is killed, and all of its process group, the kernel asks the launcher to stop.
stops_alone=()
if command -v setpriv >/dev/null && ! is_script "${launcher[0]}"; then stops_alone=(setpriv --pdeathsig USR1); fi
if [[ $requeue == yes ]]; then
  [[ -n ${SLURM_JOB_ID-} ]] || fail "--requeue is for SLURM jobs"
fi
if [[ $spares -gt 0 ]]; then
  is_in_job || fail "--spares is for SLURM jobs"
  [[ -n ${SLURM_JOB_NUM_NODES-} ]] || fail "--spares needs the number of nodes of the job (SLURM_JOB_NUM_NODES is not set)"
  [[ ${launcher[0]##*/} =~ ^(srun|mpirun|orterun)$ ]] || fail "--spares needs srun, or mpirun of Open MPI, as the launcher"
  [[ $(ranks_per_node) -gt 0 ]] || fail "--spares needs as many ranks on each node (sbatch --ntasks-per-node)"
  [[ $spares -lt $SLURM_JOB_NUM_NODES ]] || fail "--spares leaves none of $SLURM_JOB_NUM_NODES nodes"
fi

readonly ended_by_signal=$((128 + $(kill -l USR1)))
if [[ $restarts -gt 0 || $requeue == yes ]] && ! is_readable_again "$@"; then
  fail "--restarts and --requeue need a file that can be read again, not $1"
fi
for place in "${TMPDIR:-/tmp}" /dev/shm .; do
  folder=$(mktemp -d "$place/sft-run.XXXXXXXX" 2>/dev/null) && break
done
[[ -n $folder ]] || fail "there is no place for temporary files in ${TMPDIR:-/tmp} (set TMPDIR to a folder that can be written)"
export SFT_RUN_FOLDER=$folder

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
  rm -rf "$folder"' EXIT

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
if [[ $restarts -gt 0 || $requeue == yes ]] && is_training "$@"; then
  status=0
  apart print_output_dir "$sft" "$@" >"$folder/output_dir" || status=$?
  IFS= read -r output_dir <"$folder/output_dir" || true
  if [[ $status -ne 0 ]]; then
    echo "sft-run: error: --restarts and --requeue need output_dir (sft --print-config ended with status $status): see" \
      "its own line" >&2
    exit "$status"
  fi
fi
if [[ $restarts -gt 0 || $requeue == yes ]]; then
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
# handle it: while it starts, when the ranks are not there yet, and while it ends, when they have done their work. A script
# would ignore it for good, for all that it starts.
start_ranks() {
  if [[ $is_program_of_mpi == yes ]]; then trap '' USR1; fi
  exec setsid "${stops_alone[@]}" "${command[@]}" "$sft" "$@"
}

# run_once WORD...: starts the ranks and waits for their end; the exit status in `status`.
run_once() {
  status=$ended_by_signal
  if [[ $num_signals -gt 0 ]]; then return; fi
  rm -f "$folder"/{status,nothing-to-save,began,ending,hung,explained}
  place_ranks
  : >"$folder/placed"
  open_errors "$folder"
  start_ranks "$@" 2>"$folder/errors-pipe" &
  pid=$!
  watch_launcher "$pid" "$folder" </dev/null >/dev/null 2>&1 &
  guard=$!
  is_interrupted=yes
  while [[ $is_interrupted == yes ]]; do # a signal ends the wait, not the command, whose status outlives it
    is_interrupted=no status=0
    wait "$pid" 2>/dev/null || status=$? # without the shell's own word on how it was killed
  done
  pid=''
  kill "$guard" 2>/dev/null || true
  guard=''
  close_errors
  if [[ $is_given_up == yes ]]; then return; fi
  apart status_of_run "$folder" "$status" "$ended_by_signal" "$sft" "$@" >"$folder/ended"
  read -r status <"$folder/ended"
  if [[ ! -e $folder/explained && -s $folder/held ]]; then cat "$folder/held" >&2 || true; fi
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
  if [[ -e $folder/hung ]]; then echo "warning: ${launcher[0]} hung, and was ended" >&2; fi
  status=75
elif [[ $restarts -eq 0 && $is_given_up == no ]]; then
  explain "$folder" "$status"
fi
if [[ $requeue == yes && $status -eq 75 ]] && gains_by_queue "$folder" "$output_dir"; then action=requeue; fi
if [[ $action == requeue ]]; then requeue_job "$folder"; fi
exit "$status"
