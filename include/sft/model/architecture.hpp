// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a Llama / Qwen2 / Qwen3 decoder is made of: its units and parameters under their Hugging Face names, and handles
// that say which of them an op uses. Pure.

#include <vector>

#include "sft/config/config.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::model {

/// A linear layer y = x weight^T [+ bias].
struct Linear {
  parallel::ParameterGroup weight;  ///< several matrices may be fused: their rows one after the other
  parallel::ParameterGroup bias;    ///< exists() or not

  [[nodiscard]] int unit() const { return weight.unit; }
};

/// The parameters of one block; its unit holds them all.
struct BlockParameters {
  int unit = 0;
  Linear qkv, o;
  Linear gate_up, down;
  parallel::ParameterGroup q_norm, k_norm;  ///< with qk_norm alone
  parallel::ParameterGroup input_norm, post_attention_norm;
};

struct DecoderParameters {
  parallel::ParameterGroup embedding;  ///< (V, C)
  std::vector<BlockParameters> blocks;
  parallel::ParameterGroup final_norm;
  Linear head;  ///< of the embedding's unit when tied

  [[nodiscard]] int embedding_unit() const { return embedding.unit; }
  [[nodiscard]] int head_unit() const { return final_norm.unit; }
};

/// Units: embedding, blocks, head, in this order.
struct Architecture {
  std::vector<parallel::Unit> units;  ///< names, logical shapes, splits and initialization
  DecoderParameters parameters;
};
[[nodiscard]] Architecture make_architecture(const config::Model& model);

}  // namespace sft::model
