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

/// Whether the folder still describes the model.
bool describes(const std::string& folder, const config::Model& model) {
  config::Config now, then;
  now.model = model;
  then.model = hub::read_model_config(folder).model;
  then.model.model_name_or_path = model.model_name_or_path;
  then.model.model_revision = model.model_revision;
  then.model.init_seed = model.init_seed;
  then.model.initializer_range = model.initializer_range;
  then.model.router_aux_loss_coef = model.router_aux_loss_coef;
  return config::differences(then, now).empty();
}

/// How files are written that follow those of the folder.
hub::FileLayout layout_like(const std::string& folder) {
  hub::FileLayout layout = hub::read_file_layout(folder);
  layout.is_mxfp4 = false;
  return layout;
}

}  // namespace

FolderContents plan_contents(const config::Model& model, hub::WeightType type, std::int64_t max_length) {
  FolderContents contents{.origin = find_origin(model), .config_json = "", .layout = {}};
  if (contents.origin.empty() && !model.model_name_or_path.empty()) {
    log_warning(
        fmt::format("the new model folder gets no tokenizer ({}, which the model began with, is not there any more): "
                    "copy its tokenizer files into the folder",
                    model.model_name_or_path));
  }
  if (!contents.origin.empty()) {
    const std::string path = contents.origin + "/config.json";
    if (describes(contents.origin, model)) {
      contents.layout = layout_like(contents.origin);
      contents.config_json = hub::make_config_json(model, type, io::read_file(path), max_length);
      return contents;
    }
    log_warning(fmt::format(
        "{} describes another model than the one that was trained: the new config.json is made anew", path));
  }
  contents.config_json = hub::make_config_json(model, type, "", max_length);
  contents.layout = hub::parse_file_layout(contents.config_json, "the new config.json", {});
  return contents;
}

void require_writable(const config::Model& model) {
  const std::string origin = find_origin(model);
  if (!origin.empty() && describes(origin, model)) return;
  static_cast<void>(hub::make_config_json(model, hub::WeightType::float32, "", /*max_length=*/1));
}

FolderContents plan_adapter_contents(const config::Model& model) {
  FolderContents contents{.origin = find_origin(model), .config_json = "", .layout = {}};
  if (!contents.origin.empty()) contents.layout = layout_like(contents.origin);
  return contents;
}

void write_companions(const std::string& folder, const FolderContents& contents) {
  if (!contents.origin.empty()) hub::copy_companions(contents.origin, folder);
  io::write_file_atomically(folder + "/config.json", contents.config_json);
}

void write_adapter_companions(const std::string& folder, const FolderContents& contents, const config::Config& config,
                              const std::vector<io::TensorInfo>& tensors) {
  if (!contents.origin.empty()) hub::copy_companions(contents.origin, folder);
  std::vector<std::string> names;
  for (const io::TensorInfo& tensor : tensors) {
    if (io::entry_of(tensor.name) == "adapter") names.push_back(tensor.name.substr(tensor.name.find('/') + 1));
  }
  io::write_file_atomically(
      folder + "/adapter_config.json",
      hub::make_adapter_config(config.lora, config.model.model_name_or_path, contents.layout, names));
}

void write_weight_files(const hub::WeightsPlan& plan, const std::string& folder) {
  hub::create_weight_files(plan, folder);
  if (const std::string index = plan.index_json(); !index.empty()) {
    io::write_file_atomically(folder + "/model.safetensors.index.json", index);
  }
}

}  // namespace sft::apps
