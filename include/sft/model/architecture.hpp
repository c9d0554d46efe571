#pragma once
// What a Llama / Qwen2 / Qwen3 decoder is made of: its units and parameters under their Hugging Face names. Pure.

#include <vector>

#include "sft/config/config.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::model {

/// Places of a block's parameters in its unit. Matrices that are multiplied as one are neighbours: q, k, v; gate, up.
struct BlockIndex {
  int q_weight, o_weight, gate_weight, down_weight;
  int q_bias;          ///< -1 without attention_bias
  int q_norm, k_norm;  ///< -1 without qk_norm
  int input_norm, post_attention_norm;
};
[[nodiscard]] BlockIndex block_index(const config::Model& model);

/// The head unit holds the final norm and, unless tied, the head's matrix.
inline constexpr int final_norm_index = 0;
inline constexpr int head_weight_index = 1;

/// Embedding, blocks, head: names, logical shapes, splits and initialization, in the order above.
[[nodiscard]] std::vector<parallel::Unit> make_units(const config::Model& model);

}  // namespace sft::model
