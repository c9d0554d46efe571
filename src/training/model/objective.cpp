// SPDX-License-Identifier: Apache-2.0
#include "sft/model/objective.hpp"

namespace sft::model {

Objective::Objective(const config::Config& config)
    : loss_{.dft = config.train.loss_type == config::LossType::dft,
            .label_smoothing = config.train.label_smoothing_factor,
            .vocab = config.model.vocab_size} {}

void Objective::lay_out(device::Arena& tp_sums, std::int64_t chunk_tokens) {
  max_ = take(tp_sums, DType::float32, {chunk_tokens});
  partials_ = take(tp_sums, DType::float32, {loss_.num_partials() * chunk_tokens});
}

ops::CrossEntropy Objective::cross_entropy(const Context& c, const LossChunk& chunk, const Inputs& inputs,
                                           const ConstTensor& weights) const {
  const std::int64_t n = chunk.logits.shape[0], num_partials = loss_.num_partials();
  return {.logits = chunk.logits,
          .max = max_.rows(0, n),
          .partials = partials_.rows(0, num_partials * n).view({num_partials, n}),
          .targets = inputs.targets.rows(chunk.begin, n),
          .loss_weights = weights.rows(chunk.begin, n),
          .vocab_begin = c.sizes.vocab_begin,
          .loss = loss_,
          .logit_cap = chunk.logit_cap};
}

void Objective::forward(const Context& c, const LossChunk& chunk, const Inputs& inputs) const {
  const ops::CrossEntropy tokens = cross_entropy(c, chunk, inputs, inputs.loss_weights);
  c.ops.run(ops::CrossEntropyMax{tokens});
  c.tp.max(tokens.max);
  c.ops.run(ops::CrossEntropyPartials{tokens});
  c.tp.sum(tokens.partials);
}

void Objective::backward(const Context& c, const LossChunk& chunk, const Inputs& inputs, const ConstTensor& weights,
                         Tensor dlogits, double gradient_scale, Tensor metrics) const {
  c.ops.run(ops::CrossEntropyFinish{cross_entropy(c, chunk, inputs, weights), dlogits, gradient_scale, metrics});
}

}  // namespace sft::model
