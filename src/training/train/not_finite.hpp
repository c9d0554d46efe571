// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run says when its loss or gradient norm, or the loss of an evaluation, is NaN or Inf: where it was seen first.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/comm/group.hpp"

namespace sft::train {

/// What one rank knows of a step that is not finite.
struct NotFinite {
  std::int64_t step = 0;           ///< 1-based
  double loss = 0.0, norm = 0.0;   ///< of all ranks
  double local_loss = 0.0;         ///< sum of this rank's own tokens
  double local_square_sum = 0.0;   ///< of the gradients that this rank owns
  std::vector<std::int64_t> rows;  ///< that this rank read, in file order
};

/// What every rank says of such a step.
struct NotFiniteText {
  std::string problem;  ///< "loss nan and gradient norm nan at step 12 are not finite"
  std::string where;    ///< it was seen
};
/// Names the ranks whose own tokens have such a loss, and the rows that the first of them read; where none has, the
/// ranks whose gradient shard, a sum over all ranks, has such a norm; where none has either, the global sum alone has.
/// The same on every rank. Collective over the world.
[[nodiscard]] NotFiniteText describe_not_finite(const NotFinite& seen, const comm::Group& world);

/// Throws a numerical Error of describe_not_finite, which every rank holds.
[[noreturn]] void throw_not_finite(const NotFiniteText& text);

/// What one rank knows of an evaluation that is not finite.
struct EvalNotFinite {
  std::int64_t step = 0;           ///< that was trained last
  double loss = 0.0;               ///< of all ranks
  double local_loss = 0.0;         ///< sum of this rank's own tokens
  std::vector<std::int64_t> rows;  ///< where this rank saw it first, in file order
};

/// Throws the numerical Error of an evaluation, as throw_not_finite that of a step.
[[noreturn]] void throw_eval_not_finite(const EvalNotFinite& seen, const comm::Group& world);

}  // namespace sft::train
