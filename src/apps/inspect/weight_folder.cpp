// SPDX-License-Identifier: Apache-2.0
#include "weight_folder.hpp"

#include <filesystem>

#include "apps/common/start_model.hpp"
#include "sft/config/parse.hpp"
#include "sft/hub/adapter_config.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/hub/weights.hpp"

namespace sft::apps {

const char* name_of(WeightFolder::Kind kind) {
  switch (kind) {
    case WeightFolder::Kind::model:
      return "model folder";
    case WeightFolder::Kind::adapter:
      return "adapter";
    case WeightFolder::Kind::checkpoint:
      break;
  }
  return "checkpoint";
}

WeightFolder open_weight_folder(const std::string& path) {
  WeightFolder folder;
  folder.path = path;
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(path) / "adapter_config.json", ignored)) {
    folder.kind = WeightFolder::Kind::adapter;
    folder.config.lora = hub::read_adapter_config(path).lora;
    folder.source = hub::open_adapter_weights(path, {});
  } else if (hub::is_model_folder(path)) {
    folder.kind = WeightFolder::Kind::model;
    folder.config.model = hub::read_model_config(path).model;
    folder.source = hub::open_weights(path, folder.config.model.tie_word_embeddings);
  } else {
    folder.path = checkpoint_at(path);
    folder.header = checkpoint::read_header(folder.path);
    folder.config = config::parse(folder.header->config_ini, {}, folder.path);
    folder.source = checkpoint::open_source(folder.path);
  }
  return folder;
}

}  // namespace sft::apps
