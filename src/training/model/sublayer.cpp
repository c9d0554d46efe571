// SPDX-License-Identifier: Apache-2.0
#include "sft/model/sublayer.hpp"

#include "sft/model/context.hpp"
#include "sft/model/linear/fp8_buffers.hpp"

namespace sft::model {

std::int64_t Sublayer::pass_tokens(const Sizes& sizes, const ActivationPolicy& /*policy*/) const {
  return sizes.tokens;
}

void Sublayer::fit_fp8(const Sizes& sizes, const ActivationPolicy& policy, Fp8Buffers& buffers) const {
  for (const Linear& layer : linears_) {
    buffers.fit_layer(pass_tokens(sizes, policy), layer.columns_out(sizes.tp_size), layer.columns_in(sizes.tp_size),
                      &layer == &linears_.front() ? LayerOfTwo::first : LayerOfTwo::second);
  }
}

void Sublayer::recompute(const Context& context, const ActivationPolicy& /*policy*/, SublayerTensors& own,
                         BlockScratch& scratch, const std::function<void()>& read_normed, bool gives_delta) const {
  if (!gives_delta) return;
  read_normed();
  forward(context, own, scratch);
}

std::vector<SublayerTensor> Sublayer::text_state(const Sizes& /*sizes*/, std::int64_t /*max_tokens*/) const {
  return {};
}

void Sublayer::generate(const Context& context, SublayerTensors& own, BlockScratch& scratch,
                        const TextSoFar& /*text*/) const {
  forward(context, own, scratch);
}

double Sublayer::matmul_weights() const {
  double sum = 0.0;
  for (const Linear& layer : linears_) {
    for (const LinearMember& member : layer.members) {
      sum += static_cast<double>(member.shape.rows * member.shape.columns);
    }
  }
  return sum;
}

double Sublayer::core_flops(const TokenCounts& /*tokens*/) const { return 0.0; }

}  // namespace sft::model
