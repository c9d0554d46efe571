// SPDX-License-Identifier: Apache-2.0
#pragma once
// The models that benchmarks know by name. Sizes of the published ones: the `config.json` of Qwen/Qwen2.5-0.5B,
// Qwen/Qwen3-8B and meta-llama/Llama-3.1-8B. Weights are random.

#include <array>
#include <cstdint>
#include <string>

#include "sft/config/config.hpp"
#include "sft/core/error.hpp"

namespace sft::bench {

/// "small" is a Llama of 40 million parameters, "tiny" one to try a benchmark with.
inline constexpr const char* model_names = "small, qwen2.5-0.5b, qwen3-8b, llama-3.1-8b or tiny";

/// The sizes of `name`; a configuration Error where none is called so.
[[nodiscard]] inline config::Model model_by_name(const std::string& name) {
  struct Entry {
    const char* name;
    std::int64_t hidden, layers, heads, kv_heads, head_dim, mlp, vocab;
    double rope_theta;
    bool is_tied, has_bias, has_qk_norm;
  };
  static constexpr std::array entries{
      Entry{"small", 512, 8, 8, 4, 64, 1408, 32000, 1e4, true, false, false},
      Entry{"qwen2.5-0.5b", 896, 24, 14, 2, 64, 4864, 151936, 1e6, true, true, false},
      Entry{"qwen3-8b", 4096, 36, 32, 8, 128, 12288, 151936, 1e6, false, false, true},
      Entry{"llama-3.1-8b", 4096, 32, 32, 8, 128, 14336, 128256, 5e5, false, false, false},
      Entry{"tiny", 64, 2, 4, 2, 16, 96, 272, 1e4, true, false, true},
  };
  for (const Entry& entry : entries) {
    if (name != entry.name) continue;
    config::Model model;
    model.hidden_size = entry.hidden;
    model.num_hidden_layers = entry.layers;
    model.num_attention_heads = entry.heads;
    model.num_key_value_heads = entry.kv_heads;
    model.head_dim = entry.head_dim;
    model.intermediate_size = entry.mlp;
    model.vocab_size = entry.vocab;
    model.rope_theta = entry.rope_theta;
    model.tie_word_embeddings = entry.is_tied;
    model.attention_bias = entry.has_bias;
    model.qk_norm = entry.has_qk_norm;
    return model;
  }
  throw_config_error("there is no model " + name, "the benchmarks know a few by name",
                     std::string("use ") + model_names);
}

}  // namespace sft::bench
