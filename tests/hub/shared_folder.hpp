// SPDX-License-Identifier: Apache-2.0
#pragma once
// A temporary folder that all ranks see, and a model folder in it.

#include <memory>
#include <string>
#include <vector>

#include "sft/comm/group.hpp"
#include "sft/hub/weights.hpp"
#include "sft/parallel/shard_map.hpp"
#include "support/temporary_folder.hpp"

namespace sft::test {

/// Made by rank 0 and removed with its object. Collective over the world.
class SharedFolder {
 public:
  explicit SharedFolder(const comm::Group& world) : world_(world) {
    if (world.rank() == 0) {
      folder_ = std::make_unique<TemporaryFolder>();
      path_ = folder_->path();
    }
    world.broadcast(path_, 0);
  }
  ~SharedFolder() {
    world_.agree([] {});  // nobody reads it any more
  }

  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  const comm::Group& world_;
  std::unique_ptr<TemporaryFolder> folder_;
  std::string path_;
};

/// The tensors of a model, as a file holds them.
inline std::vector<io::TensorInfo> tensors_of(const parallel::ShardMap& shard_map) {
  std::vector<io::TensorInfo> tensors;
  for (const parallel::Unit& unit : shard_map.units()) {
    for (const parallel::Parameter& parameter : unit.parameters) {
      std::vector<std::int64_t> shape{parameter.rows};
      if (!parameter.is_vector()) shape.push_back(parameter.columns);
      tensors.push_back({"model/" + parameter.name, shape, DType::float32});
    }
  }
  return tensors;
}

}  // namespace sft::test
