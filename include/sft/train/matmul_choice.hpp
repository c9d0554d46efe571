// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which algorithms the GPUs of a run multiply matrices by, before its memory is taken.

#include <optional>
#include <string>

#include "sft/comm/group.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/place.hpp"
#include "sft/ops/matmul_algorithms.hpp"
#include "sft/rank/machine.hpp"
#include "sft/rows/micro_batch_limits.hpp"

namespace sft::train {

/// With [device] matmul_autotune, the list of this run: what an earlier part of it left in its output folder, so that
/// it goes on with the same bits; what was measured before on such a GPU, in ~/.cache/sft/matmul (or in that of
/// XDG_CACHE_HOME); and the rest measured by rank 0, which says in a line what that gained. All ranks get rank 0's
/// list, and those with another GPU none.
class MatmulChoice {
 public:
  /// Throws the same configuration Error on every rank where it is asked for and ranks compute on CPUs. Collective.
  MatmulChoice(const config::ValidConfig& config, const rows::MicroBatchLimits& limits, const mesh::Place& place,
               const rank::Machine& machine, device::Device& device, const comm::Group& world);

  /// Null: products run by what the heuristic puts first.
  [[nodiscard]] const ops::MatmulAlgorithms* algorithms() const { return list_ ? &*list_ : nullptr; }
  /// Leaves the list in this folder for the run to go on with. Local, on rank 0.
  void keep(const std::string& output_dir) const;

 private:
  std::optional<ops::MatmulAlgorithms> list_;
};

}  // namespace sft::train
