# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: keeps what a run writes to standard error, which names who failed, and passes it on. Of Open MPI's words
# at the end, which say what the run's own line says, only the file gets to know: they alone name a rank that was killed.

# pass_errors FILE: from standard input; both at once, a block between two lines of dashes when it is whole.
pass_errors() {
  local line block='' is_in_block=no
  local -r border='^-{70,}$'
  local -r end_of_run='(mpirun|prterun) (noticed that process rank|detected that one or more)|Primary job +terminated'
  trap '' HUP INT TERM USR1
  while IFS= read -r line || [[ -n $line ]]; do
    printf '%s\n' "$line" >>"$1"
    if [[ $line =~ $border && $is_in_block == no ]]; then
      is_in_block=yes block=$line
    elif [[ $is_in_block == no ]]; then
      printf '%s\n' "$line" >&2
    else
      block+=$'\n'$line
      if [[ ! $line =~ $border ]]; then continue; fi
      if [[ ! $block =~ $end_of_run ]]; then printf '%s\n' "$block" >&2; fi
      is_in_block=no
    fi
  done
  if [[ $is_in_block == yes ]]; then printf '%s\n' "$block" >&2; fi
}

# open_errors FOLDER: makes FOLDER/errors-pipe for the next run to write to; FOLDER/errors gets all of it.
open_errors() {
  rm -f "$1/errors-pipe"
  : >"$1/errors"
  mkfifo "$1/errors-pipe"
  pass_errors "$1/errors" <"$1/errors-pipe" &
  reader=$!
}

# close_errors: returns when all is passed on; two seconds later at most, when somebody still holds the pipe.
close_errors() {
  local try
  for ((try = 0; try < 20; ++try)); do
    if ! kill -0 "$reader" 2>/dev/null; then break; fi
    sleep 0.1
  done
}

# is_not_launched FILE: srun could not start ranks, as its errors in FILE say.
is_not_launched() { grep -qE '^srun: error: .*(launch failed|Unable to (create|confirm))' "$1"; }

# first_failure FILE STATUS: the status of the rank that ended first with an error, of a run whose other ranks were ended
# for its sake, where FILE, what the run wrote to standard error, tells it; STATUS, the run's, where a signal ended that
# rank. Fails where no rank failed.
first_failure() {
  local line
  local -r exited='srun: error: .*: tasks? [0-9,-]+: Exited with exit code ([0-9]+)'
  while IFS= read -r line; do
    if [[ $line =~ $exited && ${BASH_REMATCH[1]} -ne 75 ]]; then
      echo "${BASH_REMATCH[1]}"
      return
    fi
  done <"$1"
  [[ -n $(named_rank "$1") ]] && echo "$2"
}
