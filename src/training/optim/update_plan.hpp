// SPDX-License-Identifier: Apache-2.0
#pragma once
// In which portions an optimizer goes over a rank shard. Pure.

#include <cstdint>
#include <functional>
#include <vector>

#include "sft/ops/backend.hpp"
#include "sft/optim/optimizer.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::optim {

/// What a step does with elements.
enum class Treatment {
  decay,     ///< steps them, with weight decay: those of matrices
  no_decay,  ///< steps them
};

/// Elements that one call of the kernel updates.
struct Run {
  std::int64_t begin, count;  ///< in the rank shard
  Treatment treatment;
  double rate_factor;  ///< of the learning rate
  /// Which numbers they have in the logical tensor; `key` is that of the tensor, without the step. Of runs for
  /// stochastic rounding alone.
  ops::StochasticRounding rounding;
};

/// Neighbouring elements of one unit, whose state is in memory at a time.
struct Window {
  parallel::UnitIndex unit;
  std::int64_t begin, count;  ///< in the rank shard, with its padding
  std::vector<Run> runs;      ///< those of parameters
};

/// Elements of one parameter that one call of the kernel updates.
struct ParameterRun {
  const parallel::Parameter* parameter;
  parallel::UnitIndex unit;
  std::int64_t begin, count;  ///< in the rank shard
  ops::StochasticRounding rounding;
};

/// Which parameters are meant.
using IsParameter = std::function<bool(parallel::UnitIndex unit, const parallel::Parameter&)>;

/// The whole rank shard, ascending: a window per unit, or several of at most max_elements, a multiple of
/// parallel::alignment_elements. `by_element`: runs know which elements of which tensor they are; else they are as long
/// as can be. `is_left_out`: parameters without runs; null: none.
[[nodiscard]] std::vector<Window> plan_updates(const parallel::ShardMap& shard_map, std::int64_t max_elements,
                                               bool by_element, const IsParameter& is_left_out = {});

/// The runs of the rank shard in parameters that `is_meant` tells, ascending; each knows which elements of the
/// parameter they are.
[[nodiscard]] std::vector<ParameterRun> plan_parameters(const parallel::ShardMap& shard_map,
                                                        const IsParameter& is_meant);

/// The part of a run within [begin, end) of the rank shard; of no elements: none is.
[[nodiscard]] ParameterRun cut(const ParameterRun& run, std::int64_t begin, std::int64_t end);

/// What plan_updates is given for state of this form: no limit where all of it lies where the ops work.
[[nodiscard]] std::int64_t max_window_elements(const StateForm& form);
/// The dtype of the weights that are updated.
[[nodiscard]] DType master_dtype(const StateForm& form);
[[nodiscard]] std::vector<parallel::UnitIndex> units_of(const std::vector<Window>& windows);

/// `a` and `b`, well mixed.
[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b);

}  // namespace sft::optim
