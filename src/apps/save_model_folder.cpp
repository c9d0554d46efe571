// SPDX-License-Identifier: Apache-2.0
#include "save_model_folder.hpp"

#include <vector>

#include "model_folder.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/weights.hpp"

namespace sft::apps {

namespace {

constexpr std::uint64_t max_file_bytes = 5'000'000'000;  ///< transformers' max_shard_size

std::vector<io::TensorInfo> tensors_of(const parallel::ShardMap& shard_map) {
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

}  // namespace

void save_model_folder(const std::string& folder, const config::Model& model, std::int64_t max_length,
                       train::Engine& engine, const comm::Group& world, device::Device& device) {
  const hub::WeightsPlan plan(tensors_of(engine.shard_map()), hub::WeightType::float32, max_file_bytes);
  const std::string temporary = folder + ".tmp";

  // 1. Files of the right size, without tensors
  world.agree([&] {
    if (world.rank() != 0) return;
    static_cast<void>(hub::begin_folder(folder, /*replaces=*/true));
    write_companions(temporary, model, plan.type(), max_length);
    write_weight_files(plan, temporary);
  });

  // 2. Each rank the tensors' parts that it owns
  world.agree([&] {
    hub::WeightsSink sink(plan, temporary);
    checkpoint::save_entries(engine.weights(), sink, device, engine.stream());
    sink.finish();
  });

  // 3. The name that says complete
  world.agree([&] {
    if (world.rank() == 0) hub::finish_folder(folder);
  });
}

}  // namespace sft::apps
