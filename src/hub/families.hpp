// SPDX-License-Identifier: Apache-2.0
#pragma once
// The model families of transformers that the decoder computes.

#include <array>
#include <cstdint>

namespace sft::hub {

enum class Family {
  llama,
  mistral,
  qwen2,
  qwen3,
  smollm3,
  granite,
  phi3,
  ministral3,
  glm4,
  qwen3_moe,
  mixtral,
  olmo2,
  olmo3,
  gemma2,
  gemma3,
  gpt_oss,
  glm4_moe
};

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
  double rms_norm_eps = 1e-6;
  double partial_rotary_factor = 1.0;
  std::int64_t num_attention_heads = 0, vocab_size = 0;  ///< 0: there is none, config.json says it
  std::int64_t pad_token_id = -1;                        ///< -1: there is none
};

inline constexpr std::array<FamilyDefaults, 17> families{{
    {Family::llama, "LlamaForCausalLM", "llama", 0, 0, 2048},
    {Family::mistral, "MistralForCausalLM", "mistral", 8, 0, 131072},
    {Family::qwen2, "Qwen2ForCausalLM", "qwen2", 32, 0, 32768},
    {Family::qwen3, "Qwen3ForCausalLM", "qwen3", 32, 128, 32768},
    {Family::smollm3, "SmolLM3ForCausalLM", "smollm3", 4, 0, 32768, 2000000.0, true, 1e-6, 1.0, 0, 0, 128004},
    {Family::granite, "GraniteForCausalLM", "granite", 0, 0, 2048},
    {Family::phi3, "Phi3ForCausalLM", "phi3", 0, 0, 4096, 10000.0, false, 1e-5, 1.0, 0, 0, 32000},
    {Family::ministral3, "Ministral3ForCausalLM", "ministral3", 8, 128, 262144, 10000.0, false, 1e-5, 1.0, 0, 0, 11},
    {Family::glm4, "Glm4ForCausalLM", "glm4", 2, 128, 131072, 10000.0, false, 1.5625e-7, 0.5, 0, 0, 151329},
    {Family::qwen3_moe, "Qwen3MoeForCausalLM", "qwen3_moe", 4, 0, 32768},
    {Family::mixtral, "MixtralForCausalLM", "mixtral", 8, 0, 131072, 1000000.0, false, 1e-5},
    {Family::olmo2, "Olmo2ForCausalLM", "olmo2", 0, 0, 2048, 10000.0, false, 1e-5, 1.0, 0, 0, 1},
    {Family::olmo3, "Olmo3ForCausalLM", "olmo3", 0, 0, 2048, 500000.0, false, 1e-5, 1.0, 0, 0, 1},
    {Family::gemma2, "Gemma2ForCausalLM", "gemma2", 4, 256, 8192, 10000.0, true, 1e-6, 1.0, 8, 256000, 0},
    {Family::gemma3, "Gemma3ForCausalLM", "gemma3_text", 4, 256, 131072, 1000000.0, true, 1e-6, 1.0, 8, 262208, 0},
    {Family::gpt_oss, "GptOssForCausalLM", "gpt_oss", 8, 64, 131072, 150000.0, false, 1e-5},
    {Family::glm4_moe, "Glm4MoeForCausalLM", "glm4_moe", 8, 0, 131072, 10000.0, false, 1e-5, 0.5},
}};

}  // namespace sft::hub
