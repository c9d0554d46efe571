// SPDX-License-Identifier: Apache-2.0
#include "model_folder.hpp"

#include <fmt/core.h>

#include "sft/config/parse.hpp"
#include "sft/core/log.hpp"
#include "sft/hub/adapter_config.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/io/files.hpp"
#include "start_model.hpp"

namespace sft::apps {

namespace {

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
      log_warning(
          fmt::format("{} gets no tokenizer ({}, which the model began with, is not there any more): copy its "
                      "tokenizer files into the folder",
                      folder, model.model_name_or_path));
    }
  } else {
    const std::string path = origin + "/config.json";
    original = io::read_file(path);
    if (!describes(original, path, model)) {
      log_warning(fmt::format(
          "{} describes another model than the one that was trained: the new config.json is made anew", path));
      original.clear();
    }
    hub::copy_companions(origin, folder);
  }
  io::write_file_atomically(folder + "/config.json", hub::make_config_json(model, type, original, max_length));
}

void write_adapter_companions(const std::string& folder, const config::Config& config) {
  const std::string origin = find_origin(config.model);
  if (!origin.empty()) hub::copy_companions(origin, folder);
  io::write_file_atomically(folder + "/adapter_config.json",
                            hub::make_adapter_config(config.lora, config.model.model_name_or_path));
}

void write_weight_files(const hub::WeightsPlan& plan, const std::string& folder) {
  hub::create_weight_files(plan, folder);
  if (const std::string index = plan.index_json(); !index.empty()) {
    io::write_file_atomically(folder + "/model.safetensors.index.json", index);
  }
}

}  // namespace sft::apps
