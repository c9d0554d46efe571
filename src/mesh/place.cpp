// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/place.hpp"

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::mesh {

HeadSplit split_heads(int num_heads, int num_kv_heads, int tp_size, int tp_rank) {
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

Layout layout_of(const config::Parallel& parallel) { return Layout(parallel.sizes()); }

Sharing sharing_of(const config::Parallel& parallel) {
  return {.is_sharded = parallel.zero_stage > 0, .reshard_size = parallel.reshard_size};
}

Place::Place(const Layout& layout, int rank, int num_heads, int num_kv_heads, const Sharing& sharing)
    : layout_(layout),
      coordinates_(layout.coordinates(rank)),
      heads_(split_heads(num_heads, num_kv_heads, layout[Axis::tp], coordinates_[Axis::tp])),
      sharing_(sharing) {
  SFT_ENSURE(rank >= 0, "a rank of the mesh");
  SFT_ENSURE(rank < layout.size(), "a rank of the mesh");
  SFT_ENSURE(fsdp_size() % reshard_size() == 0, "reshard_size divides dp_shard x sp");
}

Place Place::peer(int rank) const {
  const int tp_size = size(Axis::tp);
  return {layout_, rank, heads_.q_heads * tp_size, heads_.kv_heads * tp_size / heads_.kv_replicas, sharing_};
}

Place Place::with_copies() const {
  Place result = *this;
  result.sharing_ = {.is_sharded = false};
  return result;
}

Place::Place(const config::ValidConfig& config, int rank)
    : Place(layout_of(config->parallel), rank, checked_cast<int>(config->model.num_attention_heads),
            checked_cast<int>(config->model.num_key_value_heads), sharing_of(config->parallel)) {}

}  // namespace sft::mesh
