# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: keeps what a run writes to standard error, which names who failed, and passes it on. Of Open MPI's words
# at the end, which say what the run's own line says, only the file gets to know: they alone name a rank that was killed; so it is
# with pages that refusals.sh, which has their words, says in one line.
# shellcheck disable=SC2154  # refusals.sh sets them

# tell TEXT: on standard error, which may be closed: the run goes on, as its ranks see to that.
tell() { printf '%s\n' "$1" >&2 2>/dev/null || true; }

# pass_errors FILE HELD: from standard input; both at once, a block between two lines of dashes when it is whole. Words of ssh
# on hosts go to HELD alone where a block or the end comes next, within two seconds: explain_refusal() may say it.
pass_errors() {
  local line='' block='' held='' is_in_block=no is_refused=no status
  local -r border='^-{70,}$'
  local -r end_of_run='(mpirun|prterun) (noticed that process rank|detected that one or more)|Primary job +terminated'
  local -r passed_on='^(mpirun|prterun): Forwarding signal [0-9]+ to job'
  trap '' HUP INT TERM USR1 PIPE
  while true; do
    status=0
    if [[ $is_in_block == yes || -n $held ]]; then IFS= read -r -t 2 line || status=$?; else IFS= read -r line || status=$?; fi
    if [[ $status -gt 128 ]]; then # no block of Open MPI takes so long: these are other lines
      tell "${held:-$block}${line:+$'\n'$line}"
      is_in_block=no held=''
      continue
    fi
    if [[ $status -ne 0 && -z $line ]]; then break; fi
    printf '%s\n' "$line" 2>/dev/null >>"$1" || true # a full disk is no reason to end here
    if [[ $is_in_block == no && $line =~ $words_of_ssh ]]; then
      held+=${held:+$'\n'}$line
      continue
    fi
    if [[ -n $held && $is_in_block == no ]]; then
      if [[ $line =~ $border ]]; then printf '%s\n' "$held" 2>/dev/null >>"$2" || true; else tell "$held"; fi
      held=''
    fi
    if [[ $line =~ $border && $is_in_block == no ]]; then
      is_in_block=yes block=$line
    elif [[ $is_in_block == no && $line =~ $passed_on ]]; then
      continue # so does the run
    elif [[ $is_in_block == no ]]; then
      tell "$line"
    else
      block+=$'\n'$line
      if [[ ! $line =~ $border ]]; then continue; fi
      if [[ $block =~ $refusal_pages ]]; then
        is_refused=yes # which explain_refusal() says
      elif [[ ! $block =~ $end_of_run && ! ($is_refused == yes && $block =~ $pages_after_refusal) ]]; then
        tell "$block"
      fi
      is_in_block=no
    fi
  done
  if [[ $is_in_block == yes ]]; then tell "$block"; fi
  if [[ -n $held ]]; then printf '%s\n' "$held" 2>/dev/null >>"$2" || true; fi
}

# open_errors FOLDER: makes FOLDER/errors-pipe for the next run to write to; FOLDER/errors gets all of it.
open_errors() {
  rm -f "$1/errors-pipe"
  : >"$1/errors"
  : >"$1/held"
  mkfifo "$1/errors-pipe"
  pass_errors "$1/errors" "$1/held" <"$1/errors-pipe" &
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
