// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernels of all backends are given. Memory is that of the backend. Plain C++17 without headers that have
// inline functions: for every compiler and instruction set (ops/cpu/kernels.hpp).

#include <cstdint>

#include "sft/core/four_bit_codes.hpp"
#include "sft/ops/update_rules.hpp"

namespace sft::ops {

/// A matrix of float32 or bf16: `rows` rows of `columns` neighbours, `stride` elements apart. data may be null.
template <class Memory>
struct BasicView {
  Memory* data = nullptr;
  bool is_bf16 = false;
  std::int64_t rows = 0, columns = 0, stride = 0;
};
using View = BasicView<void>;
using ConstView = BasicView<const void>;  ///< is only read

/// A chunk of ops::CrossEntropy: `rows` rows of `columns` of the vocabulary from vocab_begin on.
struct CrossEntropyArguments {
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

/// What ops::ReadFourBits reads.
struct FourBitArguments {
  const std::uint8_t* records;
  std::int64_t record_bytes;
  const float* values;  ///< of the 16 codes; in memory of the host
  const float* nested;  ///< none: each block has its scale
  std::int64_t first_block, row_blocks;
};

/// ops::RopeScale.
struct RopeScaleArguments {
  float factor, beta;
  std::int64_t length;
};

/// The number of a rule among others.
template <class Rule, class First, class... Others>
struct NumberOf {
  static constexpr int value = 1 + NumberOf<Rule, Others...>::value;
};
template <class Rule, class... Others>
struct NumberOf<Rule, Rule, Others...> {
  static constexpr int value = 0;
};

/// The Step of one of the rules: a variant for every compiler.
template <class... Rules>
struct StepOf : Rules::Step... {
  int number = 0;  ///< of the rule

  template <class Rule>
  static StepOf of(const Rule& rule) {
    StepOf any;
    static_cast<typename Rule::Step&>(any) = rule.step();
    any.number = NumberOf<Rule, Rules...>::value;
    return any;
  }
  /// Calls f with the Step.
  template <class F>
  void visit(const F& f) const {
    ((number == NumberOf<Rules, Rules...>::value ? f(static_cast<const typename Rules::Step&>(*this)) : void()), ...);
  }
};
using StepOfAnyRule = UpdateRuleList<StepOf>;

/// What all elements of an ops::Update share.
struct UpdateFactors {
  StepOfAnyRule rule{};
  float gradient_scale = 1;
  // StochasticRounding; without bf16 it is not read.
  std::uint64_t key = 1;  ///< odd
  std::int64_t first_index = 0, num_columns = 0, row_stride = 0, begin = 0;
};

/// Beside the UpdateFactors of an ops::BlockwiseUpdate, and what it is over: that is each backend's own.
struct BlockFactors {
  const float* old_scales[max_update_states] = {};
  float* new_scales[max_update_states] = {};  ///< those of whole blocks are the old ones
  bool is_cut = false;                        ///< blocks are of the logical tensor, their new scales are given
  std::int64_t first_block = 0;
};

}  // namespace sft::ops
