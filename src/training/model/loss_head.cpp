// SPDX-License-Identifier: Apache-2.0
#include "sft/model/loss_head.hpp"

#include <algorithm>

#include "sft/model/linear/linear.hpp"
#include "sft/ops/factory.hpp"

namespace sft::model {

namespace {

float logit_cap(const Context& c) { return static_cast<float>(c.config.final_logit_softcapping); }

}  // namespace

void head_logits(const Context& c, const Linear& head, Tensor logits, const Tensor& normed) {
  c.ops.run(ops::Matmul{.a = normed, .b = c.units.parameter(head.weight), .c = logits, .transpose_b = true});
  if (c.config.logits_scaling != 1.0) c.ops.run(ops::Scale{logits, static_cast<float>(1.0 / c.config.logits_scaling)});
  if (c.config.final_logit_softcapping > 0.0) c.ops.run(ops::SoftCap{logits, logit_cap(c)});
}

LossHead::LossHead(const Sizes& sizes, device::Kind kind, const Objective& objective)
    : sizes_(sizes),
      chunk_tokens_(ops::loss_chunk_tokens(kind, {.tokens = sizes.tokens, .vocab = sizes.max_vocab})),
      objective_(objective) {}

void LossHead::lay_out(device::Arena& arena, device::Arena& tp_sums) {
  logits_ = take(arena, DType::float32, {chunk_tokens_, sizes_.vocab});
  dlogits_ = sizes_.compute == DType::float32 ? logits_ : take(arena, sizes_.compute, {chunk_tokens_, sizes_.vocab});
  objective_.lay_out(tp_sums, chunk_tokens_);
}

template <class Work>
void LossHead::for_each_chunk(const Context& c, const Linear& head, const Tensor& normed, const Inputs& inputs,
                              const Work& work) const {
  const std::int64_t num_tokens = normed.shape[0];
  for (std::int64_t begin = 0; begin < num_tokens; begin += chunk_tokens_) {
    const std::int64_t n = std::min(chunk_tokens_, num_tokens - begin);
    const LossChunk chunk{.begin = begin, .logits = logits_.rows(0, n), .logit_cap = logit_cap(c)};
    head_logits(c, head, chunk.logits, normed.rows(begin, n));
    objective_.forward(c, chunk, inputs);
    work(chunk);
  }
}

void LossHead::forward_backward(const Context& c, const Linear& head, const Tensor& normed, const Inputs& inputs,
                                double gradient_scale, Tensor dnormed, Tensor metrics) {
  const ConstTensor weights = objective_.weights(inputs);
  for_each_chunk(c, head, normed, inputs, [&](const LossChunk& chunk) {
    const std::int64_t begin = chunk.begin, n = chunk.logits.shape[0];
    const Tensor dlogits = dlogits_.rows(0, n);
    objective_.backward(c, chunk, inputs, weights, dlogits, gradient_scale / c.config.logits_scaling, metrics);
    const auto differentiate = [&] { linear_backward_input(c, head, dnormed.rows(begin, n), dlogits); };
    const auto add_weight_gradient = [&] { linear_backward_weight(c, head, dlogits, normed.rows(begin, n)); };
    if (sizes_.shares_branches()) {  // dnormed lies over normed
      add_weight_gradient();
      differentiate();
    } else {
      differentiate();
      c.tp.start_reduce(dnormed, begin, n);  // beside the weight gradient
      add_weight_gradient();
      c.tp.finish();
    }
  });
}

void LossHead::forward(const Context& c, const Linear& head, const Tensor& normed, const Inputs& inputs,
                       Tensor metrics) {
  const ConstTensor weights = objective_.weights(inputs);
  for_each_chunk(c, head, normed, inputs, [&](const LossChunk& chunk) {
    objective_.backward(c, chunk, inputs, weights, Tensor(), 0.0, metrics);
  });
}

}  // namespace sft::model
