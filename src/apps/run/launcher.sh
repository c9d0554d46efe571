# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Part of sft-run: the command that starts the ranks, and what each MPI has to be told for it. Options of sft-run that it
# reads: launcher, num_ranks.
# shellcheck disable=SC2154  # sft-run sets them

# words_of TEXT: its words, one a line, cut at blanks as a shell cuts them: quotes and backslashes keep a blank, and nothing
# else is replaced. Fails where a quote is not closed.
words_of() {
  local words
  words=$(xargs --no-run-if-empty printf '%s\n' <<<"$1" 2>/dev/null) && printf '%s\n' "$words"
}

# is_mpirun WORD: it is called as the launchers of Open MPI and MPICH are.
is_mpirun() { [[ ${1##*/} =~ ^(mpirun|mpiexec|orterun|prterun)([.].*)?$ ]]; }

# is_script COMMAND: such as the mpirun of Intel MPI, a program of the shell that starts the launcher itself.
is_script() {
  local first=''
  IFS= read -r -n 2 first <"$(type -P "$1")" 2>/dev/null || true
  [[ $first == '#!' ]]
}

# is_hydra COMMAND: the mpiexec of MPICH or of its relatives, whose status is that of all ranks, joined bit by bit.
is_hydra() { is_mpirun "$1" && [[ $(timeout 10 "$1" --version 2>&1) =~ HYDRA|'Intel(R) MPI' ]]; }

# prepare_local_ranks: for mpirun on this machine, however few cores it has. With more ranks than cores: no binding, and a
# waiting rank gives way. The second names are those of Open MPI 5.
prepare_local_ranks() {
  export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe-1}
  export PRTE_MCA_rmaps_default_mapping_policy=${PRTE_MCA_rmaps_default_mapping_policy-:oversubscribe}
  export OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy-none}
  export PRTE_MCA_hwloc_default_binding_policy=${PRTE_MCA_hwloc_default_binding_policy-none}
  # nproc would answer with OMP_NUM_THREADS where that is set.
  if [[ $num_ranks -gt $(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) ]]; then
    export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle-1}
  fi
}

# prepare_launcher: what every launcher is told.
prepare_launcher() {
  if [[ $(id -u) -eq 0 ]]; then # Open MPI asks both, whichever launcher calls it; others do not read them
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  # The UCX component of Open MPI 5 prints an error for each rank and window where there is no network for it, and another
  # one is taken then.
  if [[ ! -d /sys/class/infiniband ]]; then export OMPI_MCA_osc=${OMPI_MCA_osc-^ucx}; fi
  # Inside a step of SLURM, whose cores a further step would wait for; mpirun starts its daemons by such a step as well.
  if [[ -n ${SLURM_STEP_ID-} ]]; then export SLURM_OVERLAP=${SLURM_OVERLAP-1}; fi
}

# is_gone PROCESS: it has ended, whether somebody has waited for it or not.
is_gone() { ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" 2>/dev/null; }

# descendants_of PROCESS: it and all that it started, one a line.
descendants_of() {
  local child
  local -a children
  echo "$1"
  read -r -d '' -a children < <(cat "/proc/$1/task/"*/children 2>/dev/null) || true
  for child in "${children[@]}"; do descendants_of "$child"; done
}

# ranks_among PROCESS...: those that are ranks of this run, one a line.
ranks_among() {
  local process
  local -a words
  for process in "$@"; do
    { mapfile -d '' -t words <"/proc/$process/cmdline"; } 2>/dev/null || continue
    if [[ ${words[0]-} == "${sft:?}" || (${words[0]-} =~ sh$ && ${words[1]-} == "$sft") ]]; then echo "$process"; fi
  done
}

# signal_launcher SIGNAL PROCESS: to the launcher. A script would not pass it on: what it started gets it.
signal_launcher() {
  local program
  local -a children=()
  program=$(readlink "/proc/$2/exe" 2>/dev/null) || program=''
  if [[ $program =~ sh$ ]] && is_mpirun "${launcher[0]}"; then
    read -r -a children <"/proc/$2/task/$2/children" 2>/dev/null || true
    if [[ ${#children[@]} -gt 0 ]]; then kill -s "$1" "${children[@]}" 2>/dev/null || true; fi
  else
    kill -s "$1" "$2" 2>/dev/null || true
  fi
}
