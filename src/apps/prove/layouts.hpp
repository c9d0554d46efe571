// SPDX-License-Identifier: Apache-2.0
#pragma once
// The runs of sft-prove: what is trained on which mesh, and the numbers that a run leaves.

#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "sft/config/valid_config.hpp"

namespace sft::apps {

/// One of the two runs.
struct Layout {
  std::string name;  ///< its .ini file, or "one rank"
  config::ValidConfig config;
  int num_ranks = 1;
};

/// What `path` and the options' keys mean, as a run that only trains: so many steps at a constant rate, each of them
/// logged, without evaluations and without checkpoints but the last. Throws a configuration Error.
[[nodiscard]] Layout read_layout(const std::string& path, const ProveOptions& options);

/// The same run, with the same rows in a step, on one rank: in more micro-batches, or with the auxiliary loss of
/// experts, which is one of each micro-batch, in larger ones.
[[nodiscard]] Layout on_one_rank(const Layout& layout);

/// Keys that differ between the two and that change what is computed, not only where: "section.key: A, B".
[[nodiscard]] std::vector<std::string> keys_of_other_runs(const Layout& first, const Layout& second);

/// A line of metrics.jsonl.
struct StepNumbers {
  std::int64_t num_tokens = 0, num_target_tokens = 0;
  double loss = 0.0, grad_norm = 0.0;  ///< NaN where the run had none
};

/// What a run left.
struct RunNumbers {
  std::vector<StepNumbers> steps;  ///< from the first one on
  std::string checkpoint;          ///< of its last step
};

/// Trains `layout` for `num_steps` (0: leaves the weights that it begins with) in `folder`/`label`, and waits. What the
/// run prints goes to a file there. Throws an Error with the run's exit status and last lines where it fails.
[[nodiscard]] RunNumbers train_layout(const Layout& layout, std::int64_t num_steps, const std::string& folder,
                                      const std::string& label, const std::string& launcher);

}  // namespace sft::apps
