// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/stored_layout.hpp"

#include <map>
#include <string>
#include <utility>

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

class Renamed final : public StoredLayout {
 public:
  Renamed(const ShardMap& shard_map, const std::function<std::string(const Parameter& parameter)>& name_of) {
    for (const Unit& unit : shard_map.units()) {
      for (const Parameter& parameter : unit.parameters) {
        std::string name = name_of(parameter);
        if (name.empty()) continue;
        Parameter& renamed = renamed_[parameter.name] = parameter;
        renamed.name = std::move(name);
      }
    }
  }

  [[nodiscard]] std::vector<StoredTensor> tensors(const ShardMap& shard_map) const override {
    std::vector<StoredTensor> all;
    for (const StoredTensor& tensor : as_parameters().tensors(shard_map)) {
      if (const Parameter* renamed = renamed_of(*tensor.parameter)) all.push_back({renamed, tensor.shape});
    }
    return all;
  }
  [[nodiscard]] std::vector<StoredPart> parts(const ShardMap& shard_map) const override {
    std::vector<StoredPart> all;
    for (const StoredPart& part : as_parameters().parts(shard_map)) {
      if (const Parameter* renamed = renamed_of(*part.parameter)) all.push_back({renamed, part.where, part.is_owner});
    }
    return all;
  }
  [[nodiscard]] std::int64_t num_elements(const ShardMap& shard_map) const override {
    return shard_map.rank_shard_elements();
  }

 private:
  [[nodiscard]] const Parameter* renamed_of(const Parameter& parameter) const {
    const auto found = renamed_.find(parameter.name);
    return found == renamed_.end() ? nullptr : &found->second;
  }

  std::map<std::string, Parameter> renamed_;  ///< by the name in the map
};

}  // namespace

std::unique_ptr<StoredLayout> make_layout_of_copies(const ShardMap& shard_map) {
  return make_renamed_layout(shard_map, [](const Parameter& parameter) { return parameter.copy_of; });
}

std::unique_ptr<StoredLayout> make_renamed_layout(
    const ShardMap& shard_map, const std::function<std::string(const Parameter& parameter)>& name_of) {
  return std::make_unique<Renamed>(shard_map, name_of);
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
