// SPDX-License-Identifier: Apache-2.0
// Which layers of config.json see a window of their document.

#include <fmt/core.h>
#include <algorithm>
#include <utility>

#include "model_config_parts.hpp"

namespace sft::hub {

namespace {

[[noreturn]] void refuse_unused_window(const ConfigFields& fields) {
  fields.refuse("layer_types", "sliding_attention needs use_sliding_window and sliding_window", "correct config.json");
}

/// Windows on the layers that are not rotated, or on those of a list.
void read_windows_of_smollm3(ConfigFields& fields, std::vector<std::string> layer_types, config::Model& model) {
  const bool has_list = !layer_types.empty();
  const std::int64_t window = fields.truth("use_sliding_window", false) ? fields.integer("sliding_window", 0) : 0;
  for (std::size_t layer = 0; !has_list && std::cmp_less(layer, model.num_hidden_layers); ++layer) {
    layer_types.emplace_back(window > 0 && !model.rotates(layer) ? "sliding_attention" : "full_attention");
  }
  if (std::ranges::find(layer_types, "sliding_attention") == layer_types.end()) return;
  if (window == 0) refuse_unused_window(fields);
  model.sliding_window = window;
  model.layer_types = std::move(layer_types);
}

/// Reads the window of families whose layers slide but for every so many-th.
void read_alternating_windows(ConfigFields& fields, Family family, std::vector<std::string> layer_types,
                              config::Model& model) {
  std::int64_t every = family == Family::gemma2 || family == Family::gpt_oss ? 2 : family == Family::olmo3 ? 4 : 6;
  if (family == Family::gemma3) {
    every = fields.integer("sliding_window_pattern", every);
    static_cast<void>(fields.value("_sliding_window_pattern"));  // the same, written and not read
    if (every == 0) fields.refuse("sliding_window_pattern", "it counts layers", "correct config.json");
  }
  for (std::int64_t layer = layer_types.empty() ? 1 : model.num_hidden_layers + 1; layer <= model.num_hidden_layers;
       ++layer) {
    layer_types.emplace_back(layer % every != 0 ? "sliding_attention" : "full_attention");
  }
  const std::int64_t default_window = family == Family::gpt_oss ? 128 : 4096;
  const std::int64_t window = fields.has("sliding_window") ? fields.integer("sliding_window", 0) : default_window;
  if (std::ranges::find(layer_types, "sliding_attention") == layer_types.end()) return;
  model.sliding_window = window;
  if (model.sliding_window == 0) fields.refuse("sliding_window", "some layers slide", "correct config.json");
  model.layer_types = std::move(layer_types);
}

}  // namespace

void read_windows(ConfigFields& fields, const FamilyDefaults& family, config::Model& model) {
  const std::int64_t num_layers = model.num_hidden_layers;
  std::vector<std::string> layer_types = fields.texts("layer_types");
  bool has_sliding = false;
  for (const std::string& type : layer_types) {
    if (type != "full_attention" && type != "sliding_attention") {
      fields.refuse("layer_types", "layers have full_attention or sliding_attention, not " + type, other_model);
    }
    has_sliding = has_sliding || type == "sliding_attention";
  }
  if (!layer_types.empty() && std::cmp_not_equal(layer_types.size(), num_layers)) {
    fields.refuse("layer_types", fmt::format("it has {} items for {} layers", layer_types.size(), num_layers),
                  "correct the file, or download it again");
  }
  if (is_gemma(family.family) || family.family == Family::olmo3 || family.family == Family::gpt_oss) {
    return read_alternating_windows(fields, family.family, std::move(layer_types), model);
  }
  constexpr std::int64_t default_window = 4096;
  const bool slides_everywhere = family.family == Family::mistral || family.family == Family::phi3 ||
                                 family.family == Family::ministral3 || family.family == Family::mixtral;
  const bool is_qwen = family.family == Family::qwen2 || family.family == Family::qwen3;
  if (family.family == Family::smollm3) return read_windows_of_smollm3(fields, std::move(layer_types), model);
  if (!is_qwen) {
    if (has_sliding) {
      fields.refuse("layer_types", fmt::format("{} has one kind of layer here", family.architecture), other_model);
    }
    if (family.family == Family::qwen3_moe) {
      static_cast<void>(fields.value("max_window_layers"));  // all layers slide, whatever it says
      const std::int64_t window = fields.has("sliding_window") ? fields.integer("sliding_window", 0) : default_window;
      if (fields.truth("use_sliding_window", false)) model.sliding_window = window;
      return;
    }
    if (!slides_everywhere) return;
    const bool has_default = family.family == Family::mistral && !fields.has("sliding_window");
    model.sliding_window = has_default ? default_window : fields.integer("sliding_window", 0);
    return;
  }
  const bool is_used = fields.truth("use_sliding_window", false);
  const std::int64_t window = fields.has("sliding_window") ? fields.integer("sliding_window", 0) : default_window;
  const std::int64_t num_full_layers = fields.integer("max_window_layers", 28);
  if (has_sliding && (!is_used || window == 0)) refuse_unused_window(fields);
  if (layer_types.empty() && is_used && window > 0) {
    for (std::int64_t layer = 0; layer < num_layers; ++layer) {
      layer_types.emplace_back(layer >= num_full_layers ? "sliding_attention" : "full_attention");
    }
  }
  if (std::ranges::find(layer_types, "sliding_attention") == layer_types.end()) return;
  model.sliding_window = window;
  model.layer_types = std::move(layer_types);
}

}  // namespace sft::hub
