// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes that nobody gave: mesh, stage, savings and micro-batch of a run, chosen by the planner for a machine.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/config/parse.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::apps {

/// The machine that this process is on, with so many ranks on each of `num_nodes` such nodes: GPUs by their names among
/// those of share/sft/machines.ini, and their memory; CPUs as its [cpu], scaled to the cores that a rank has, with the
/// memory of this node. None where GPUs are asked for and their kind is not known.
[[nodiscard]] std::optional<simulator::Hardware> machine_at_hand(bool has_gpus, int ranks_per_node, int num_nodes);

/// What is to be chosen.
struct OpenSizes {
  config::Config config;       ///< of the run, but for the sizes; its model complete
  std::set<std::string> free;  ///< keys that may change (launch::sizes_of_plans)
  simulator::Hardware hardware;
  std::int64_t max_length = 0;     ///< tokens of a row
  std::int64_t rows_per_step = 0;  ///< which stay the same
};

struct ChosenSizes {
  std::vector<config::Difference> keys;  ///< the free keys that are to be other than in OpenSizes::config
  config::Config config;                 ///< with them
  std::string
      why;  ///< "16 x 1 x 1 ...: 3.1 GiB of 16 GiB; the fastest of 412 ways that fit, of 980 legal ones, on cpu"
};

/// Keys and their values as .ini text.
[[nodiscard]] std::string ini_of(const std::vector<config::Difference>& keys);

/// The fastest way that fits. A configuration Error where none does. Pure, but for files of the model.
[[nodiscard]] ChosenSizes choose_sizes(const OpenSizes& open);

}  // namespace sft::apps
