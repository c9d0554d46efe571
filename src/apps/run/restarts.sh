# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: whether a run that ended is started again, and from where. All of it runs between two starts, in a
# process of its own; what it has to remember lies in files of the folder that it is given. Options of sft-run that it
# reads: restarts, most_without_progress, requeue.
# shellcheck disable=SC2154  # sft-run sets them

# is_curable STATUS: another start may end otherwise. Not one that is done, nor a wrong configuration, wrong data, or numbers
# that are none, which would be the same again; and 75 is stopped.
is_curable() {
  case $1 in
    0 | 2 | 3 | 4 | 75) return 1 ;;
  esac
}

# is_training WORD...: these words of sft mean a run, which leaves something; others print something and end.
is_training() {
  local word
  for word in "$@"; do
    if [[ $word =~ ^(--(check|dry-run|print-config|compile-attention|help|version)|-h)$ ]]; then return 1; fi
  done
}

# is_readable_again WORD...: the file that these words begin with, if any, is no pipe.
is_readable_again() { [[ $1 == -* || ! -e $1 || -f $1 ]]; }

# without_quotes VALUE: of an .ini file, as --print-config writes it.
without_quotes() {
  local -r inner=${1:1:-1}
  case $1 in
    \'*\') printf '%s\n' "$inner" ;;
    \"*\") sed -E 's/\\(["\\$])/\1/g' <<<"$inner" ;;
    *) printf '%s\n' "$1" ;;
  esac
}

# print_output_dir SFT WORD...: of the run that these words mean. Fails with the status and the error line of sft where they
# mean none. Warnings are the run's.
print_output_dir() {
  local text value
  text=$(SFT_RUN_FOLDER='' timeout 600 "$@" --print-config 2>"$folder/asked") || {
    local -r status=$?
    cat "$folder/asked" >&2
    return "$status"
  }
  value=$(sed -nE 's/^output_dir = (.*)$/\1/p' <<<"$text")
  if [[ -n $value ]]; then without_quotes "$value"; fi
}

# newest_checkpoint OUTPUT_DIR: the folder of the complete checkpoint that was saved last; nothing where there is none.
newest_checkpoint() {
  local folder newest=''
  for folder in "$1"/checkpoint-*; do
    if [[ ! $folder =~ /checkpoint-[0-9]+$ || ! -e $folder/checkpoint.h5 ]]; then continue; fi
    if [[ -z $newest || $folder/checkpoint.h5 -nt $newest/checkpoint.h5 ]]; then newest=$folder; fi
  done
  printf '%s' "$newest"
}

# identity_of CHECKPOINT: another text when another one takes its place.
identity_of() {
  if [[ -n $1 ]]; then stat --format='%n %Y %i' "$1/checkpoint.h5" 2>/dev/null || true; fi
}

