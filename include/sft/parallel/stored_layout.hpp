// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which tensors of a checkpoint are made of what the ranks hold, and where their parts lie in a rank's memory: a number
// for each element of a parameter, or whatever else goes with one. Pure.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sft/parallel/shard_map.hpp"

namespace sft::parallel {

/// A whole tensor, whatever the mesh is. In storage its name is that of its entry and of the parameter.
struct StoredTensor {
  const Parameter* parameter;       ///< lies in a ShardMap or a StoredLayout, which outlives this
  std::vector<std::int64_t> shape;  ///< one or two dims
};

/// What a rank holds of one.
struct StoredPart {
  const Parameter* parameter;
  LogicalRectangle where;  ///< in that tensor; shard_offset: of its first element in the rank's memory
  bool is_owner;           ///< this rank writes it, of all that hold it
};

class StoredLayout {
 public:
  virtual ~StoredLayout() = default;
  /// In the order of parameters, the same on all ranks.
  [[nodiscard]] virtual std::vector<StoredTensor> tensors(const ShardMap& shard_map) const = 0;
  /// What the rank holds whose map it is, ascending by where it lies. What its owners hold of a tensor is all of it.
  [[nodiscard]] virtual std::vector<StoredPart> parts(const ShardMap& shard_map) const = 0;
  /// Elements of that rank's memory, with what is between the parts.
  [[nodiscard]] virtual std::int64_t num_elements(const ShardMap& shard_map) const = 0;
};

/// The parameters themselves, or a number for each of their elements: cut and laid out as the rank shard.
[[nodiscard]] const StoredLayout& as_parameters();

/// Those trained parameters that are copies of a model's (Parameter::copy_of), under the names that they have there,
/// in the memory of the rank shard. The layout is for the maps of this one's units, of any rank.
[[nodiscard]] std::unique_ptr<StoredLayout> make_layout_of_copies(const ShardMap& shard_map);

/// Those parameters of the map for which `name_of` gives a name, under that name, in memory that is cut and laid out as
/// the rank shard. The layout is for the maps of this one's units, of any rank.
[[nodiscard]] std::unique_ptr<StoredLayout> make_renamed_layout(
    const ShardMap& shard_map, const std::function<std::string(const Parameter& parameter)>& name_of);

/// The parameter's own shape.
[[nodiscard]] std::vector<std::int64_t> shape_of(const Parameter& parameter);

}  // namespace sft::parallel
