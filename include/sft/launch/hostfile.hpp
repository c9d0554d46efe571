// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machines that a hostfile names, in the forms of Open MPI, DeepSpeed, MPICH and batch systems.

#include <string>

namespace sft::launch {

struct Hosts {
  int num_hosts = 0;         ///< by their names; 0: not known
  int num_slots = 0;         ///< ranks that all of them together take; 0: not known
  std::string unclear = {};  ///< why num_slots is not known, with the line
};

/// Reads lines `HOST slots=N`, `HOST:N`, or HOST once for each slot; `#` begins a comment. Throws a configuration Error
/// where it names no host; a data Error where it cannot be read.
[[nodiscard]] Hosts read_hostfile(const std::string& path);

}  // namespace sft::launch
