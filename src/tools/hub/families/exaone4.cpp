// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

/// Reads the windows. transformers 5.24 fails on a pattern of letters without layer_types.
void read_windows_of_exaone4(const Reading& r) {
  constexpr std::int64_t default_window = 4096, default_pattern = 4;
  const auto& pattern = r.fields.value("sliding_window_pattern");
  const bool has_list = !r.fields.texts("layer_types").empty();
  const std::int64_t window = read_window(r, default_window);
  if (window == 0) return read_one_kind_of_layer(r);
  if (!has_list && !pattern.is_null() && !pattern.is_number_integer()) {
    r.fields.refuse("sliding_window_pattern", "letters do not say which layers slide without layer_types",
                    "add layer_types to config.json");
  }
  const auto every = pattern.is_number_integer() ? pattern.get<std::int64_t>() : default_pattern;
  if (!has_list && every <= 0) r.fields.refuse("sliding_window_pattern", "it counts layers", "correct config.json");
  read_alternating_windows(r, every, default_window);
  // Layers that see the whole document are not rotated where others slide.
  for (std::int64_t layer = 0; layer < r.model.num_hidden_layers; ++layer) {
    r.model.no_rope_layers.push_back(r.model.window_of(static_cast<std::size_t>(layer)) > 0 ? 1 : 0);
  }
}

void read_exaone4(const Reading& r) {
  read_silu(r);
  r.model.block_norms = config::BlockNorms::olmo2;
  r.model.qk_norm = true;
  read_windows_of_exaone4(r);
  read_rope(r);
}

void write_exaone4(const Writing& w) {
  w.object["sliding_window"] = nullptr;
  w.object["sliding_window_pattern"] = nullptr;
  w.object["layer_types"] = std::vector<std::string>(w.model.num_hidden_layers, "full_attention");
}

}  // namespace

Family exaone4() {
  return {.architecture = "Exaone4ForCausalLM",
          .model_type = "exaone4",
          .num_key_value_heads = 32,
          .rms_norm_eps = 1e-5,
          .read = read_exaone4,
          .choices = {{part::norms_of_olmo2 | part::qk_norm, 0}},
          .write = write_exaone4};
}

}  // namespace sft::hub::families
