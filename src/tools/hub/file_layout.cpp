// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/file_layout.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "config_fields.hpp"
#include "families/family.hpp"
#include "family_rules.hpp"
#include "folder_tensors.hpp"
#include "sft/core/error.hpp"
#include "weight_files.hpp"

namespace sft::hub {

namespace {

using nlohmann::json;

constexpr const char* correct_it = "correct config.json, or download it again";
constexpr std::int64_t largest = std::int64_t{1}
                                 << 24;  ///< of heads, rows of a head, experts: products do not overflow

/// Prefixes of text towers, as transformers 4 and 5 save them.
struct Prefixes {
  const char *body, *head;
};
constexpr std::array<Prefixes, 2> towers{
    {{"language_model.model.", "language_model.lm_head."}, {"model.language_model.", "lm_head."}}};

void find_tower(FileLayout& layout, const std::string& source, const std::vector<FileTensor>& files) {
  constexpr const char* first = "layers.0.";
  const auto holds_block = [&](const std::string& body) {
    return std::ranges::any_of(files, [&](const FileTensor& tensor) { return tensor.name.starts_with(body + first); });
  };
  const auto tower = std::ranges::find_if(towers, [&](const Prefixes& names) { return holds_block(names.body); });
  if (tower == towers.end()) {
    if (holds_block(layout.body)) return;
    throw_data_error(fmt::format("the weights beside {} have no text tower", source),
                     fmt::format("it has a text_config, but none of them begins with {}{} or {}{}", towers[0].body,
                                 first, towers[1].body, first),
                     "give a folder that transformers' save_pretrained wrote");
  }
  layout.body = tower->body;
  layout.head = tower->head;
  for (const FileTensor& tensor : files) {
    if (!tensor.name.starts_with(layout.body) && !tensor.name.starts_with(layout.head))
      layout.carried.push_back(tensor);
  }
}

std::int64_t size_of(ConfigFields& fields, const std::string& name, std::int64_t value) {
  if (value < 0 || value > largest) fields.refuse(name, "there is no model of this size", correct_it);
  return value;
}

void read_sizes(FileLayout& layout, ConfigFields& fields, const Family& defaults) {
  const auto required = [&](const char* name) { return size_of(fields, name, fields.required_integer(name)); };
  const auto optional = [&](const char* name, std::int64_t value) {
    return size_of(fields, name, fields.integer(name, value));
  };
  layout.num_attention_heads = required("num_attention_heads");
  if (layout.num_attention_heads == 0)
    fields.refuse("num_attention_heads", "there is no model without heads", correct_it);
  layout.num_key_value_heads =
      optional("num_key_value_heads", fields.has("num_key_value_heads") ? 0 : defaults.num_key_value_heads);
  if (layout.num_key_value_heads == 0) layout.num_key_value_heads = layout.num_attention_heads;
  layout.head_dim = optional("head_dim", fields.has("head_dim") ? 0 : defaults.head_dim);
  if (layout.head_dim == 0) layout.head_dim = required("hidden_size") / layout.num_attention_heads;
  layout.intermediate_size = required(defaults.width_field);
  for (const char* name : {"n_routed_experts", "num_experts", "num_local_experts"}) {
    layout.num_experts = optional(name, layout.num_experts);
  }

  double factor = fields.number("partial_rotary_factor", defaults.partial_rotary_factor);
  if (const json& rope = fields.value("rope_parameters"); rope.is_object()) {
    ConfigFields parameters(rope, fields.source());
    factor = parameters.number("partial_rotary_factor", factor);
  }
  const auto rotary_dim = factor * static_cast<double>(layout.head_dim);
  if (!(rotary_dim >= 0.0 && rotary_dim <= static_cast<double>(layout.head_dim))) {
    fields.refuse("partial_rotary_factor", "it is between 0 and 1", correct_it);
  }
  layout.rotary_dim = static_cast<std::int64_t>(rotary_dim);
  if (layout.rotary_dim % 2 != 0) fields.refuse("partial_rotary_factor", "pairs are rotated", correct_it);
}

/// Layers after those of the decoder (has_later_layers of a family).
void carry_later_layers(FileLayout& layout, ConfigFields& fields, const std::vector<FileTensor>& files) {
  const std::int64_t num_layers = size_of(fields, "num_hidden_layers", fields.required_integer("num_hidden_layers"));
  for (const FileTensor& tensor : files) {
    const std::string stem = split_name(tensor.name).stem;
    if (stem.empty()) continue;
    const std::optional<std::int64_t> layer = match("model.layers.*.", stem);
    if (layer && *layer >= num_layers) layout.carried.push_back(tensor);
  }
}

/// A folder of config.json alone is enough for a plan.
bool has_weights(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "model.safetensors", ignored) ||
         std::filesystem::exists(folder / "model.safetensors.index.json", ignored);
}

}  // namespace

