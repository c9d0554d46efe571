// SPDX-License-Identifier: Apache-2.0
#pragma once
// Learning rates over steps, as transformers 5.23 computes them.

#include <cstdint>
#include <optional>
#include <string>

#include "sft/config/config.hpp"
#include "sft/optim/plateau.hpp"

namespace sft::optim {

/// Steps of warm-up of a run of `num_steps` steps.
[[nodiscard]] std::int64_t num_warmup_steps(const config::Optimizer& optimizer, std::int64_t num_steps);

/// The learning rate of every step of a run. It follows from the step alone, except with reduce_lr_on_plateau, where it
/// follows from the losses of the evaluations so far.
class Schedule {
 public:
  /// `optimizer` is that of a ValidConfig.
  Schedule(const config::Optimizer& optimizer, std::int64_t num_steps);

  /// The learning rate of the 0-based `step`; with reduce_lr_on_plateau that of the next step.
  [[nodiscard]] double rate(std::int64_t step) const;
  /// Tells the loss of an evaluation that came due by steps.
  void observe(double eval_loss);

  /// What rate() needs beside the step, as text for a checkpoint; empty: nothing.
  [[nodiscard]] std::string state() const;
  /// Goes on from a state(); an empty one, or that of another schedule, changes nothing. Throws a data Error for a text
  /// that it cannot read.
  void restore(const std::string& state);

 private:
  config::Optimizer optimizer_;
  std::int64_t num_steps_, num_warmup_steps_;
  std::optional<Plateau> plateau_;  ///< with reduce_lr_on_plateau
};

}  // namespace sft::optim
