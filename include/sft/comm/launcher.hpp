// SPDX-License-Identifier: Apache-2.0
#pragma once
// What started this process: mpirun, srun or a shell. Known from its environment; needs no MPI.

namespace sft::comm {

/// How many ranks the launcher says it started: mpirun of Open MPI or MPICH, or a step of SLURM. 1 without a launcher,
/// and in the shell of an interactive step.
[[nodiscard]] int num_launched_ranks();
/// The number of this process among the ranks of its launcher; 0 without a launcher.
[[nodiscard]] int launched_rank();
/// How many ranks mpirun of Open MPI or MPICH says it started on this node; 1 where none says so.
[[nodiscard]] int num_local_ranks();

/// Takes out of the environment what would make MPI look for a world that this process is not in: in a step of SLURM,
/// for a process that a person started in its shell, or that is its only task, all that srun and its PMI left; for one
/// of several tasks without a PMI, the names of the step and its nodes. So MPI makes a world of this process alone.
/// Call it before MPI starts.
void leave_foreign_step();

/// Whether nobody reads what this process prints any more: its output is a pipe or a socket without a reader. Costs two
/// system calls.
[[nodiscard]] bool is_output_closed();
/// Whether nobody reads what mpirun prints any more, if it runs on this machine and started this process (`mpirun ... |
/// head`). Costs a few system calls.
[[nodiscard]] bool is_launcher_output_closed();

}  // namespace sft::comm
