// SPDX-License-Identifier: Apache-2.0
// A step of an optimizer that treats elements alone, one pass over memory.

#include "ops/views/update.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/types.hpp"
#include "ops/random_bits.hpp"
#include "sft/ops/calls/update.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

struct Step : UpdateFactors {
  void* parameters = nullptr;           ///< float32 or bf16
  void* state[max_update_states] = {};  ///< those of the rule; all float32 or all bf16
  const float* gradients = nullptr;
  Bf16* copy = nullptr;  ///< of float32 parameters; may be null
  bool has_bf16_parameters = false, has_bf16_state = false;
  std::int64_t size = 0;
};

/// Elements [begin, end), whose numbers in the logical tensor begin with `index` and follow each other.
template <class Rule, class Parameter, class State, bool has_copy>
void update(const Step& step, const Rule& rule, std::int64_t begin, std::int64_t end, std::int64_t index) {
  constexpr bool has_bf16_state = Rule::num_states > 0 && sizeof(State) == sizeof(Bf16);
  constexpr bool is_rounded = sizeof(Parameter) == sizeof(Bf16) || has_bf16_state;
  Parameter* parameters = static_cast<Parameter*>(step.parameters);
  State* first = static_cast<State*>(step.state[0]);
  State* second = static_cast<State*>(step.state[1]);
  Bf16* copy = step.copy;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    float parameter = load(parameters[i]);
    float state[max_update_states] = {};
    if constexpr (Rule::num_states > 0) state[0] = load(first[i]);
    if constexpr (Rule::num_states > 1) state[1] = load(second[i]);
    rule.update(parameter, step.gradients[i] * step.gradient_scale, state, [](float x) { return __builtin_sqrtf(x); });
    std::uint64_t bits = 0;
    if constexpr (is_rounded) bits = squares(step.key, static_cast<std::uint64_t>(index + (i - begin)));
    if constexpr (Rule::num_states > 0) store_at_random(first[i], state[0], bits);
    if constexpr (Rule::num_states > 1) store_at_random(second[i], state[1], bits >> 16);
    store_at_random(parameters[i], parameter, bits >> 32);
    if constexpr (has_copy) store(copy[i], parameter);
  }
}

/// The parts of [begin, end) that follow each other in the logical tensor.
template <class Parameter, class State, class Rule>
void update_rows(const Step& step, const Rule& rule, std::int64_t begin, std::int64_t end) {
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t row = (step.begin + at) / step.num_columns, column = (step.begin + at) % step.num_columns;
    const std::int64_t count = min(end - at, step.num_columns - column);
    const std::int64_t index = step.first_index + row * step.row_stride + column;
    if (step.copy != nullptr) {
      update<Rule, Parameter, State, true>(step, rule, at, at + count, index);
    } else {
      update<Rule, Parameter, State, false>(step, rule, at, at + count, index);
    }
    at += count;
  }
}

template <class Rule>
void update_any(const Step& step, const Rule& rule, std::int64_t begin, std::int64_t end) {
  if (step.has_bf16_parameters) {
    return step.has_bf16_state ? update_rows<Bf16, Bf16>(step, rule, begin, end)
                               : update_rows<Bf16, float>(step, rule, begin, end);
  }
  if (step.has_bf16_state) return update_rows<float, Bf16>(step, rule, begin, end);
  if (step.copy != nullptr) return update<Rule, float, float, true>(step, rule, begin, end, 0);
  update<Rule, float, float, false>(step, rule, begin, end, 0);
}

}  // namespace

template <>
void run(const Update& op, Scratch) {
  Step step{factors_of(op)};
  step.parameters = flat_view_of(op.parameters).data;
  step.has_bf16_parameters = op.parameters.dtype == DType::bf16;
  for (int i = 0; i < max_update_states; ++i) {
    if (op.state[i].empty()) continue;
    step.state[i] = flat_view_of(op.state[i]).data;
    step.has_bf16_state = op.state[i].dtype == DType::bf16;
  }
  step.gradients = floats_of(op.gradients);
  step.copy = op.copy.as<Bf16>();
  step.size = op.gradients.num_elements();
  constexpr std::int64_t chunk = 16384;
  const std::int64_t num_chunks = divide_up(step.size, chunk);
#pragma omp parallel for if (step.size >= min_parallel_elements)
  for (std::int64_t i = 0; i < num_chunks; ++i) {
    const std::int64_t begin = i * chunk, end = min(step.size, begin + chunk);
    step.rule.visit([&](const auto& rule) { update_any(step, rule, begin, end); });
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
