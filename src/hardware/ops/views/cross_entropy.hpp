// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pointers and sizes of a chunk of ops::CrossEntropy; see views/tensor.hpp.

#include <cstdint>

#include "sft/ops/calls/cross_entropy.hpp"

namespace sft::ops {

/// `rows` rows of `columns` of the vocabulary from vocab_begin on.
struct CrossEntropyView {
  float* logits;                                        ///< (rows, columns)
  float *max, *sum_exp, *target_logit, *sum_exp_logit;  ///< (rows)
  float* sum_logit;                                     ///< (rows) with label smoothing, else none
  const std::int32_t* targets;                          ///< (rows)
  const float* weights;                                 ///< (rows)
  std::int64_t rows, columns, vocab_begin;
  bool dft;
  double smoothing, inverse_vocab;  ///< of ops::TokenLoss
  float logit_cap;
};

/// Throws std::logic_error where dtypes or the loss break the contract.
[[nodiscard]] CrossEntropyView view_of(const CrossEntropy& chunk);

}  // namespace sft::ops
