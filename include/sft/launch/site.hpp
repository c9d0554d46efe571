// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where this process runs, and how ranks are started there.

#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/launch/hostfile.hpp"
#include "sft/launch/request.hpp"

namespace sft::launch {

/// What this machine and its environment offer.
struct Site {
  int num_gpus = 0;     ///< of this node, that this process may use
  int num_cores = 0;    ///< of this node, that this process may use; 0: not known
  int num_threads = 0;  ///< of each rank, as OMP_NUM_THREADS says; 0: not said
  bool is_in_slurm_job = false;
  int num_tasks = 0;        ///< of the job; 0: not said
  int num_job_gpus = 0;     ///< of all nodes of the job
  bool is_in_step = false;  ///< in a step of it, whose cores another step would wait for without srun's --overlap
  bool has_slurm = false;   ///< sbatch can be called
  int num_nodes = 1;        ///< of the job
  std::string pmi = {};     ///< what `srun --mpi` takes here: pmix, pmi2 ...; empty: its default
  JobHosts job_hosts = {};  ///< of a job of PBS or LSF

  /// Whether a queue has given this process nodes or slots, so that these say where ranks start, and how many.
  [[nodiscard]] bool is_in_job() const { return is_in_slurm_job || num_nodes > 1 || num_tasks > 0; }
};

/// Reads the environment, the devices of /dev, the hosts of a job of PBS or LSF, and where there is SLURM what
/// `srun --mpi=list` prints. Throws a configuration Error where the file of hosts names none.
[[nodiscard]] Site find_site();

/// The type of `srun --mpi=list` to start the ranks of an MPI program with: pmix, else pmi2; empty: neither.
[[nodiscard]] std::string choose_pmi(const std::string& list_of_srun);

/// How many ranks to start: what is asked for, else the slots of the hostfile, else the tasks of the job, else one a
/// GPU, and where these are no multiple of what the mesh needs, the next lower one. Throws a configuration Error where
/// the hostfile does not say how many, and where the sizes of DeepSpeed's train_batch_size do not fit.
[[nodiscard]] int choose_num_ranks(const Request& request, const config::Config& config, const Site& site);

/// A warning that names the GPUs, slots or cores that so many ranks leave idle unasked; empty: none.
[[nodiscard]] std::string idle_part(const Request& request, const config::Config& config, const Site& site,
                                    int num_ranks);

/// The words for sft-run before the .ini file. Throws a configuration Error where several machines are asked for and
/// nothing says which, or others.
[[nodiscard]] std::vector<std::string> start_words(const Request& request, int num_ranks, const Site& site);

}  // namespace sft::launch
