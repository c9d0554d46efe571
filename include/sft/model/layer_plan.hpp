// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each layer of a decoder does, where layers or families differ. The passes, the memory, the FLOPs, what is sent
// and generation all read this list, and none of them asks for the family. Pure.

#include <optional>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/sequence/attention.hpp"

namespace sft::model {

/// One layer: a block of the decoder.
struct LayerPlan {
  enum class QkNorm {
    none,
    heads,      ///< RMSNorm of every head of q and of k, one weight (D) for all heads (Qwen3)
    all_heads,  ///< RMSNorm of q, and of k, of a token: over the heads of all ranks together (OLMo 2)
  };

  sequence::AttentionKind attention = {};  ///< which of attention_windows() it attends within
  std::optional<int> rope = 0;             ///< which of ropes() turns keys; none: nothing does (SmolLM3)
  int query_rope = 0;                      ///< which turns queries where keys are turned
  QkNorm qk_norm = QkNorm::none;
  bool norms_rotated = false;    ///< with QkNorm::heads: heads are rotated, then normed (Hunyuan)
  bool rotates_in_part = false;  ///< fewer dims of a head than all: heads are normed first, then rotated
  bool has_sinks = false;        ///< a learned score for each query head that stands beside those of the keys (gpt-oss)
  int expert_layer = 0;          ///< with experts: its number among the layers that have some
  float residual_multiplier = 1.0F;  ///< of what attention and MLP add to the residual stream (Granite)
  bool norms_inputs = true;          ///< RMSNorm of what attention and MLP read (all but OLMo 2)
  bool norms_branches = false;       ///< RMSNorm of what attention and MLP add (GLM-4), in place of a multiplier

  /// Whether queries and keys are rotated where their product stands, not as they are normed.
  [[nodiscard]] bool rotates_products() const { return qk_norm == QkNorm::none || norms_rotated; }
  [[nodiscard]] bool scales_branches() const { return residual_multiplier != 1.0F; }
  /// Whether what a sublayer adds has another gradient than the residual stream.
  [[nodiscard]] bool changes_branches() const { return scales_branches() || norms_branches; }
};

/// The plans of all layers, the first that of the layer behind the embedding. Layers may differ in everything but where
/// they have norms.
[[nodiscard]] std::vector<LayerPlan> layer_plans(const config::Model& model);

/// How far back a token sees, itself included, in tokens of its document, for each kind of attention that a layer has;
/// 0: all of the document. At least one kind; no two alike.
[[nodiscard]] sequence::AttentionWindows attention_windows(const config::Model& model);

}  // namespace sft::model
