// SPDX-License-Identifier: Apache-2.0
#include "support/checkpoint_fixture.hpp"

#include <algorithm>
#include <utility>

#include "sft/checkpoint/save.hpp"
#include "sft/device/factory.hpp"
#include "support/parameter.hpp"

namespace sft::test {
namespace {

constexpr const char* entries[] = {"model", "exp_avg", "exp_avg_sq"};

/// FNV-1a: the same on every system, as the checkpoint in tests/trainer/fixtures needs.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace

SharedFolder::SharedFolder(const comm::Group& world) : world_(world) {
  if (world.rank() == 0) {
    owned_ = std::make_unique<TemporaryFolder>();
    path_ = owned_->path();
  }
  world.broadcast(path_, 0);
}

SharedFolder::~SharedFolder() { test::barrier(world_); }

std::optional<test::Mesh> make_small_mesh(const comm::Group& world, const mesh::Layout& layout) {
  const bool is_member = world.rank() < layout.size();
  const comm::Group part = world.split(is_member ? 0 : 1, world.rank(), "small world");
  if (!is_member) return std::nullopt;
  return make_checkpoint_mesh(part, layout);
}

std::vector<parallel::Unit> make_units(std::int64_t rows, std::int64_t columns) {
  using parallel::TpSplit;
  std::vector<parallel::Unit> units(3);
  units[0].name = "embedding";
  units[0].parameters = {parameter("model.embed_tokens.weight", rows, columns, TpSplit::rows)};
  units[1].name = "block 0";
  units[1].parameters = {parameter("model.layers.0.input_layernorm.weight", 13, 0, TpSplit::none),
                         parameter("model.layers.0.self_attn.q_proj.weight", 16, 13, TpSplit::rows),
                         parameter("model.layers.0.self_attn.k_proj.weight", 6, 13, TpSplit::kv_rows),
                         parameter("model.layers.0.self_attn.k_proj.bias", 6, 0, TpSplit::kv_rows),
                         parameter("model.layers.0.self_attn.o_proj.weight", 13, 16, TpSplit::columns),
                         parameter("model.layers.0.mlp.down_proj.weight", 13, 28, TpSplit::columns)};
  units[2].name = "head";
  units[2].parameters = {parameter("model.norm.weight", 13, 0, TpSplit::partial)};
  return units;
}

std::vector<float> read_whole(const io::TensorSource& source, const io::TensorInfo& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  const std::int64_t num_columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  source.read(tensor.name, {.num_rows = tensor.shape[0], .num_columns = num_columns}, DType::float32, values.data());
  return values;
}

CheckpointFixture::CheckpointFixture(const test::Mesh& mesh, std::vector<parallel::Unit> units)
    : mesh_(mesh),
      shard_map_(std::move(units), mesh.place),
      device_(device::make_device(device::Kind::cpu)),
      stream_(device_->make_stream()) {
  const std::int64_t size = shard_map_.rank_shard_elements();
  memory_.assign(std::size(entries), std::vector<float>(static_cast<std::size_t>(size), -1.0F));
}

checkpoint::State CheckpointFixture::state() {
  std::vector<checkpoint::Entry> result;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const Tensor tensor(memory_[i].data(), DType::float32, {std::ssize(memory_[i])});
    result.push_back({entries[i], &shard_map_, tensor});
  }
  return {std::move(result), [this] { ++num_refreshes_; }};
}

LogicalTensors CheckpointFixture::expected_of(const std::string& entry, int seed) const {
  LogicalTensors tensors;
  for (const parallel::Unit& unit : shard_map_.units()) {
    for (const parallel::Parameter& parameter : unit.parameters) {
      std::vector<float> values(static_cast<std::size_t>(parameter.elements()));
      const auto name_hash = hash_of(entry + parameter.name) % 1000;
      auto value = static_cast<float>(name_hash) + 1000.0F * static_cast<float>(seed);
      for (float& element : values) element = value += 0.125F;
      tensors[parameter.name] = std::move(values);
    }
  }
  return tensors;
}

LogicalTensors CheckpointFixture::expected(int seed) const {
  LogicalTensors all;
  for (const std::string entry : entries) {
    for (auto& [name, values] : expected_of(entry, seed)) all[entry + "/" + name] = values;
  }
  return all;
}

void CheckpointFixture::fill(int seed) {
  for (std::vector<float>& values : memory_) std::ranges::fill(values, 0.0F);
  const checkpoint::State filled = state();
  for (const checkpoint::Entry& entry : filled.entries()) {
    scatter(shard_map_, expected_of(entry.name, seed), entry.tensor);
  }
}

bool CheckpointFixture::is_filled(int seed) const {
  CheckpointFixture other(mesh_, shard_map_.units());
  other.fill(seed);
  return memory_ == other.memory_;
}

void CheckpointFixture::save(const std::string& output_dir, const checkpoint::Position& position,
                             std::int64_t save_total_limit) {
  config::Config config;
  config.checkpoint.save_total_limit = save_total_limit;
  checkpoint::save(output_dir, config, "byte", mesh_.place, mesh_.groups, state(), position, *device_, *stream_);
}

void CheckpointFixture::give_up(const std::string& output_dir, const checkpoint::Position& position) {
  checkpoint::Save(output_dir, {}, "byte", mesh_.place, mesh_.groups, state().entries(), position).discard();
}

checkpoint::Position CheckpointFixture::load(const std::string& folder) {
  return checkpoint::load(folder, mesh_.groups.world, state(), *device_, *stream_);
}

}  // namespace sft::test
