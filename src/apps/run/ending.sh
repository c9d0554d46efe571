# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: how a run ended, whatever its launcher says of it, and the end of a launcher that hangs. Options of sft-run
# that it reads: launcher, num_signals.
# shellcheck disable=SC2154  # sft-run sets them

# is_stop STATUS: that of a launcher whose ranks a signal that asks to stop has ended.
is_stop() { [[ $1 =~ ^(129|130|138|143)$ ]]; } # HUP, INT, USR1, TERM

# status_of_run FOLDER STATUS ENDED_BY_SIGNAL SFT WORD...: the exit status of a run whose launcher ended with STATUS, from
# what the ranks on this machine left in FOLDER and from the words in FOLDER/errors. ENDED_BY_SIGNAL: it was asked to stop
# before its first step. SFT WORD...: the run.
status_of_run() {
  local status=$2 output=''
  # Who gets a signal while it ends may forget how the run ended, and mpirun may crash in its own end (Open MPI 4.1 with
  # PMIx 4.2, rarely).
  if [[ $num_signals -gt 0 || $status -gt 128 ]] && [[ -s $1/status ]]; then
    cat "$1/status"
    return
  fi
  if [[ $status -gt 0 && $num_signals -eq 0 && ! -e $1/began ]] && explain_refusal "$1"; then
    : >"$1/explained"
    return
  fi
  if [[ $status -gt 0 ]] && is_hydra "${launcher[0]}"; then
    status_of_hydra "$@"
    return
  fi
  # A step that srun could not launch is no success, though its status may say so.
  if [[ $status -eq 0 ]] && is_not_launched "$1/errors"; then status=1; fi
  if [[ $status -eq 0 && $num_signals -eq 0 ]] && ! has_run "$1" '' && is_training "${@:5}" && is_readable_again "${@:5}"; then
    output=$(print_output_dir "${@:4}" 2>/dev/null) || output=''
    if ! has_run "$1" "$output"; then
      explain_nothing
      : >"$1/explained"
      status=1
    fi
  fi
  # Ranks that were ended for the sake of one that failed had nothing to save either.
  if [[ $status -gt 128 ]] && first_failure "$1/errors" "$status"; then return; fi
  if [[ -e $1/hung ]] || [[ -e $1/nothing-to-save ]] && { [[ $num_signals -gt 0 ]] || is_stop "$status"; }; then
    status=$3
  fi
  echo "$status"
}

# status_of_hydra: the same for the mpiexec of MPICH, whose status says little: those of all ranks joined bit by bit, in
# which a rank that signal 9 killed counts 9, also those that mpiexec killed itself. Ranks that end by themselves tell how;
# a run none of whose ranks did so was killed.
status_of_hydra() {
  if [[ -s $1/status ]]; then
    cat "$1/status"
  elif [[ -s $1/ending ]]; then
    cat "$1/ending"
  elif [[ -e $1/hung || -e $1/nothing-to-save ]]; then
    echo "$3"
  elif [[ -e $1/began ]]; then
    echo 137
  else
    echo "$2"
  fi
}

# explain FOLDER STATUS: one line on standard error for a run that ended with STATUS, where no rank could say why.
explain() {
  local named why see
  local -r next='--checkpoint.resume_from_checkpoint auto goes on from the newest checkpoint'
  if [[ -e $1/explained ]]; then return; fi
  named=$(killed_rank "$1/errors")
  if [[ -n $named ]]; then
    if [[ $named == *'signal 9' ]]; then
      why="the kernel does so where memory runs out" see="the kernel's log there"
    else
      why="it crashed, in sft or in a library" see="the lines above"
    fi
    echo "sft-run: error: $named ($why): see $see; $next" >&2
  elif [[ $2 -eq 137 && -e $1/began ]] && is_hydra "${launcher[0]}"; then
    echo "sft-run: error: a rank was ended by a signal (${launcher[0]} names it above): see the kernel's log there; $next" >&2
  elif [[ ! -s $1/errors && ! $2 =~ ^(0|75)$ && ! -s $1/ending ]]; then
    echo "sft-run: error: ${launcher[*]} ended with status $2 (it said nothing): run it with a program such as hostname" \
      "in place of sft" >&2
  fi
}

# end_all LAUNCHER: that process, and all that it started on this machine.
end_all() {
  local -a processes
  mapfile -t processes < <(descendants_of "$1")
  kill -TERM "$1" 2>/dev/null || true
  sleep 3
  mapfile -t -O "${#processes[@]}" processes < <(descendants_of "$1")
  kill -KILL "${processes[@]}" 2>/dev/null || true
}

# has_agents PROCESS...: one of them may have started ranks on other machines.
has_agents() {
  local process name
  for process in "$@"; do
    read -r name <"/proc/$process/comm" || continue
    if [[ $name =~ ^(ssh|rsh|srun|qrsh|blaunch|pbs_tmrsh|pbsdsh|orted|prted)$ ]]; then return; fi
  done 2>/dev/null
  return 1
}

# watch_launcher LAUNCHER FOLDER: ends it where it hangs. The end of mpirun can hang when all ranks have ended (Open MPI 4.1
# with PMIx 4.2, in one of some hundred runs that are stopped): a launcher whose ranks have done all their work is not
# waited for. It can hang at its start, too, or lose the signal that asks to stop. So ranks on this machine get the signal
# themselves after some seconds; where there are none, the launcher ends after SFT_STOP_PATIENCE_S (10), or, where there may
# be some elsewhere, which may save, after sixty times that. Where sft-run itself is gone, as after kill -9, it asks the ranks
# to stop, and sees to the end of their launcher in the same way.
watch_launcher() {
  local -r patience_s=${SFT_STOP_PATIENCE_S:-10}
  local begin='' are_told=no is_alone=no try
  local -a processes ranks
  trap - HUP INT TERM USR1
  until [[ -s $2/status || -e $2/nothing-to-save ]]; do
    sleep 2
    if [[ $is_alone == no ]] && is_gone "$$"; then
      is_alone=yes
      : >"$2/stop"
      signal_launcher USR1 "$1"
    fi
    if [[ $is_alone == yes ]] && is_gone "$1"; then break; fi
    if [[ ! -e $2/stop ]]; then continue; fi
    begin=${begin:-$SECONDS}
    mapfile -t processes < <(descendants_of "$1")
    mapfile -t ranks < <(ranks_among "${processes[@]}")
    if [[ ${#ranks[@]} -gt 0 ]]; then
      if [[ $are_told == no && $((SECONDS - begin)) -ge 6 ]]; then
        kill -CONT "$1" # ranks whose output nobody reads could not save
        kill -USR1 "${ranks[@]}"
        are_told=yes
      fi
      continue
    fi
    if [[ $((SECONDS - begin)) -lt $patience_s ]]; then continue; fi
    if is_mpirun "${launcher[0]}" && ! has_agents "${processes[@]}"; then
      : >"$2/hung"
    elif [[ $((SECONDS - begin)) -lt $((60 * patience_s)) ]]; then
      continue
    fi
    end_all "$1"
    break
  done
  for ((try = 0; try < 10; ++try)); do
    if is_gone "$1"; then break; fi
    sleep 1
  done
  if ! is_gone "$1"; then end_all "$1"; fi
  if is_gone "$$"; then rm -rf "$2"; fi
}
