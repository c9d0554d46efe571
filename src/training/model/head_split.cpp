// SPDX-License-Identifier: Apache-2.0
#include "sft/model/head_split.hpp"

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::model {

HeadSplit split_heads(const config::Model& model, int tp_size, TpRank tp_rank) {
  const int num_heads = checked_cast<int>(model.num_attention_heads);
  const int num_kv_heads = checked_cast<int>(model.num_key_value_heads);
  SFT_ENSURE(num_heads % tp_size == 0, "tp_size divides the query heads");
  const int q_heads = num_heads / tp_size;
  if (num_kv_heads >= tp_size) {
    SFT_ENSURE(num_kv_heads % tp_size == 0, "tp_size divides the key/value heads");
    const int kv_heads = num_kv_heads / tp_size;
    return {q_heads, kv_heads, tp_rank * kv_heads, 1};
  }
  SFT_ENSURE(tp_size % num_kv_heads == 0, "the key/value heads divide tp_size");
  const int replicas = tp_size / num_kv_heads;
  return {q_heads, 1, tp_rank / replicas, replicas};
}

}  // namespace sft::model
