// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/stored_layout.hpp"

#include <map>
#include <string>

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

class Copies final : public StoredLayout {
 public:
  explicit Copies(const ShardMap& shard_map) {
    for (const Unit& unit : shard_map.units()) {
      for (const Parameter& parameter : unit.parameters) {
        if (parameter.copy_of.empty()) continue;
        Parameter& original = originals_[parameter.name] = parameter;
        original.name = parameter.copy_of;
      }
    }
  }

  [[nodiscard]] std::vector<StoredTensor> tensors(const ShardMap& shard_map) const override {
    std::vector<StoredTensor> copies;
    for (const StoredTensor& tensor : as_parameters().tensors(shard_map)) {
      if (const Parameter* original = original_of(*tensor.parameter)) copies.push_back({original, tensor.shape});
    }
    return copies;
  }
  [[nodiscard]] std::vector<StoredPart> parts(const ShardMap& shard_map) const override {
    std::vector<StoredPart> copies;
    for (const StoredPart& part : as_parameters().parts(shard_map)) {
      if (const Parameter* original = original_of(*part.parameter))
        copies.push_back({original, part.where, part.is_owner});
    }
    return copies;
  }
  [[nodiscard]] std::int64_t num_elements(const ShardMap& shard_map) const override {
    return shard_map.rank_shard_elements();
  }

 private:
  [[nodiscard]] const Parameter* original_of(const Parameter& parameter) const {
    const auto found = originals_.find(parameter.name);
    return found == originals_.end() ? nullptr : &found->second;
  }

  std::map<std::string, Parameter> originals_;  ///< by the copy's name
};

}  // namespace

std::unique_ptr<StoredLayout> make_layout_of_copies(const ShardMap& shard_map) {
  return std::make_unique<Copies>(shard_map);
}

const StoredLayout& as_parameters() {
  static const AsParameters layout;
  return layout;
}

std::vector<std::int64_t> shape_of(const Parameter& parameter) {
  if (parameter.is_vector()) return {parameter.rows};
  return {parameter.rows, parameter.columns};
}

}  // namespace sft::parallel
