// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

/// Reads which layers have experts: all but those of `mlp_only_layers`, and of these every decoder_sparse_step-th.
void read_dense_layers(const Reading& r) {
  const std::int64_t step = r.fields.integer("decoder_sparse_step", 1);
  if (step == 0) r.fields.refuse("decoder_sparse_step", "it counts layers", "correct config.json");
  const std::vector<int> dense = r.fields.integers("mlp_only_layers");
  for (int layer = 0; layer < r.model.num_hidden_layers; ++layer) {
    const bool has_experts = (layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end();
    if (!has_experts) r.model.mlp_only_layers.push_back(layer);
  }
  require_expert_layers(r, "num_experts");
}

void read_qwen3_moe(const Reading& r) {
  constexpr std::int64_t default_window = 4096, default_width = 768;
  read_silu(r);
  read_attention_bias(r, false);
  r.model.qk_norm = true;
  read_one_kind_of_layer(r);
  static_cast<void>(r.fields.value("max_window_layers"));  // all layers slide, whatever it says
  const std::int64_t window = read_window(r, default_window);
  if (r.fields.truth("use_sliding_window", false)) r.model.sliding_window = window;
  read_rope(r);
  read_experts(r, 128, 8);
  r.model.moe_intermediate_size = r.fields.integer("moe_intermediate_size", default_width);
  r.model.norm_topk_prob = r.fields.truth("norm_topk_prob", false);
  read_dense_layers(r);
}

void write_qwen3_moe(const Writing& w) {
  write_attention_bias(w);
  write_windows_of_qwen(w);
  write_router(w);
  w.object["num_experts"] = w.model.num_experts;
  w.object["moe_intermediate_size"] = w.model.moe_intermediate_size;
  w.object["norm_topk_prob"] = w.model.norm_topk_prob;
  w.object["decoder_sparse_step"] = 1;
  w.object["mlp_only_layers"] = w.model.mlp_only_layers;
}

/// transformers 5 saves the number of experts under another name than version 4 reads.
void add_older_fields_of_qwen3_moe(const Writing& w) {
  add_older_rope(w);
  w.object["num_experts"] = w.model.num_experts;
}

}  // namespace

Family qwen3_moe() {
  return {
      .architecture = "Qwen3MoeForCausalLM",
      .model_type = "qwen3_moe",
      .num_key_value_heads = 4,
      .max_position_embeddings = 32768,
      .read = read_qwen3_moe,
      .choices = {{part::experts | part::qk_norm, part::qkvo_bias | part::windows | part::normed_weights |
                                                      part::dense_layers | part::later_dense_layers | part::own_width}},
      .write = write_qwen3_moe,
      .add_older_fields = add_older_fields_of_qwen3_moe};
}

}  // namespace sft::hub::families
