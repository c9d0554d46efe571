// SPDX-License-Identifier: Apache-2.0
// The layers of config.json that see a window of their document.
#include <fmt/core.h>
#include <algorithm>
#include <utility>

#include "hub/families/shared/reading.hpp"

namespace sft::hub {

namespace {

constexpr const char* sliding = "sliding_attention";
constexpr const char* full = "full_attention";

bool slides(const std::vector<std::string>& layer_types) {
  return std::ranges::find(layer_types, sliding) != layer_types.end();
}

}  // namespace

std::vector<std::string> read_layer_types(const Reading& r) {
  std::vector<std::string> layer_types = r.fields.texts("layer_types");
  for (const std::string& type : layer_types) {
    if (type == full || type == sliding) continue;
    r.fields.refuse("layer_types", "layers have full_attention or sliding_attention, not " + type, other_model);
  }
  if (!layer_types.empty() && std::cmp_not_equal(layer_types.size(), r.model.num_hidden_layers)) {
    r.fields.refuse("layer_types",
                    fmt::format("it has {} items for {} layers", layer_types.size(), r.model.num_hidden_layers),
                    "correct the file, or download it again");
  }
  return layer_types;
}

void read_one_kind_of_layer(const Reading& r) {
  if (!slides(read_layer_types(r))) return;
  r.fields.refuse("layer_types", fmt::format("{} has one kind of layer here", r.family.architecture), other_model);
}

void set_windows(const Reading& r, std::int64_t window, std::vector<std::string> layer_types,
                 void (*refuse)(ConfigFields&)) {
  if (!slides(layer_types)) return;
  if (window == 0) refuse(r.fields);
  r.model.sliding_window = window;
  r.model.layer_types = std::move(layer_types);
}

void refuse_unused_window(ConfigFields& fields) {
  fields.refuse("layer_types", "sliding_attention needs use_sliding_window and sliding_window", "correct config.json");
}

std::int64_t read_window(const Reading& r, std::int64_t fallback) {
  return r.fields.has("sliding_window") ? r.fields.integer("sliding_window", 0) : fallback;
}

void read_window_of_all(const Reading& r, std::int64_t fallback) {
  read_one_kind_of_layer(r);
  r.model.sliding_window = read_window(r, fallback);
}

void read_alternating_windows(const Reading& r, std::int64_t every, std::int64_t default_window) {
  std::vector<std::string> layer_types = read_layer_types(r);
  if (layer_types.empty()) {
    for (std::int64_t layer = 1; layer <= r.model.num_hidden_layers; ++layer) {
      layer_types.emplace_back(layer % every != 0 ? sliding : full);
    }
  }
  const auto refuse = [](ConfigFields& fields) {
    fields.refuse("sliding_window", "some layers slide", "correct config.json");
  };
  set_windows(r, read_window(r, default_window), std::move(layer_types), refuse);
}

void read_windows_of_qwen(const Reading& r) {
  constexpr std::int64_t default_window = 4096, default_full_layers = 28;
  std::vector<std::string> layer_types = read_layer_types(r);
  const bool is_used = r.fields.truth("use_sliding_window", false);
  const std::int64_t given = read_window(r, default_window), window = is_used ? given : 0;
  const std::int64_t num_full_layers = r.fields.integer("max_window_layers", default_full_layers);
  if (layer_types.empty() && window > 0) {
    for (std::int64_t layer = 0; layer < r.model.num_hidden_layers; ++layer) {
      layer_types.emplace_back(layer >= num_full_layers ? sliding : full);
    }
  }
  set_windows(r, window, std::move(layer_types), refuse_unused_window);
}

}  // namespace sft::hub
