# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: which nodes of a SLURM job its ranks start on, and which one a line of a failed run names. An option of
# sft-run that it reads: spares.
# shellcheck disable=SC2154  # sft-run sets it

# The lines that name a rank and the host that it ran on, or a host alone; the first line that fits is the cause, what
# comes behind it are ranks that were ended for its sake. In this order: sft's own errors, a node that SLURM or mpirun lost,
# a rank that a signal ended, as srun and as mpirun tell it.
readonly host='([[:alnum:]][[:alnum:]._-]*)'
readonly host_patterns=(
  "sft: error: .*(rank [0-9]+) on $host"
  "srun: error: (Node failure) on $host"
  "error: \*\*\* (STEP) [^ ]+ ON $host CANCELLED AT .* DUE TO NODE FAILURE"
  "(Remote daemon): .* on node $host"
  "srun: error: $host: tasks? ([0-9]+)[0-9,-]*: (Killed|Aborted|Bus error|Segmentation fault|Illegal instruction|Out Of Memory)"
  "process (rank [0-9]+) with PID [0-9]+ on node $host exited on signal"
)

# What srun says before it ends the other ranks, which it then names too.
readonly ranks_are_ended='Terminating StepId|Job step aborted|\*\*\* STEP [^ ]+ ON [^ ]+ CANCELLED'

# named_rank FILE: "rank 3 on HOST" or "a node that was lost, HOST", whoever the file names first; nothing: nobody.
named_rank() {
  local line pattern are_others_ended=no
  while IFS= read -r line; do
    for pattern in "${host_patterns[@]}"; do
      if [[ ! $line =~ $pattern || ($are_others_ended == yes && $pattern == *': task'*) ]]; then continue; fi
      case ${BASH_REMATCH[1]} in
        rank*) printf '%s on %s' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" ;;
        'Node failure' | STEP | 'Remote daemon') printf 'a node was lost: %s' "${BASH_REMATCH[2]}" ;;
        *) printf 'rank %s on %s' "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}" ;;
      esac
      return
    done
    if [[ $line =~ $ranks_are_ended ]]; then are_others_ended=yes; fi
  done <"$1"
}

# is_in_job: this is a SLURM job, of one node or several.
is_in_job() { [[ -n ${SLURM_JOB_NODELIST-} ]] && command -v scontrol >/dev/null; }

allocated_nodes() { scontrol show hostnames "$SLURM_JOB_NODELIST"; }

# node_of_host HOST: the node of this job that the host is; nothing: none. SLURM's names need not be those of the hosts,
# which may have their domain behind them.
node_of_host() {
  if ! is_in_job; then return; fi
  allocated_nodes | grep -Fx -e "$1" -e "${1%%.*}" && return
  sinfo --noheader --Node --nodes="$SLURM_JOB_NODELIST" --format='%N %n %o' 2>/dev/null | sort -u |
    awk -v host="$1" '$2 == host || $3 == host { node = $1; ++found } END { if (found == 1) print node }'
}

# lost_nodes: those of this job that SLURM will start nothing on.
lost_nodes() {
  sinfo --noheader --Node --nodes="$SLURM_JOB_NODELIST" --format='%N %T' 2>/dev/null |
    awk '$2 ~ /^(down|drain|fail|unknown|reboot)|\*$/ && !seen[$1]++ { print $1 }'
}

# ranks_per_node: of this job, which has as many on each.
ranks_per_node() {
  local tasks=${SLURM_NTASKS_PER_NODE-}
  if [[ -z $tasks && $((${SLURM_NTASKS:-0} % SLURM_JOB_NUM_NODES)) -eq 0 ]]; then
    tasks=$((${SLURM_NTASKS:-0} / SLURM_JOB_NUM_NODES))
  fi
  echo "${tasks:-0}"
}

# choose_nodes FOLDER: writes to FOLDER/nodes where the next start goes, one node a line: as many as the job has without its
# spare ones, first those that nothing is known against, then, where these are too few, excluded ones (FOLDER/is_reusing).
# Fails where even so there are too few. Without a SLURM job, and with all its nodes in use, the launcher chooses: no line.
choose_nodes() {
  local all=() good=() node needed
  : >"$1/nodes"
  echo no >"$1/is_reusing"
  if ! is_in_job; then return; fi
  mapfile -t all < <(allocated_nodes)
  lost_nodes >"$1/lost"
  cat "$1/lost" "$1/excluded" >"$1/bad"
  needed=$((${#all[@]} - spares))
  for node in "${all[@]}"; do
    if ! grep -qFx "$node" "$1/bad"; then good+=("$node"); fi
  done
  for node in "${all[@]}"; do
    if [[ ${#good[@]} -ge $needed ]]; then break; fi
    if grep -qFx "$node" "$1/excluded" && ! grep -qFx "$node" "$1/lost"; then
      good+=("$node")
      echo yes >"$1/is_reusing"
    fi
  done
  if [[ ${#good[@]} -lt $needed ]]; then return 1; fi
  if [[ $needed -lt ${#all[@]} ]]; then printf '%s\n' "${good[@]:0:needed}" >"$1/nodes"; fi
}

# placed LAUNCHER NODES WORD...: the launcher's words, one a line, so that it starts as many ranks on each of these nodes
# as the job has, and none elsewhere. NODES: with commas between.
placed() {
  local -r launcher=$1 nodes=$2
  local num_nodes ranks
  shift 2
  num_nodes=$(tr , '\n' <<<"$nodes" | wc -l)
  ranks=$(ranks_per_node)
  printf '%s\n' "$launcher"
  case ${launcher##*/} in
    srun) printf '%s\n' "--nodes=$num_nodes" "--ntasks=$((num_nodes * ranks))" "--nodelist=$nodes" ;;
    *) printf '%s\n' --host "${nodes//,/:$ranks,}:$ranks" ;;
  esac
  if [[ $# -gt 0 ]]; then printf '%s\n' "$@"; fi
}

# requeue_job FOLDER: the job goes back into the queue, for other nodes than the excluded ones, where its partition has
# enough of them.
requeue_job() {
  local shown former partition left
  shown=$(scontrol show job "$SLURM_JOB_ID" 2>/dev/null || true)
  scontrol requeue "$SLURM_JOB_ID" || return
  if [[ ! -s $1/excluded ]]; then return; fi
  former=$(sed -nE 's/.*ExcNodeList=([^ ]+).*/\1/p' <<<"$shown")
  if [[ -n $former && $former != "(null)" ]]; then scontrol show hostnames "$former" >>"$1/excluded"; fi
  sort -u -o "$1/excluded" "$1/excluded"
  partition=$(sed -nE 's/.*[^a-zA-Z]Partition=([^ ]+).*/\1/p' <<<"$shown")
  left=$(sinfo --noheader --Node --partition="$partition" --format=%N | sort -u | grep -cvFx -f "$1/excluded" || true)
  if [[ $left -lt ${SLURM_JOB_NUM_NODES:-1} ]]; then return; fi
  scontrol update "JobId=$SLURM_JOB_ID" "ExcNodeList=$(paste -sd, "$1/excluded")" || true
}
