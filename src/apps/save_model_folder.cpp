// SPDX-License-Identifier: Apache-2.0
#include "save_model_folder.hpp"

#include <filesystem>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/log.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/io/files.hpp"
#include "start_model.hpp"

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

/// Whether a config.json still describes the model.
bool describes(const std::string& config_json, const std::string& source, const config::Model& model) {
  config::Config now, then;
  now.model = model;
  then.model = hub::parse_model_config(config_json, source).model;
  then.model.model_name_or_path = model.model_name_or_path;
  then.model.model_revision = model.model_revision;
  then.model.init_seed = model.init_seed;
  then.model.initializer_range = model.initializer_range;
  return config::differences(then, now).empty();
}

}  // namespace

void write_companions(const std::string& folder, const config::Model& model, hub::WeightType type,
                      std::int64_t max_length) {
  const std::string origin = find_origin(model);
  std::string original;
  if (origin.empty()) {
    if (!model.model_name_or_path.empty()) {
      log_warning(folder + " gets no tokenizer (" + model.model_name_or_path +
                  ", which the model began with, is not there any more): copy its tokenizer files into the folder");
    }
  } else {
    const std::string path = origin + "/config.json";
    original = io::read_file(path);
    if (!describes(original, path, model)) {
      log_warning(path + " describes another model than the one that was trained: the new config.json is made anew");
      original.clear();
    }
    hub::copy_companions(origin, folder);
  }
  io::write_file_atomically(folder + "/config.json", hub::make_config_json(model, type, original, max_length));
}

void save_model_folder(const std::string& folder, const config::Model& model, std::int64_t max_length,
                       train::Engine& engine, const comm::Group& world, device::Device& device) {
  const hub::WeightsPlan plan(tensors_of(engine.shard_map()), hub::WeightType::float32, max_file_bytes);
  const std::string temporary = folder + ".tmp";

  // 1. Files of the right size, without tensors
  world.agree([&] {
    if (world.rank() != 0) return;
    static_cast<void>(hub::begin_folder(folder, /*replaces=*/true));
    write_companions(temporary, model, plan.type(), max_length);
    hub::create_weight_files(plan, temporary);
    if (const std::string index = plan.index_json(); !index.empty()) {
      io::write_file_atomically(temporary + "/model.safetensors.index.json", index);
    }
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
