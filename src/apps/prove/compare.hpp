// SPDX-License-Identifier: Apache-2.0
#pragma once
// What two runs of sft-prove left, number by number, against what rounding explains.

#include <cstdint>
#include <string>
#include <vector>

#include "layouts.hpp"
#include "rounding.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::apps {

/// One comparison.
struct Gap {
  std::string what;      ///< "loss", "gradient norm", "weights", or an entry of the optimizer
  std::string where;     ///< the step or the tensor
  double apart = 0.0;    ///< relative
  double explained = 0;  ///< by rounding

  /// False also for NaN.
  [[nodiscard]] bool holds() const { return apart <= explained; }
};

/// "7.2"; "all" of numbers that are the same, "none" of those that are as far apart as they are large.
[[nodiscard]] std::string digits_of(double apart);

/// Loss and norm of every step; steps that did not train on as many tokens are infinitely apart.
[[nodiscard]] std::vector<Gap> compare_steps(const std::vector<StepNumbers>& first,
                                             const std::vector<StepNumbers>& second, const Rounding& rounding);

/// Every tensor that is no code (uint8). Weights: how far the two are apart over how far the first one's moved from
/// `start`. What an optimizer keeps: over the tensor's norm, but not below a hundredth of its entry's root mean square,
/// so that a gradient which is zero but for rounding does not count. A tensor of one alone, or of another shape, is
/// infinitely apart. Few rows of a tensor are in memory at a time.
[[nodiscard]] std::vector<Gap> compare_tensors(const io::TensorSource& start, const io::TensorSource& first,
                                               const io::TensorSource& second, std::int64_t num_steps,
                                               const Rounding& rounding);

/// Of each `what` the gap that comes nearest to what is explained, or exceeds it most, in the order of `gaps`.
[[nodiscard]] std::vector<Gap> worst_of_each(const std::vector<Gap>& gaps);

/// What the first sign of a difference points to; empty: there is none.
[[nodiscard]] std::string first_sign(const std::vector<Gap>& gaps);

}  // namespace sft::apps
