// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checkpoints of a small made-up model on any mesh of an MPI test, of which every number is known.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/comm/session.hpp"
#include "support/engine_fixture.hpp"
#include "support/mesh.hpp"
#include "support/temporary_folder.hpp"

namespace sft::test {

/// A folder that all ranks of the world see; rank 0 makes and removes it. Collective.
class SharedFolder {
 public:
  explicit SharedFolder(const comm::Group& world);
  ~SharedFolder();
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  comm::Group world_;
  std::unique_ptr<TemporaryFolder> owned_;
  std::string path_;
};

/// The mesh of a model with two key/value heads. Collective over `world`.
[[nodiscard]] inline Mesh make_checkpoint_mesh(const comm::Group& world, const mesh::Layout& layout) {
  return {world, layout, {.kv_replicas = std::max(1, layout[Axis::tp] / 2)}};
}
/// The same over the first layout.size() ranks; none on the others. Collective over `world`.
[[nodiscard]] std::optional<test::Mesh> make_small_mesh(const comm::Group& world, const mesh::Layout& layout);

/// Units with every kind of split and sizes that no shard boundary meets at a row's end. `rows`, `columns`: of the
/// first matrix.
[[nodiscard]] std::vector<parallel::Unit> make_units(std::int64_t rows = 20, std::int64_t columns = 12);

/// All of one tensor, row-major.
[[nodiscard]] std::vector<float> read_whole(const io::TensorSource& source, const io::TensorInfo& tensor);

/// The rank shards of one mesh over those units.
class CheckpointFixture {
 public:
  CheckpointFixture(const test::Mesh& mesh, std::vector<parallel::Unit> units);

  /// Gives every element of the three tensors the value that its name, place and `seed` say.
  void fill(int seed);
  /// Whether every element, copies that other ranks hold too included, has that value, and padding is zero.
  [[nodiscard]] bool is_filled(int seed) const;

  void save(const std::string& output_dir, const checkpoint::Position& position, std::int64_t save_total_limit = 0);
  /// Begins to save, and gives it up before anything is written.
  void give_up(const std::string& output_dir, const checkpoint::Position& position);
  [[nodiscard]] checkpoint::Position load(const std::string& folder);
  /// How often what follows from the entries was refreshed.
  [[nodiscard]] int num_refreshes() const { return num_refreshes_; }

  /// "model/NAME", "exp_avg/NAME" ... -> the whole tensor of `seed`.
  [[nodiscard]] LogicalTensors expected(int seed) const;

 private:
  [[nodiscard]] LogicalTensors expected_of(const std::string& entry, int seed) const;
  /// The three entries over memory_.
  [[nodiscard]] checkpoint::State state();

  test::Mesh mesh_;
  parallel::ShardMap shard_map_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<std::vector<float>> memory_;
  int num_refreshes_ = 0;
};

}  // namespace sft::test
