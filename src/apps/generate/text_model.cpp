// SPDX-License-Identifier: Apache-2.0
#include "text_model.hpp"

#include <fmt/core.h>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "apps/common/model_folder.hpp"
#include "apps/common/start_model.hpp"
#include "sft/checkpoint/adapter_source.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/inspect.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/adapter_config.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/file_kind.hpp"

namespace sft::apps {

namespace fs = std::filesystem;

namespace {

bool holds(const std::string& folder, const char* file) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / file, ignored);
}

struct Adapter {
  std::unique_ptr<io::TensorSource> source;
  hub::AdapterConfig config;
  checkpoint::Position position = {};  ///< of the checkpoint that it is in; empty for a PEFT folder
  hub::FileLayout layout = {};         ///< of the files that a PEFT folder belongs to
};

/// Of a checkpoint whose run trained one.
Adapter adapter_in(const std::string& checkpoint, const config::Config& config) {
  checkpoint::verify(checkpoint);
  return {std::make_unique<checkpoint::AdapterSource>(checkpoint),
          {config.lora.beside_whole_weights(), hub::TargetModules::all_linear()},
          checkpoint::read_header(checkpoint).position};
}

/// `base`: of the model that it belongs to.
Adapter find_adapter(const std::string& path, const hub::FileLayout& base) {
  if (holds(path, "adapter_config.json")) {
    return {hub::open_adapter_weights(path, base), hub::read_adapter_config(path), {}, base};
  }
  std::error_code ignored;
  const std::string folder = fs::exists(path, ignored) ? checkpoint_at(path) : path;
  if (!holds(folder, "checkpoint.h5")) {
    throw_data_error(fmt::format("cannot find an adapter in {}", path),
                     "it holds neither adapter_config.json nor a checkpoint of a run with use_peft",
                     "give a PEFT folder such as output/chat/adapter");
  }
  const config::Config config = config::parse(checkpoint::read_header(folder).config_ini, {}, folder);
  if (!config.lora.use_peft) {
    throw_config_error(fmt::format("--adapter {} holds no adapter", path), "it is a checkpoint of a whole model",
                       "give it in place of the model");
  }
  return adapter_in(folder, config);
}

StartModel find_folder(const std::string& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !hub::is_model_folder(path)) {
    if (holds(path, "adapter_config.json")) {
      throw_config_error(fmt::format("{} is an adapter", path), "it changes a model, which is elsewhere",
                         "give that model, and this folder with --adapter");
    }
    io::require_kind(path, io::Expected::model);
    return {StartModel::Kind::checkpoint, checkpoint_at(path)};
  }
  config::Model named;
  named.model_name_or_path = path;
  return find_start_model(named);
}

std::unique_ptr<io::TensorSource> open_base(const StartModel& start, const config::Model& model) {
  if (start.kind == StartModel::Kind::checkpoint) return checkpoint::open_source(start.folder);
  if (model.tie_word_embeddings) hub::check_tied_head(start.folder);
  return hub::open_weights(start.folder, model.tie_word_embeddings);
}

[[noreturn]] void refuse_without_tokenizer(const std::string& path, const std::string& why) {
  throw_config_error(fmt::format("cannot find the tokenizer of {}", path), why,
                     "give it with --tokenizer, a folder with a tokenizer.json or byte");
}

/// "byte", or the folder of the tokenizer that made a checkpoint's tokens: where it still lies, else beside the model
/// that it began with.
std::string tokenizer_of(const std::string& path, const checkpoint::Header& header, const std::string& origin) {
  if (header.tokenizer == "byte" || holds(header.tokenizer, "tokenizer.json")) return header.tokenizer;
  if (!origin.empty() && holds(origin, "tokenizer.json")) return origin;
  refuse_without_tokenizer(path, header.tokenizer.empty() ? "the checkpoint names none"
                                                          : fmt::format("it was {}, which is gone", header.tokenizer));
}

}  // namespace

TextModel find_text_model(const std::string& path, const std::string& adapter_path, const std::string& tokenizer) {
  TextModel found;
  found.tokenizer = tokenizer;
  std::optional<Adapter> adapter;
  found.start = find_folder(path);
  if (found.start.kind == StartModel::Kind::hub) {
    hub::ModelConfig read = hub::read_model_config(found.start.folder);
    found.model = read.model;
    found.warnings = std::move(read.warnings);
    found.generation_folder = found.start.folder;
    if (tokenizer.empty()) {
      if (!holds(found.start.folder, "tokenizer.json")) {
        refuse_without_tokenizer(found.start.folder, "the folder has no tokenizer.json");
      }
      found.tokenizer = found.start.folder;
    }
  } else {
    const checkpoint::Header header = checkpoint::read_header(found.start.folder);
    const config::Config config = config::parse(header.config_ini, {}, found.start.folder);
    found.model = config.model;
    found.generation_folder = find_origin(config.model);
    if (tokenizer.empty()) found.tokenizer = tokenizer_of(found.start.folder, header, found.generation_folder);
    found.trained_length = header.position.max_length;
    if (tokenizer.empty()) found.markup = header.position.markup;
    if (config.lora.use_peft) {
      adapter = adapter_in(found.start.folder, config);
      found.start = find_start_model(config.model);
    }
  }
  if (!adapter_path.empty()) {
    if (adapter) {
      throw_config_error(fmt::format("--adapter does not go with {}", path), "that has an adapter of its own",
                         "give the model that both belong to, and one of them");
    }
    const std::string& base = found.generation_folder;
    if (tokenizer.empty() && holds(adapter_path, "tokenizer.json")) found.tokenizer = adapter_path;
    adapter = find_adapter(adapter_path, base.empty() ? hub::FileLayout{} : hub::read_file_layout(base));
  }
  if (adapter) {
    found.merged =
        std::make_unique<hub::MergedWeights>(open_base(found.start, found.model), found.model.tie_word_embeddings,
                                             std::move(adapter->source), adapter->config, adapter->layout);
    if (found.merged->unties_head()) found.model.tie_word_embeddings = false;
    found.frozen_fingerprint = adapter->position.frozen_fingerprint;
    found.frozen_origin = adapter->position.frozen_origin;
  }
  return found;
}

void load_text_model(const TextModel& found, const comm::Group& world, const checkpoint::State& weights,
                     device::Device& device, device::Stream& stream) {
  if (found.merged == nullptr) {
    checkpoint::LoadedWeights seen;
    load_start_weights(found.start, found.model, world, weights, device, stream, seen);
    return;
  }
  checkpoint::check_entries(*found.merged, weights.entries(), mismatched_folder);
  if (!found.frozen_fingerprint.empty()) found.merged->take_fingerprint();
  checkpoint::load_entries(*found.merged, weights, device, stream);
  if (found.frozen_fingerprint.empty() || found.merged->fingerprint() == found.frozen_fingerprint) return;
  throw_data_error(
      fmt::format("the model in {} is not the one that the adapter was trained beside", found.start.folder),
      fmt::format("its fingerprint is {}, then it was {}, of {}", found.merged->fingerprint(), found.frozen_fingerprint,
                  found.frozen_origin),
      "give that model, and the checkpoint with --adapter");
}

}  // namespace sft::apps
