#!/usr/bin/env bash
# Trains on 16 ranks of this machine, however few cores it has:
#
#   jobs/local_16_ranks.sh [INPUT.ini] [--section.key VALUE ...]
#
# All paths are relative to where it is called; without arguments it runs inputs/demo.ini in the repository. Ctrl-C, SIGTERM,
# SIGHUP or SIGUSR1 saves a checkpoint and ends with status 75; the same command with
# --checkpoint.resume_from_checkpoint auto goes on from there.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=jobs/stop_and_requeue.sh
source "$repository/jobs/stop_and_requeue.sh"

if [ $# -eq 0 ]; then
  cd "$repository"
  set -- inputs/demo.ini
fi

# More ranks than cores: no binding, and a waiting rank gives way.
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_orte_execute_quiet=1 # after a status other than 0, the run's own line says it all
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

run_until_stopped mpirun -np 16 "$repository/sft" "$@"
