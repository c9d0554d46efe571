// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments of the kernels of sft/ops/calls/{router,expert_rows,gated}.hpp, for all backends; see kernel_arguments.hpp.
// Legend and meaning are those of the ops.

#include "ops/kernel_arguments.hpp"

namespace sft::ops {

/// RouterRule with the sizes of a call.
struct RouterArguments {
  bool is_sigmoid, normalizes;
  float scale;
  std::int64_t num_tokens, num_experts, num_choices, num_groups, chosen_groups;
  const float *logits, *correction;  ///< correction may be null
};

struct RouterSumsArguments {
  const float* logits;
  const std::int32_t* expert_counts;
  double *counts, *probabilities;
  std::int64_t num_tokens, num_experts;
};

struct RouterSumsBackwardArguments {
  float* dlogits;
  const float* logits;
  const double* counts;
  double factor;
  std::int64_t num_tokens, num_experts;
};

struct ExpertOrderArguments {
  const std::int32_t* experts;
  std::int32_t *counts, *offsets, *choices, *rows;
  std::int64_t num_choices, num_rows, num_experts, alignment;  ///< num_choices: of all tokens
};

/// Weights by choice; null: 1.
struct GatherTokensArguments {
  View out;
  ConstView in;
  const std::int32_t* choices;
  const float* weights;
  std::int64_t num_choices;  ///< of a token
};

struct CombineRowsArguments {
  View out;
  ConstView in;
  const std::int32_t* rows;
  const float* weights;
  std::int64_t num_choices;  ///< of a token
  bool accumulates;
};

struct CombineWeightsArguments {
  float* dweights;
  ConstView dout, in;
  const std::int32_t* rows;
  std::int64_t num_choices;  ///< of a token
};

}  // namespace sft::ops
