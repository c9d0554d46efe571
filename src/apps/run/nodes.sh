# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: which nodes of a SLURM job its ranks start on. An option of sft-run that it reads: spares.
# shellcheck disable=SC2154  # sft-run sets it

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
  if [[ -z $tasks && $((${SLURM_NTASKS:-0} % ${SLURM_JOB_NUM_NODES:-1})) -eq 0 ]]; then
    tasks=$((${SLURM_NTASKS:-0} / ${SLURM_JOB_NUM_NODES:-1}))
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