# step_of CHECKPOINT: its step; 0 without one.
step_of() {
  local digits=${1##*/checkpoint-}
  printf '%d' "$((10#${digits:-0}))"
}

# note_progress FOLDER OUTPUT_DIR: remembers where the run stands; fails where that is where it stood.
note_progress() {
  local now before=''
  now=$(identity_of "$(newest_checkpoint "$2")")
  if [[ -e $1/progress ]]; then before=$(<"$1/progress"); fi
  printf '%s\n' "$now" >"$1/progress"
  [[ $now != "$before" ]]
}

# has_saved FOLDER OUTPUT_DIR: the run has saved since sft-run began: `auto` means a checkpoint of its own.
has_saved() { [[ -s $1/progress ]] && ! cmp -s "$1/progress" "$1/began_with"; }

# field_of NAME LINE: the number that a line of restarts.jsonl has under that name; nothing where there is none.
field_of() { sed -nE 's/.*"'"$1"'": ?([0-9]+).*/\1/p' <<<"$2"; }

# num_recorded OUTPUT_DIR: the restarts of the run so far, those of former jobs too.
num_recorded() {
  if [[ -e $1/restarts.jsonl ]]; then wc -l <"$1/restarts.jsonl"; else echo 0; fi
}

# record OUTPUT_DIR STATUS STEP WITHOUT_PROGRESS NODE: one more line of restarts.jsonl. A disk that is full is no reason
# to end here.
record() {
  mkdir -p "$1" 2>/dev/null || return 0
  printf '{"time": "%s", "job": "%s", "status": %d, "step": %d, "without_progress": %d, "node": "%s"}\n' \
    "$(date --utc +%FT%TZ)" "${SLURM_JOB_ID-}" "$2" "$3" "$4" "$5" 2>/dev/null >>"$1/restarts.jsonl" || true
}

# begin_restarts FOLDER OUTPUT_DIR: before the first start. A job that went back into the queue counts on.
begin_restarts() {
  local last without_progress=0
  note_progress "$1" "$2" || true
  if [[ ${SLURM_RESTART_COUNT:-0} -gt 0 && -s $2/restarts.jsonl ]]; then
    last=$(tail -n 1 "$2/restarts.jsonl")
    if [[ $(field_of step "$last") == "$(step_of "$(newest_checkpoint "$2")")" ]]; then
      without_progress=$(field_of without_progress "$last")
    fi
  fi
  echo "${without_progress:-0}" >"$1/without_progress"
  cp "$1/progress" "$1/began_with"
  echo 0 >"$1/num_restarts"
  : >"$1/excluded"
}

# pause_s WITHOUT_PROGRESS: seconds before a start: longer each time that the one before gained nothing.
pause_s() {
  local seconds=${SFT_RESTART_PAUSE_S:-10} doubled
  for ((doubled = 1; doubled < $1 && seconds < 300; ++doubled)); do seconds=$((2 * seconds)); done
  echo $((seconds > 300 && $1 > 1 ? 300 : seconds))
}

# decide FOLDER OUTPUT_DIR STATUS IS_STOPPED: how it goes on after a run that ended with that status, as three lines for
# sft-run: `end`, `restart` or `requeue`; the seconds to wait before a restart; what a user is told, maybe nothing.
decide() {
  local -r folder=$1 output_dir=$2 status=$3 is_stopped=$4
  local without_progress num_restarts step named node='' is_named_again=no why action=restart rest=''
  if ! is_curable "$status"; then
    printf 'end\n0\n\n'
    return
  fi
  without_progress=$(<"$folder/without_progress") num_restarts=$(<"$folder/num_restarts")
  if note_progress "$folder" "$output_dir"; then without_progress=0; fi
  step=$(step_of "$(newest_checkpoint "$output_dir")")
  why="status $status"
  named=$(named_rank "$folder/errors")
  if [[ -n $named ]]; then
    why+=", $named"
    node=$(node_of_host "${named##* }")
  fi
  if [[ $without_progress -ge $most_without_progress ]]; then
    printf 'end\n0\nNo restart (%s): %d in a row came no further than step %d.\n' "$why" "$without_progress" "$step"
    return
  fi
  if [[ -n $node ]]; then
    if grep -qFx "$node" "$folder/excluded"; then is_named_again=yes; fi
    echo "$node" >>"$folder/excluded"
  fi
  if [[ $is_stopped == yes ]]; then
    action=end rest='it was asked to stop'
  elif [[ $num_restarts -ge $restarts ]]; then
    action=end rest='no restart is left'
  elif ! choose_nodes "$folder"; then
    action=end rest='no spare node is left'
  elif [[ $requeue == yes && $is_named_again == yes && $(<"$folder/is_reusing") == yes ]]; then
    action=end rest='no spare node is left, and this one failed again'
  fi
  if [[ $action == end && $requeue == yes ]]; then action=requeue; fi
  if [[ $action == end ]]; then
    if [[ $restarts -gt 0 ]]; then printf 'end\n0\nNo restart (%s): %s.\n' "$why" "$rest"; else printf 'end\n0\n\n'; fi
    return
  fi
  without_progress=$((without_progress + 1))
  echo "$without_progress" >"$folder/without_progress"
  record "$output_dir" "$status" "$step" "$without_progress" "$node"
  if [[ $action == requeue ]]; then
    printf 'requeue\n0\nRestart from the queue (%s): it goes on from step %d%s; %s.\n' "$why" "$step" \
      "${node:+, without $node}" "$rest"
    return
  fi
  num_restarts=$((num_restarts + 1))
  echo "$num_restarts" >"$folder/num_restarts"
  if [[ -n $node && $(<"$folder/is_reusing") == yes ]]; then
    node="" rest=", on the same nodes, since no spare is left"
  fi
  printf 'restart\n%d\nRestart in %d s (%s): it goes on from step %d%s%s; %d left.\n' "$(pause_s "$without_progress")" \
    "$(pause_s "$without_progress")" "$why" "$step" "${node:+, without $node}" "$rest" $((restarts - num_restarts))
}
