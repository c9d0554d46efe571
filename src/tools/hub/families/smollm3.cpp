// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <utility>

#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

/// Reads which layers are rotated: a list, or all but every so many-th.
void read_rotated_layers(const Reading& r) {
  constexpr std::int64_t default_interval = 4;
  const std::int64_t interval = r.fields.integer("no_rope_layer_interval", default_interval);
  std::vector<int>& layers = r.model.no_rope_layers;
  layers = r.fields.integers("no_rope_layers");
  if (!layers.empty()) {
    // The list may be longer than the model.
    if (std::cmp_less(layers.size(), r.model.num_hidden_layers)) {
      r.fields.refuse("no_rope_layers", fmt::format("there are {} layers", r.model.num_hidden_layers),
                      "correct the file, or download it again");
    }
    layers.resize(r.model.num_hidden_layers);
    for (int& item : layers) item = item != 0 ? 1 : 0;
    return;
  }
  if (interval == 0) r.fields.refuse("no_rope_layer_interval", "it counts layers", "correct config.json");
  for (std::int64_t layer = 1; layer <= r.model.num_hidden_layers; ++layer) {
    layers.push_back(layer % interval != 0 ? 1 : 0);
  }
}

/// Reads windows on the layers that are not rotated, or on those of a list.
void read_windows_of_smollm3(const Reading& r) {
  std::vector<std::string> layer_types = read_layer_types(r);
  const bool has_list = !layer_types.empty();
  const std::int64_t window = r.fields.truth("use_sliding_window", false) ? r.fields.integer("sliding_window", 0) : 0;
  for (std::size_t layer = 0; !has_list && std::cmp_less(layer, r.model.num_hidden_layers); ++layer) {
    layer_types.emplace_back(window > 0 && !r.model.rotates(layer) ? "sliding_attention" : "full_attention");
  }
  set_windows(r, window, std::move(layer_types), refuse_unused_window);
}

void read_smollm3(const Reading& r) {
  read_silu(r);
  read_biases(r);
  read_rotated_layers(r);
  read_windows_of_smollm3(r);
  read_rope(r);
}

void write_smollm3(const Writing& w) {
  write_biases(w);
  w.object["use_sliding_window"] = w.model.sliding_window > 0;
  write_windows(w);
  w.object["no_rope_layers"] = w.model.no_rope_layers;
}

}  // namespace

Family smollm3() {
  return {.architecture = "SmolLM3ForCausalLM",
          .model_type = "smollm3",
          .num_key_value_heads = 4,
          .max_position_embeddings = 32768,
          .rope_theta = 2000000.0,
          .tie_word_embeddings = true,
          .pad_token_id = 128004,
          .read = read_smollm3,
          .choices = {{part::unrotated_layers, part::qkvo_bias | part::mlp_bias | part::some_windows}},
          .write = write_smollm3};
}

}  // namespace sft::hub::families
