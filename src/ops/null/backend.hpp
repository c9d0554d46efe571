// SPDX-License-Identifier: Apache-2.0
#pragma once
// A backend that computes nothing: for planning, over the addresses of sizing arenas.

#include "sft/ops/backend.hpp"

namespace sft::ops::null {

class NullBackend : public Backend {
 public:
  explicit NullBackend(device::Stream& stream) : stream_(stream) {}

  [[nodiscard]] device::Stream& stream() override { return stream_; }
  void set_workspace(Tensor /*workspace*/) override {}

  void fill(Tensor /*x*/, float /*value*/) override {}
  void copy(Tensor /*destination*/, ConstTensor /*source*/) override {}
  void add(Tensor /*destination*/, ConstTensor /*source*/) override {}
  void scale(Tensor /*x*/, float /*factor*/) override {}
  void sum_squares(Tensor /*result*/, ConstTensor /*x*/) override {}
  void divide_by_norm(Tensor /*x*/, ConstTensor /*squares*/, float /*epsilon*/) override {}
  void fill_normal(Tensor /*x*/, std::uint64_t /*seed*/, std::int64_t /*first_index*/, float /*stddev*/) override {}
  void fill_uniform(Tensor /*x*/, std::uint64_t /*seed*/, std::int64_t /*first_index*/, float /*bound*/) override {}
  void add_uniform(Tensor /*x*/, std::uint64_t /*seed*/, std::int64_t /*first_index*/, float /*bound*/) override {}
  void dropout(const Dropout& /*dropout*/) override {}

  void embedding_forward(Tensor /*out*/, ConstTensor /*tokens*/, ConstTensor /*table*/,
                         std::int64_t /*vocab_begin*/) override {}
  void embedding_backward(Tensor /*dtable*/, ConstTensor /*tokens*/, ConstTensor /*dout*/,
                          std::int64_t /*vocab_begin*/) override {}

  void rms_norm_forward(Tensor /*y*/, Tensor /*rstd*/, ConstTensor /*x*/, const NormWeight& /*weight*/,
                        float /*epsilon*/) override {}
  void add_rms_norm_forward(const AddRmsNormForward& /*norm*/) override {}
  void rms_norm_apply(const RmsNormApply& /*norm*/) override {}
  void rms_norm_backward(const RmsNormBackward& /*norm*/) override {}
  void split_norm_squares(Tensor /*squares*/, ConstTensor /*x*/) override {}
  void split_norm_forward(const SplitNormForward& /*norm*/) override {}
  void split_norm_dots(const SplitNormDots& /*norm*/) override {}
  void split_norm_backward(const SplitNormBackward& /*norm*/) override {}

  void rope_table(Tensor /*cosine*/, Tensor /*sine*/, ConstTensor /*positions*/, ConstTensor /*inverse_frequencies*/,
                  const RopeScale& /*scale*/) override {}
  void rope_forward(Tensor /*out*/, ConstTensor /*in*/, const RopeTable& /*table*/) override {}
  void rope_backward(Tensor /*din*/, ConstTensor /*dout*/, const RopeTable& /*table*/) override {}
  void norm_rope_forward(const NormRopeForward& /*heads*/) override {}
  void norm_rope_backward(const NormRopeBackward& /*heads*/) override {}

  void matmul(const Matmul& /*product*/) override {}
  void bias_backward(Tensor /*dbias*/, ConstTensor /*dy*/) override {}

  void scale_columns(const ScaleColumns& /*columns*/) override {}
  void add_column_products(const ColumnProducts& /*products*/) override {}
  void add_row_products(const RowProducts& /*products*/) override {}
  void magnitude_factors(const MagnitudeFactors& /*factors*/) override {}
  void read_four_bits(const ReadFourBits& /*read*/) override {}
  void find_fp8_scale(const RoundToFp8& /*round*/) override {}
  void round_to_fp8(const RoundToFp8& /*round*/) override {}
  void raise_fp8_scales(const Fp8Run& /*run*/) override {}
  void round_fp8_run(const Fp8Run& /*run*/) override {}
  void arrange_fp8(const ArrangeFp8& /*arrange*/) override {}
  void fp8_matmul(const Fp8Matmul& /*product*/) override {}

  [[nodiscard]] std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& /*spans*/,
                                                              std::int64_t /*num_queries*/,
                                                              std::int64_t /*num_keys*/) override {
    return std::make_unique<AttentionPlan>();
  }
  void attention_forward(const AttentionForward& /*attention*/) override {}
  void attention_delta(Tensor /*delta*/, ConstTensor /*out*/, ConstTensor /*dout*/) override {}
  void attention_backward(const AttentionBackward& /*attention*/) override {}
  void attention_sinks_backward(const AttentionSinksBackward& /*attention*/) override {}

  void swiglu_forward(Tensor /*act*/, ConstTensor /*gate_up*/) override {}
  void swiglu_backward(Tensor /*dgate_up*/, Tensor /*act*/, ConstTensor /*dact*/, ConstTensor /*gate_up*/) override {}

  void router_forward(const RouterForward& /*router*/) override {}
  void router_backward(const RouterBackward& /*router*/) override {}
  void router_sums(const RouterSums& /*sums*/) override {}
  void router_sums_backward(const RouterSumsBackward& /*sums*/) override {}
  void expert_order(const ExpertOrder& /*order*/) override {}
  void gather_tokens(const GatherTokens& /*gather*/) override {}
  void combine_rows(const CombineRows& /*combine*/) override {}
  void combine_weights_backward(const CombineWeightsBackward& /*combine*/) override {}
  void grouped_matmul(const GroupedMatmul& /*grouped*/) override {}
  void grouped_weight_gradient(const GroupedWeightGradient& /*grouped*/) override {}
  void grouped_bias_gradient(const GroupedBiasGradient& /*grouped*/) override {}
  void gated_forward(const GatedForward& /*gated*/) override {}
  void gated_backward(const GatedBackward& /*gated*/) override {}

  void soft_cap(Tensor /*x*/, float /*cap*/) override {}
  void cross_entropy_max(const CrossEntropy& /*chunk*/) override {}
  void cross_entropy_partials(const CrossEntropy& /*chunk*/) override {}
  void cross_entropy_finish(const CrossEntropy& /*chunk*/, Tensor /*dlogits*/, double /*gradient_scale*/,
                            Tensor /*metrics*/) override {}

  void update(const Update& /*step*/) override {}
  void update_blockwise(const BlockwiseUpdate& /*step*/) override {}
  void raise_scales(const BlockwiseUpdate& /*step*/) override {}
  void sum_squares_by_dim(const SquareSums& /*sums*/) override {}
  void update_factors(const MomentFactors& /*step*/) override {}
  void add_direction_squares(const FactoredUpdate& /*step*/) override {}
  void update_factored(const FactoredUpdate& /*step*/) override {}

 private:
  device::Stream& stream_;
};

}  // namespace sft::ops::null
