# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: which rank, on which host, the words of a failed run name first, and what ended it.

# The lines that name a rank and the host that it ran on, or a host alone; the first line that fits is the cause, what
# comes after it are ranks that were ended for its sake. In this order: sft's own errors, a node that SLURM or mpirun lost,
# a rank that a signal ended, as srun and as mpirun tell it. A signal that asks to stop is no failure.
readonly host='([[:alnum:]][[:alnum:]._-]*)'
readonly host_patterns=(
  "sft: error: .*(rank [0-9]+) on $host"
  "srun: error: (Node failure) on $host"
  "error: \*\*\* (STEP) [^ ]+ ON $host CANCELLED AT .* DUE TO NODE FAILURE"
  "(Remote daemon): .* on node $host"
  "srun: error: $host: tasks? ([0-9]+)[0-9,-]*: (Killed|Aborted|Bus error|Segmentation fault|Illegal instruction|Out Of Memory)"
  "process (rank [0-9]+) with PID [0-9]+ on node $host exited on signal ([3-9]|1[1-46-9]|[2-9][0-9])( |$)"
)

# Lines of srun before it ends the other ranks, which it then names too.
readonly ranks_are_ended='Terminating StepId|Job step aborted|\*\*\* STEP [^ ]+ ON [^ ]+ CANCELLED'

# signal_of WORDS: the number of the signal that srun means.
signal_of() {
  case $1 in
    Aborted) echo 6 ;;
    'Bus error') echo 7 ;;
    'Segmentation fault') echo 11 ;;
    'Illegal instruction') echo 4 ;;
    *) echo 9 ;;
  esac
}

# first_named FILE: "9 rank 3 on HOST" or "0 a node was lost: HOST", whoever the file names first, after the number of the
# signal that ended it; nothing: nobody. Open MPI 5 breaks its line before the signal.
first_named() {
  local line pattern are_others_ended=no
  while IFS= read -r line; do
    for pattern in "${host_patterns[@]}"; do
      if [[ ! $line =~ $pattern || ($are_others_ended == yes && $pattern == *': task'*) ]]; then continue; fi
      case ${BASH_REMATCH[1]} in
        rank*) printf '%d %s on %s' "${BASH_REMATCH[3]:-0}" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" ;;
        'Node failure' | STEP | 'Remote daemon') printf '0 a node was lost: %s' "${BASH_REMATCH[2]}" ;;
        *) printf '%d rank %s on %s' "$(signal_of "${BASH_REMATCH[3]}")" "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}" ;;
      esac
      return
    done
    if [[ $line =~ $ranks_are_ended ]]; then are_others_ended=yes; fi
  done < <(sed '/ exited on$/{N;s/\n/ /}' "$1")
}

# named_rank FILE: the same without the signal.
named_rank() {
  local -r named=$(first_named "$1")
  printf '%s' "${named#* }"
}

# killed_rank FILE: "rank 3 on HOST was ended by signal 9"; nothing where what the file names first is something else.
killed_rank() {
  local -r named=$(first_named "$1")
  if [[ ${named%% *} -gt 0 ]]; then printf '%s was ended by signal %d' "${named#* }" "${named%% *}"; fi
}

# is_not_launched FILE: srun could not start ranks, as its errors in FILE say.
is_not_launched() { grep -qE '^srun: error: .*(launch failed|Unable to (create|confirm))' "$1"; }

# first_failure FILE STATUS: the status of the rank that ended first with an error, of a run whose other ranks were ended
# for its sake, where FILE, what the run wrote to standard error, tells it; that of its signal, where one ended that rank.
# STATUS: the run's, where the file names a rank or a node alone. Fails where no rank failed.
first_failure() {
  local line named
  local -r exited='srun: error: .*: tasks? [0-9,-]+: Exited with exit code ([0-9]+)'
  while IFS= read -r line; do
    if [[ $line =~ $exited && ${BASH_REMATCH[1]} -ne 75 ]]; then
      echo "${BASH_REMATCH[1]}"
      return
    fi
  done <"$1"
  named=$(first_named "$1")
  if [[ -z $named ]]; then return 1; fi
  if [[ ${named%% *} -gt 0 ]]; then echo "$((128 + ${named%% *}))"; else echo "$2"; fi
}
