// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which algorithms the GPUs of a run multiply matrices by, before its memory is taken.

#include <functional>
#include <optional>
#include <string>

#include "sft/comm/group.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/ops/listed_products.hpp"
#include "sft/ops/matmul_algorithms.hpp"

namespace sft::train {

/// With [device] matmul_autotune, the list of this run: what an earlier part of it left in its output folder, so that
/// it goes on with the same bits; what was measured before on such a GPU, in ~/.cache/sft/matmul (or in that of
/// XDG_CACHE_HOME); and the rest measured by rank 0, which says in a line what that gained. All ranks get rank 0's
/// list, and those with another GPU none.
class MatmulChoice {
 public:
  /// `list_products`: those of the run, asked for on rank 0 alone. Throws the same configuration Error on every rank
  /// where it is asked for and ranks compute on CPUs. Collective over `world`.
  MatmulChoice(const config::ValidConfig& config, const std::function<ops::ListedProducts()>& list_products,
               device::Device& device, const comm::Group& world);

  /// Null: products run by what the heuristic puts first.
  [[nodiscard]] const ops::MatmulAlgorithms* algorithms() const { return list_ ? &*list_ : nullptr; }
  /// Leaves the list in this folder for the run to go on with. Local, on rank 0.
  void keep(const std::string& output_dir) const;

 private:
  std::optional<ops::MatmulAlgorithms> list_;
};

}  // namespace sft::train
