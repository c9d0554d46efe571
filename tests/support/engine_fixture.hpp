// SPDX-License-Identifier: Apache-2.0
#pragma once
// An Engine on a mesh inside an MPI test, fed from memory: no files, whole rows and whole logical tensors in and out.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/comm/traffic.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/device/ledger.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "sft/tensor/tensor.hpp"
#include "sft/train/engine.hpp"
#include "support/mesh.hpp"

namespace sft::test {

/// Whole tensors by parameter name, row-major.
using LogicalTensors = std::map<std::string, std::vector<float>>;

/// Copies from whole tensors into this rank's shard (host memory).
void scatter(const parallel::ShardMap& shard_map, const LogicalTensors& tensors, Tensor shard);
/// Whole tensors from the shards (host memory) of all ranks. Collective over the mesh.
[[nodiscard]] LogicalTensors gather(const parallel::ShardMap& shard_map, Tensor shard, const test::Mesh& mesh);
/// Whether this rank's shard, pieces that other ranks hold too included, equals the whole tensors bit for bit.
[[nodiscard]] bool holds_exactly(const parallel::ShardMap& shard_map, Tensor shard, const LogicalTensors& tensors);

// The same of all entries of one name, each with a part of the model.
void scatter(const std::vector<checkpoint::Entry>& entries, const LogicalTensors& tensors);
[[nodiscard]] LogicalTensors gather(const std::vector<checkpoint::Entry>& entries, const test::Mesh& mesh);
[[nodiscard]] bool holds_exactly(const std::vector<checkpoint::Entry>& entries, const LogicalTensors& tensors);

/// `config` for a mesh of these sizes, on rows in memory.
[[nodiscard]] config::ValidConfig with_mesh(config::Config config, const mesh::Layout& layout);

/// An Engine and everything it stands on.
class EngineFixture {
 public:
  /// `config`: model, optimizer, precision and micro-batches; the sizes of `mesh` go into it. `device`: none: a CPU of
  /// its own; what reads or writes whole tensors here needs one. Collective over the mesh.
  EngineFixture(config::Config config, std::int64_t max_length, test::Mesh mesh, const comm::Session& session,
                std::unique_ptr<device::Device> device = nullptr, const comm::Transport& transport = {});

  /// This rank's part of the rows of the global batch, dealt in order to micro-batches and data ranks.
  [[nodiscard]] std::vector<rows::MicroBatch> deal(const std::vector<rows::Row>& rows) const;
  /// One step on the rows of the global batch. `step` is 0-based. Collective over the mesh.
  [[nodiscard]] train::StepResult step(const std::vector<rows::Row>& rows, std::int64_t step, double learning_rate);

  void set_parameters(const LogicalTensors& tensors);
  [[nodiscard]] LogicalTensors gather_parameters();
  [[nodiscard]] LogicalTensors gather_gradients();

  [[nodiscard]] const config::ValidConfig& config() const { return config_; }
  [[nodiscard]] train::Engine& engine() { return *engine_; }
  [[nodiscard]] const test::Mesh& mesh() const { return mesh_; }
  /// What this rank sent.
  [[nodiscard]] comm::TrafficCounter& traffic() { return traffic_; }
  [[nodiscard]] const device::Ledger& ledger() const { return ledger_; }

 private:
  config::ValidConfig config_;
  test::Mesh mesh_;
  device::Ledger ledger_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<comm::Collectives> collectives_;
  comm::TrafficCounter traffic_;
  std::unique_ptr<train::Engine> engine_;
};

}  // namespace sft::test
