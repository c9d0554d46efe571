// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pointers and numbers of ops::Update and ops::BlockwiseUpdate; see views/tensor.hpp.

#include <cstdint>

#include "sft/ops/calls/update.hpp"

namespace sft::ops {

/// The index of a rule among others.
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

/// Constants of all elements of an ops::Update.
struct UpdateFactors {
  StepOfAnyRule rule{};
  float gradient_scale = 1;
  // StochasticRounding; without bf16 it is not read.
  std::uint64_t key = 1;  ///< odd
  std::int64_t first_index = 0, num_columns = 0, row_stride = 0, begin = 0;
};

/// Constants of an ops::BlockwiseUpdate in addition to the UpdateFactors.
struct BlockFactors {
  const float* old_scales[max_update_states] = {};
  float* new_scales[max_update_states] = {};  ///< those of whole blocks are the old ones
  bool is_cut = false;                        ///< blocks are of the logical tensor, their new scales are given
  std::int64_t first_block = 0;
};

/// Throws std::logic_error where dtypes break the contract.
[[nodiscard]] UpdateFactors factors_of(const Update& step);
/// Throws std::logic_error where dtypes or sizes break the contract.
[[nodiscard]] BlockFactors block_factors_of(const BlockwiseUpdate& step);

}  // namespace sft::ops
