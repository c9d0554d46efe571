// SPDX-License-Identifier: Apache-2.0
#pragma once
// The model families of transformers that the decoder computes.

#include <array>
#include <cstdint>

namespace sft::hub {

enum class Family { llama, mistral, qwen2, qwen3, smollm3, granite };

/// What transformers (4.57 and 5) takes where config.json does not say.
struct FamilyDefaults {
  Family family;
  const char* architecture;
  const char* model_type;
  std::int64_t num_key_value_heads;  ///< 0: as many as query heads
  std::int64_t head_dim;             ///< 0: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings;
  double rope_theta = 10000.0;
  bool tie_word_embeddings = false;
};

inline constexpr std::array<FamilyDefaults, 6> families{{
    {Family::llama, "LlamaForCausalLM", "llama", 0, 0, 2048},
    {Family::mistral, "MistralForCausalLM", "mistral", 8, 0, 131072},
    {Family::qwen2, "Qwen2ForCausalLM", "qwen2", 32, 0, 32768},
    {Family::qwen3, "Qwen3ForCausalLM", "qwen3", 32, 128, 32768},
    {Family::smollm3, "SmolLM3ForCausalLM", "smollm3", 4, 0, 32768, 2000000.0, true},
    {Family::granite, "GraniteForCausalLM", "granite", 0, 0, 2048},
}};

}  // namespace sft::hub