FileLayout parse_file_layout(const std::string& config_json, const std::string& source,
                             const std::vector<FileTensor>& files) {
  const json object = parse_json_object(config_json, source);
  FileLayout layout;
  if (is_tower_config(object)) find_tower(layout, source, files);
  const json& decoder = decoder_config(object);
  ConfigFields fields(decoder, source);
  layout.family = fields.text("model_type", "");
  const Family* const family = find_family(layout.family);
  if (family == nullptr) return layout;
  if (family->has_later_layers) carry_later_layers(layout, fields, files);
  if (family->rules.empty()) return layout;
  read_sizes(layout, fields, *family);
  layout.is_mxfp4 = std::ranges::any_of(
      files, [](const FileTensor& tensor) { return tensor.name.ends_with("experts.gate_up_proj_blocks"); });
  return layout;
}

FileLayout read_file_layout(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const json object = read_json_object(path);
  const auto has_blocks = [](const Rule& rule) { return rule.cut == Cut::experts; };
  ConfigFields decoder(decoder_config(object), path);
  const Family* const family = find_family(decoder.text("model_type", ""));
  const bool needs_names =
      is_tower_config(object) || (family != nullptr && (std::ranges::any_of(family->rules, has_blocks) ||
                                                        (family->has_later_layers && has_weights(folder))));
  return parse_file_layout(object.dump(), path,
                           needs_names ? read_folder_tensors(folder).list() : std::vector<FileTensor>{});
}

bool holds_tower_head(const std::string& folder) {
  const FolderTensors files = read_folder_tensors(folder);
  return std::ranges::any_of(towers, [&](const Prefixes& names) {
    return files.find(std::string(names.head) + "weight") != nullptr &&
           files.find(std::string(names.body) + "embed_tokens.weight") != nullptr;
  });
}

FileLayout file_layout_of(const std::string& folder, const std::vector<FileTensor>& files) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  return parse_file_layout(read_json_object(path).dump(), path, files);
}

std::string to_json(const FileLayout& layout) {
  json carried = json::array();
  for (const FileTensor& tensor : layout.carried)
    carried.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.num_bytes});
  return json{{"family", layout.family},
              {"sizes",
               {layout.num_attention_heads, layout.num_key_value_heads, layout.head_dim, layout.intermediate_size,
                layout.rotary_dim, layout.num_experts}},
              {"body", layout.body},
              {"head", layout.head},
              {"is_mxfp4", layout.is_mxfp4},
              {"carried", carried}}
      .dump();
}

FileLayout file_layout_of_json(const std::string& text) {
  const json object = json::parse(text);
  const json& sizes = object.at("sizes");
  FileLayout layout{.family = object.at("family"),
                    .num_attention_heads = sizes.at(0),
                    .num_key_value_heads = sizes.at(1),
                    .head_dim = sizes.at(2),
                    .intermediate_size = sizes.at(3),
                    .rotary_dim = sizes.at(4),
                    .num_experts = sizes.at(5),
                    .body = object.at("body"),
                    .head = object.at("head"),
                    .is_mxfp4 = object.at("is_mxfp4")};
  for (const json& tensor : object.at("carried"))
    layout.carried.push_back({tensor.at(0), tensor.at(1), tensor.at(2), tensor.at(3)});
  return layout;
}

}  // namespace sft::hub
