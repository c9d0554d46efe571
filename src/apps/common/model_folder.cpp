// SPDX-License-Identifier: Apache-2.0
#include "model_folder.hpp"

#include <fmt/core.h>
#include <filesystem>
#include <memory>

#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/hub/adapter_config.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/hub/tokenizer_files.hpp"
#include "sft/io/files.hpp"
#include "sft/model/modules.hpp"
#include "sft/text/chat_template_files.hpp"
#include "sft/text/tokenizer.hpp"
#include "start_model.hpp"

namespace sft::apps {

namespace {

/// Whether the folder still describes the model, which may have been parted from a tied head.
bool describes(const std::string& folder, const config::Model& model) {
  config::Config now, then;
  now.model = model;
  then.model = hub::read_model_config(folder).model;
  then.model.model_name_or_path = model.model_name_or_path;
  then.model.model_revision = model.model_revision;
  then.model.init_seed = model.init_seed;
  then.model.initializer_range = model.initializer_range;
  then.model.router_aux_loss_coef = model.router_aux_loss_coef;
  if (then.model.tie_word_embeddings) then.model.tie_word_embeddings = model.tie_word_embeddings;
  return config::differences(then, now).empty();
}

/// How files are written that follow those of the folder.
hub::FileLayout layout_like(const std::string& folder) {
  hub::FileLayout layout = hub::read_file_layout(folder);
  layout.is_mxfp4 = false;
  return layout;
}

/// Whether the template is that of the folder.
bool has_template(const std::string& folder, const std::string& source) {
  try {
    const text::TemplateSources own = text::read_chat_templates(folder);
    return own.standard && own.standard->text == source;
  } catch (const Error&) {
    return false;  // one that cannot be used
  }
}

bool has_tokenizer(const std::string& folder) {
  std::error_code ignored;
  return !folder.empty() && std::filesystem::exists(folder + "/tokenizer.json", ignored);
}

/// Copies the companions of a PEFT folder over those of the model that it belongs to. A template of its own is the only
/// one then, wherever the two folders keep theirs.
void copy_tokenizer(const std::string& adapter, const std::string& folder) {
  if (text::read_chat_templates(adapter).standard) {
    for (const char* name : {"chat_template.jinja", "chat_template.json", "additional_chat_templates"}) {
      std::filesystem::remove_all(std::filesystem::path(folder) / name);
    }
  }
  hub::copy_companions(adapter, folder);
}

/// Leaves the tokenizer and the settings in `folder` with what the model was trained with.
void write_markup(const std::string& folder, const FolderContents& contents) {
  Markup markup = contents.markup;
  if (has_tokenizer(contents.adapter)) {
    const std::unique_ptr<text::Tokenizer> tokenizer = text::make_tokenizer(contents.adapter);
    const text::SpecialTokens& named = tokenizer->specials();
    markup = {.eos_token = named.eos ? tokenizer->token_of(*named.eos) : "",
              .pad_token = named.pad ? tokenizer->token_of(*named.pad) : "",
              .chat_template = ""};
  }
  if (markup == Markup{} || !has_tokenizer(contents.origin)) return;
  const std::unique_ptr<text::Tokenizer> tokenizer = text::make_tokenizer(contents.origin);
  const text::SpecialTokens& own = tokenizer->specials();
  hub::TokenIds ids{.eos = own.eos, .bos = own.bos, .pad = own.pad};
  hub::TokenizerChanges changes;
  if (const auto eos = tokenizer->id_of(markup.eos_token); eos && eos != own.eos) {
    ids.eos = eos;
    ids.is_new_eos = true;
    changes.eos_token = markup.eos_token;
  }
  if (const auto pad = tokenizer->id_of(markup.pad_token); pad && pad != own.pad) {
    ids.pad = pad;
    changes.pad_token = markup.pad_token;
  }
  if (!has_template(contents.origin, markup.chat_template)) changes.chat_template = markup.chat_template;
  hub::change_tokenizer(folder, changes);
  hub::write_token_ids(folder, ids);
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
  if (has_tokenizer(contents.adapter)) copy_tokenizer(contents.adapter, folder);
  io::write_file_atomically(folder + "/config.json", contents.config_json);
  write_markup(folder, contents);
}

void write_adapter_companions(const std::string& folder, const FolderContents& contents, const config::Config& config,
                              const std::vector<io::TensorInfo>& tensors) {
  if (!contents.origin.empty()) hub::copy_companions(contents.origin, folder);
  write_markup(folder, contents);
  std::vector<std::string> names;
  for (const io::TensorInfo& tensor : tensors) {
    if (io::entry_of(tensor.name) == "adapter") names.push_back(tensor.name.substr(tensor.name.find('/') + 1));
  }
  io::write_file_atomically(
      folder + "/adapter_config.json",
      hub::make_adapter_config(config.lora, config.model.model_name_or_path,
                               model::names_of(model::linear_modules(config.model)), contents.layout, names));
}

void write_weight_files(const hub::WeightsPlan& plan, const std::string& folder) {
  hub::create_weight_files(plan, folder);
  if (const std::string index = plan.index_json(); !index.empty()) {
    io::write_file_atomically(folder + "/model.safetensors.index.json", index);
  }
}

}  // namespace sft::apps
