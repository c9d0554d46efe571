// SPDX-License-Identifier: Apache-2.0
#pragma once
// The split of attention heads over tp. Pure.

#include "sft/config/config.hpp"
#include "sft/core/axis.hpp"

namespace sft::model {

/// The heads of one rank. With fewer key/value heads than ranks, tp_size / num_key_value_heads neighbouring ranks hold
/// the same one.
struct HeadSplit {
  int q_heads = 1;      ///< local query heads
  int kv_heads = 1;     ///< local key/value heads
  int kv_begin = 0;     ///< global index of the first local key/value head
  int kv_replicas = 1;  ///< ranks that hold each key/value head
};
/// The heads of rank `tp_rank`. Throws std::logic_error unless tp_size divides num_attention_heads, and of
/// num_key_value_heads and tp_size one divides the other.
[[nodiscard]] HeadSplit split_heads(const config::Model& model, int tp_size, TpRank tp_rank);

/// The number of ranks that hold each key/value head.
[[nodiscard]] inline int kv_replicas(const config::Model& model, int tp_size) {
  return split_heads(model, tp_size, 0).kv_replicas;
}

}  // namespace sft::model
