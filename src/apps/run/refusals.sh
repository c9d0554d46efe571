# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: a launcher that cannot start the ranks, or that starts none: one line in place of its pages. Options of
# sft-run that it reads: launcher.
# shellcheck disable=SC2154  # sft-run sets them

# The pages of Open MPI that explain_refusal() says in one line, and those that follow from them.
# shellcheck disable=SC2034  # errors.sh reads them
{
  readonly refusal_pages='reliably start one or more daemons|not enough slots available|unable to open the hostfile|No nodes are available for this job'
  readonly pages_after_refusal='know how to route a message|internal error has occurred in ORTE'
}

# The words of ssh on a host that it does not reach.
readonly words_of_ssh='^ssh: (Could not resolve hostname|connect to host) |: Permission denied \(|^Host key verification failed'

# check_hostfiles WORD...: fails with one line where a hostfile among the words of mpirun cannot be one.
check_hostfiles() {
  local file
  is_mpirun "${launcher[0]}" || return 0
  while [[ $# -gt 0 ]]; do
    file=''
    case $1 in
      -hostfile=* | --hostfile=* | -machinefile=* | --machinefile=* | --default-hostfile=*) file=${1#*=} ;;
      -hostfile | --hostfile | -machinefile | --machinefile | --default-hostfile | -f)
        file=${2-}
        [[ $# -eq 1 ]] || shift
        ;;
    esac
    shift
    if [[ -z $file || $file == none ]]; then continue; fi
    [[ -e $file ]] || fail "there is no hostfile $file (the path does not exist): name a file with a line for each host"
    [[ ! -d $file ]] || fail "the hostfile $file is a folder (it has no lines): name a file with a line for each host"
    [[ -f $file ]] || fail "the hostfile $file is no file (a pipe can be read only once): write its lines to a file"
    [[ -r $file ]] || fail "the hostfile $file cannot be read (your user may not): change its permissions"
    grep -qE '^[[:space:]]*[^#[:space:]]' "$file" ||
      fail "the hostfile $file names no host (all its lines are empty or comments): write a line for each host"
  done
}

# explain_refusal FOLDER: why the launcher could not start the ranks, in one line on standard error, and the exit status of
# such a run on standard output. Fails where its words, in FOLDER/errors, tell no such thing.
explain_refusal() {
  local words num_slots
  local -r name=${launcher[0]##*/}
  if grep -q 'not enough slots available' "$1/errors"; then
    num_slots=$(sed -nE 's/.* to satisfy the ([0-9]+).*/\1/p' "$1/errors" | head -n 1)
    tell "sft-run: error: $name has no room for ${num_slots:-so many} ranks (the hosts that it knows have fewer slots): give\
 \`slots=N\` in the hostfile, HOST:N to --host, as many slots of the queue, or --oversubscribe"
    echo 2
  elif grep -q 'No nodes are available for this job' "$1/errors"; then
    tell "sft-run: error: $name finds no host for the ranks (its hostfile, or --host, names none that the job has): correct\
 the names of hosts"
    echo 2
  elif grep -q 'unable to open the hostfile' "$1/errors"; then
    words=$(sed -n '/unable to open the hostfile/{n;s/^ *//p;q}' "$1/errors")
    tell "sft-run: error: $name cannot open the hostfile $words (a setting of Open MPI names it): correct the path"
    echo 2
  elif grep -qE 'reliably start one or more daemons' "$1/errors" || grep -qE "$words_of_ssh" "$1/errors"; then
    words=$(grep -E "$words_of_ssh" "$1/errors" | tr -d '\r' | sort -u | paste -sd ';' | sed 's/;/; /g')
    tell "sft-run: error: $name cannot start ranks on all hosts (${words:-its daemon does not start there, or does not\
 answer}): see that \`ssh HOST true\` ends well for each of them, without a password, and that they have the same MPI"
    echo 1
  else
    return 1
  fi
}

# has_run FOLDER OUTPUT_DIR: a rank has run since FOLDER/placed was written: one on this machine has told so, or one
# elsewhere has left something in OUTPUT_DIR.
has_run() {
  if [[ -e $1/began || -s $1/status ]]; then return; fi
  [[ -d $2 && -n $(find "$2" -maxdepth 1 -newer "$1/placed" -print -quit) ]]
}

# explain_nothing: no rank has run, and the launcher calls that a success.
explain_nothing() {
  tell "sft-run: error: ${launcher[*]} ended with status 0 without having started a rank (the run has left nothing): give a\
 launcher that runs the words behind its own, such as \`mpirun -np 4\`"
}
