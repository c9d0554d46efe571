// SPDX-License-Identifier: Apache-2.0
#include "save_model_folder.hpp"

#include <fmt/core.h>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "model_folder.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/weights.hpp"

namespace sft::apps {

namespace {

constexpr std::uint64_t max_file_bytes = 5'000'000'000;  ///< transformers' max_shard_size

/// float32, or bfloat16 where the run kept no more.
hub::WeightType weight_type_of(const checkpoint::Entry& entry) {
  return entry.dtype() == DType::bf16 ? hub::WeightType::bfloat16 : hub::WeightType::float32;
}

/// All tensors of an entry, in logical shapes.
std::vector<io::TensorInfo> tensors_of(const checkpoint::Entry& entry) {
  std::vector<io::TensorInfo> tensors;
  for (const parallel::StoredTensor& tensor : entry.layout->tensors(*entry.shard_map)) {
    tensors.push_back({fmt::format("{}/{}", entry.name, tensor.parameter->name), tensor.shape, DType::float32});
  }
  return tensors;
}

/// Writes the tensors of `plan` from `state`; `write_rest(FOLDER)` makes the other files, on rank 0.
template <class WriteRest>
void save_folder(const std::string& folder, const hub::WeightsPlan& plan, const checkpoint::State& state,
                 const WriteRest& write_rest, const comm::Group& world, device::Device& device,
                 device::Stream& stream) {
  std::optional<hub::NewFolder> out;  // on rank 0
  std::string temporary;

  // 1. Files of the right size, without tensors
  world.agree([&] {
    if (world.rank() != 0) return;
    out.emplace(folder, /*replaces=*/true);
    temporary = out->temporary();
    write_rest(temporary);
    write_weight_files(plan, temporary);
  });
  world.broadcast(temporary, 0);

  // 2. Each rank the tensors' parts that it owns
  world.agree([&] {
    hub::WeightsSink sink(plan, temporary);
    checkpoint::save_entries(state, sink, device, stream);
    sink.finish();
  });

  // 3. The name that says complete
  world.agree([&] {
    if (world.rank() == 0) out->finish();
  });
}

}  // namespace

void save_model_folder(const std::string& folder, const config::Model& model, std::int64_t max_length,
                       train::Engine& engine, const comm::Group& world, device::Device& device) {
  const checkpoint::State weights = engine.weights();
  const checkpoint::Entry& entry = weights.entries().front();
  const hub::WeightsPlan plan(tensors_of(entry), weight_type_of(entry), max_file_bytes);
  const auto write_rest = [&](const std::string& to) { write_companions(to, model, plan.type(), max_length); };
  save_folder(folder, plan, weights, write_rest, world, device, engine.stream());
}

void save_adapter_folder(const std::string& folder, const config::Config& config, train::Engine& engine,
                         const comm::Group& world, device::Device& device) {
  const checkpoint::State adapter = engine.adapter();
  const checkpoint::Entry& entry = adapter.entries().front();
  const hub::WeightsPlan plan(tensors_of(entry), weight_type_of(entry), std::numeric_limits<std::uint64_t>::max(),
                              hub::adapter_stem);
  const auto write_rest = [&](const std::string& to) { write_adapter_companions(to, config); };
  save_folder(folder, plan, adapter, write_rest, world, device, engine.stream());
}

}  // namespace sft::apps
