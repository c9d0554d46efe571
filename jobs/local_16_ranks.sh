#!/usr/bin/env bash
# Trains on 16 ranks of this machine, however few cores it has:
#
#   jobs/local_16_ranks.sh [INPUT.ini] [--section.key VALUE ...]
#
# INPUT.ini is inputs/demo.ini if not given. Ctrl-C, SIGTERM or SIGUSR1 saves a checkpoint and ends with status 75; the same
# command with --checkpoint.resume_from_checkpoint auto goes on from there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/stop_and_requeue.sh

if [ $# -eq 0 ]; then set -- inputs/demo.ini; fi

# More ranks than cores: no binding, and a waiting rank gives way.
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

run_until_stopped mpirun -np 16 ./sft "$@"
