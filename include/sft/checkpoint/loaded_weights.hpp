// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run finds out of a model's weights while it reads them: whether they can be trained on, and which they are.
// Each rank sees the part that it holds; what only the whole can tell is agreed on afterwards.

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "sft/comm/group.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/tensor_source.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::checkpoint {

class State;

/// Refuses NaN and Inf in a rectangle of the tensor `name` of `source`, for messages a path: a data Error that names
/// tensor and element.
void require_finite(const std::string& source, const std::string& name, const io::Rectangle& where,
                    std::span<const float> values);

class LoadedWeights {
 public:
  /// `takes_fingerprint`: for weights that a run does not change. It costs one hash an element.
  explicit LoadedWeights(bool takes_fingerprint = false) : takes_fingerprint_(takes_fingerprint) {}

  /// `values`, float32, are the rectangle `where` of `parameter`, read from the tensor `name` of `source`, as a rank
  /// shard of `parameter` holds it. Refuses what require_finite() does. Local.
  void add(const std::string& source, const std::string& name, const parallel::Parameter& parameter,
           const io::Rectangle& where, std::span<const float> values);

  /// Refuses a model with a matrix of nothing but zeros, naming it, for that is a file with holes: no model is trained
  /// to it, and most could not be trained away from it. Matrices that some models begin with as zeros (o_proj and
  /// down_proj of blocks that were added, q_proj and lm_head by the rules of muP) bring a warning; vectors may be
  /// zeros. `weights`: the entries "model" of them. Collective over the world; a data Error is the same on all ranks.
  void check_zeros(const std::string& source, const State& weights, const comm::Group& world) const;

  /// Stands for all elements by name, place and float32 number: the same on every mesh, with every precision and for
  /// every format that holds these numbers. Collective over the world.
  [[nodiscard]] std::string fingerprint(const comm::Group& world) const;

 private:
  bool takes_fingerprint_;
  io::ElementSum sum_;                   ///< over the elements that this rank owns
  std::map<std::string, bool> is_zero_;  ///< of the matrices that this rank holds a part of
};

}  // namespace sft::checkpoint
