// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machines that a hostfile names, in the forms of Open MPI, DeepSpeed, MPICH and batch systems.

#include <string>
#include <utility>
#include <vector>

namespace sft::launch {

struct Hosts {
  int num_hosts = 0;                                       ///< by their names; 0: not known
  int num_slots = 0;                                       ///< ranks that all of them together take; 0: not known
  std::string unclear = {};                                ///< why num_slots is not known, with the line
  std::vector<std::pair<std::string, int>> slots_of = {};  ///< of each host, 1 for each line without a number
};

/// Reads lines `HOST slots=N`, `HOST:N`, or HOST once for each slot; `#` begins a comment. Throws a configuration Error
/// where it names no host, or is no file that can be read more than once; a data Error where it cannot be read.
[[nodiscard]] Hosts read_hostfile(const std::string& path);

/// The hosts that PBS or LSF has given to this job, as its environment tells it.
struct JobHosts {
  std::string file = {};                                   ///< PBS_NODEFILE or LSB_DJOB_HOSTFILE; empty: there is none
  bool is_file_clear = false;                              ///< mpirun reads the same slots out of the file
  std::vector<std::pair<std::string, int>> slots_of = {};  ///< of each host, in order; empty: there is no such job
};

/// Reads PBS_NODEFILE or LSB_DJOB_HOSTFILE, where these name a file, else LSB_MCPU_HOSTS. Throws as read_hostfile().
[[nodiscard]] JobHosts find_job_hosts();

}  // namespace sft::launch
