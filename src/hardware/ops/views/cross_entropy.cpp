// SPDX-License-Identifier: Apache-2.0
#include "ops/views/cross_entropy.hpp"

#include "ops/views/tensor.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops {

CrossEntropyView view_of(const CrossEntropy& chunk) {
  const std::int64_t rows = chunk.logits.shape[0];
  float* partials = floats_of(chunk.partials);
  const TokenLoss& loss = chunk.loss;
  SFT_ENSURE(chunk.partials.shape[0] == loss.num_partials(), "ops: a row of partials for each sum of the loss");
  SFT_ENSURE(loss.label_smoothing == 0.0 || (loss.vocab > 0 && !loss.dft),
             "ops: smoothing of a vocabulary of this size");
  return {.logits = floats_of(chunk.logits),
          .max = floats_of(chunk.max),
          .sum_exp = partials,
          .target_logit = partials + rows,
          .sum_exp_logit = partials + 2 * rows,
          .sum_logit = loss.num_partials() == 4 ? partials + 3 * rows : nullptr,
          .targets = int32s_of(chunk.targets),
          .weights = floats_of(chunk.loss_weights),
          .rows = rows,
          .columns = chunk.logits.shape[1],
          .vocab_begin = chunk.vocab_begin,
          .dft = loss.dft,
          .smoothing = loss.label_smoothing,
          .inverse_vocab = loss.vocab > 0 ? 1.0 / static_cast<double>(loss.vocab) : 0.0,
          .logit_cap = chunk.logit_cap};
}

}  // namespace sft::ops
