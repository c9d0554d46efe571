// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention to a text that is read piece by piece, whose keys and values stay in a cache. For generation.

#include <cstdint>
#include <memory>

#include "sft/parallel/sequence_attention.hpp"

namespace sft::model {

/// Rotated keys, and values, of a layer: (L, K, D) each, compute dtype; L is the most tokens of a text.
struct LayerCache {
  Tensor keys, values;
};

/// Attention of new tokens to a cached text and to each other.
class CachedAttention final : public parallel::SequenceAttention {
 public:
  /// All references outlive it.
  CachedAttention(float scale, float softcap, const sequence::AttentionWindows& windows, ops::Backend& backend);

  /// Prepares the pass that follows, over `num_new` tokens after `num_cached`.
  void begin_pass(std::int64_t num_cached, std::int64_t num_new);
  /// The cache of the layer that comes next.
  void use(const LayerCache& cache) { cache_ = cache; }
  /// One round, whose spans reach from the new tokens to all tokens of the text. begin_pass() calls it.
  void set_schedules(const sequence::AttentionSchedules& schedules) override;
  /// Puts the keys and values into the cache, then attends to all that is in it.
  void forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) override;
  /// Throws std::logic_error: a cache has no gradient.
  void backward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                const Heads& gradients) override;

 private:
  float scale_, softcap_;
  const sequence::AttentionWindows& windows_;
  ops::Backend& backend_;
  IndexedVector<sequence::AttentionKind, std::unique_ptr<ops::AttentionPlan>> plans_;
  std::int64_t num_cached_ = 0, num_new_ = 0;
  LayerCache cache_;
};

}  // namespace sft::model
