// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/stored_layout.hpp"

namespace sft::parallel {

namespace {

class AsParameters final : public StoredLayout {
 public:
  [[nodiscard]] std::vector<StoredTensor> tensors(const ShardMap& shard_map) const override {
    std::vector<StoredTensor> all;
    for (const Unit& unit : shard_map.units()) {
      for (const Parameter& parameter : unit.parameters) all.push_back({&parameter, shape_of(parameter)});
    }
    return all;
  }
  [[nodiscard]] std::vector<StoredPart> parts(const ShardMap& shard_map) const override {
    std::vector<StoredPart> all;
    for (const Piece& piece : shard_map.pieces()) {
      for (const LogicalRectangle& where : ShardMap::rectangles(piece)) {
        all.push_back({piece.parameter, where, piece.parameter->is_owner});
      }
    }
    return all;
  }
  [[nodiscard]] std::int64_t num_elements(const ShardMap& shard_map) const override {
    return shard_map.rank_shard_elements();
  }
};

}  // namespace

const StoredLayout& as_parameters() {
  static const AsParameters layout;
  return layout;
}

std::vector<std::int64_t> shape_of(const Parameter& parameter) {
  if (parameter.is_vector()) return {parameter.rows};
  return {parameter.rows, parameter.columns};
}

}  // namespace sft::parallel
