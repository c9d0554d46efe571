// SPDX-License-Identifier: Apache-2.0
#pragma once
// A learning rate that falls when losses do not.

#include <cstdint>
#include <string>

#include "sft/config/scheduler.hpp"

namespace sft::optim {

/// torch.optim.lr_scheduler.ReduceLROnPlateau for one rate.
class Plateau {
 public:
  Plateau(const config::SchedulerKwargs& kwargs, double peak);

  [[nodiscard]] double rate() const { return rate_; }
  void observe(double loss);

  /// All that observe() changes, every bit of it.
  [[nodiscard]] std::string state() const;
  /// Goes on from a state() of one with the same peak; of another peak with the same share of this one. Throws a data
  /// Error for a text that it cannot read.
  void restore(const std::string& state);

 private:
  [[nodiscard]] bool is_better(double loss) const;
  void reduce();

  config::SchedulerKwargs kwargs_;
  double peak_, rate_, best_;
  std::int64_t num_bad_epochs_ = 0, cooldown_counter_ = 0, last_epoch_ = 0;  ///< epoch: torch's word for an evaluation
};

}  // namespace sft::optim
