// SPDX-License-Identifier: Apache-2.0
#pragma once
// The attention of a block: products, norms and rotation of queries and keys, attention, and the product after it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sft/model/context.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

class UnitBuilder;
struct AttentionTensors;
struct HeadGroup;

/// Heads of a rank, or some of them: H query heads and K key/value heads of D dims.
struct HeadSizes {
  std::int64_t q_heads, kv_heads, head_dim;

  [[nodiscard]] std::int64_t q_columns() const { return q_heads * head_dim; }
  [[nodiscard]] std::int64_t kv_columns() const { return kv_heads * head_dim; }
  [[nodiscard]] std::int64_t qkv_columns() const { return q_columns() + 2 * kv_columns(); }
  /// One of so many groups of them.
  [[nodiscard]] HeadSizes of_group(std::int64_t num_groups) const {
    return {q_heads / num_groups, kv_heads / num_groups, head_dim};
  }
};

/// The parameters of attention without its linear layers.
struct AttentionParameters {
  LayerPlan plan;
  parallel::ParameterGroup q_norm = {}, k_norm = {};  ///< as LayerPlan::QkNorm says
  parallel::ParameterGroup sinks = {};                ///< (H), where the plan has them
};

/// Passes are collective over sp, too. scratch.ropes and the attention's schedules are set.
class Attention final : public Sublayer {
 public:
  /// `path`: of its module, "model.layers.0.self_attn".
  Attention(UnitBuilder& unit, const config::Model& model, const LayerPlan& plan, const std::string& path);

  [[nodiscard]] std::vector<SublayerTensor> tensors(const Sizes& sizes, const ActivationPolicy& policy) const override;
  void fit_shapes(const Sizes& sizes, ops::Shapes& shapes) const override;
  void fit_fp8(const Sizes& sizes, const ActivationPolicy& policy, Fp8Buffers& buffers) const override;
  void forward(const Context& context, SublayerTensors& own, BlockScratch& scratch) const override;
  void recompute(const Context& context, const ActivationPolicy& policy, SublayerTensors& own, BlockScratch& scratch,
                 const std::function<void()>& read_normed, bool gives_delta) const override;
  void backward(const Context& context, SublayerTensors& own, BlockScratch& scratch,
                const std::function<void()>& start_normed) const override;
  /// The rotated keys, and the values, of all tokens.
  [[nodiscard]] std::vector<SublayerTensor> text_state(const Sizes& sizes, std::int64_t max_tokens) const override;
  void generate(const Context& context, SublayerTensors& own, BlockScratch& scratch,
                const TextSoFar& text) const override;
  [[nodiscard]] std::optional<sequence::AttentionKind> attention_kind() const override { return p_.plan.attention; }
  [[nodiscard]] double core_flops(const TokenCounts& tokens) const override;

  [[nodiscard]] const Linear& qkv() const { return linears_[0]; }
  [[nodiscard]] const Linear& o() const { return linears_[1]; }
  [[nodiscard]] const AttentionParameters& parameters() const { return p_; }
  /// On each of so many ranks of tp.
  [[nodiscard]] HeadSizes heads(int tp_size) const;

 private:
  /// `out` and `lse`, of scratch.normed.
  void attend_to_all(const Context& context, const AttentionTensors& own, BlockScratch& scratch) const;
  void attend(const Context& context, const HeadGroup& group, const AttentionTensors& own) const;
  /// The gradients of the group's queries, keys and values in `dqkv`, of `dattention`.
  void differentiate_group(const Context& context, const HeadGroup& group, const AttentionTensors& own,
                           BlockScratch& scratch, parallel::SequenceAttention::Heads gradients,
                           const std::function<void()>& behind) const;
  /// Calls differentiate_group() for several groups, one after the other. Queries, keys and values of each are computed
  /// again from scratch.normed.
  void differentiate_groups(const Context& context, const AttentionTensors& own, BlockScratch& scratch,
                            GradientCodes& codes_of_o) const;

  AttentionParameters p_;
  std::int64_t head_dim_;
};

}  // namespace sft::model
