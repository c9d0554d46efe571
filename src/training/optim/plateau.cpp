// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/plateau.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/program.hpp"

namespace sft::optim {

namespace {

/// "NAME VALUE" of a state; config::write gives every bit, and a word for infinity.
template <class Number>
void read_named(std::istringstream& words, const std::string& name, Number& number) {
  std::string found, text;
  words >> found >> text;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (found == name && !text.empty() && error == std::errc{} && stop == text.data() + text.size()) return;
  throw_data_error("cannot go on with the schedule of a checkpoint", fmt::format("its state is \"{}\"", words.str()),
                   fmt::format("use the version of sft that wrote it, not {}", version()));
}

}  // namespace

Plateau::Plateau(const config::SchedulerKwargs& kwargs, double peak)
    : kwargs_(kwargs), peak_(peak), rate_(peak), best_(std::numeric_limits<double>::infinity()) {
  if (kwargs.mode == config::Better::max) best_ = -best_;
}

bool Plateau::is_better(double loss) const {
  const bool is_max = kwargs_.mode == config::Better::max;
  const double threshold = kwargs_.threshold.value_or(1e-4);
  if (kwargs_.threshold_mode == config::ThresholdMode::abs) {
    return is_max ? loss > best_ + threshold : loss < best_ - threshold;
  }
  return is_max ? loss > best_ * (threshold + 1.0) : loss < best_ * (1.0 - threshold);
}

void Plateau::observe(double loss) {
  ++last_epoch_;
  if (is_better(loss)) {
    best_ = loss;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ > kwargs_.patience.value_or(10)) {
    reduce();
    cooldown_counter_ = kwargs_.cooldown.value_or(0);
    num_bad_epochs_ = 0;
  }
}

void Plateau::reduce() {
  const double rate = std::max(rate_ * kwargs_.factor.value_or(0.1), kwargs_.min_lr.value_or(0.0));
  if (rate_ - rate > kwargs_.eps.value_or(1e-8)) rate_ = rate;
}

std::string Plateau::state() const {
  return fmt::format("peak {} rate {} best {} num_bad_epochs {} cooldown_counter {} last_epoch {}",
                     config::write(peak_), config::write(rate_), config::write(best_), config::write(num_bad_epochs_),
                     config::write(cooldown_counter_), config::write(last_epoch_));
}

void Plateau::restore(const std::string& state) {
  std::istringstream words(state);
  double peak = 0.0;
  read_named(words, "peak", peak);
  read_named(words, "rate", rate_);
  read_named(words, "best", best_);
  read_named(words, "num_bad_epochs", num_bad_epochs_);
  read_named(words, "cooldown_counter", cooldown_counter_);
  read_named(words, "last_epoch", last_epoch_);
  if (peak != peak_) rate_ = peak > 0 ? peak_ * (rate_ / peak) : peak_;
}

}  // namespace sft::optim
