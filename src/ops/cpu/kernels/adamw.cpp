// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov & Hutter 2019) in the order of operations of torch.optim.AdamW, one pass over memory.

#include "ops/cpu/kernels/table.hpp"
#include "ops/cpu/kernels/types.hpp"
#include "ops/random_bits.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

/// Stores x exactly, or rounded at random by the lowest 16 of `bits`.
inline void store_at_random(float& destination, float x, std::uint64_t) { destination = x; }
inline void store_at_random(Bf16& destination, float x, std::uint64_t bits) {
  const std::uint32_t sum = __builtin_bit_cast(std::uint32_t, x) + (static_cast<std::uint32_t>(bits) & 0xffffu);
  destination.bits = static_cast<std::uint16_t>((x != x ? 0x7fc00000u : sum) >> 16);
}

/// Elements [begin, end), whose numbers in the logical tensor begin with `index` and follow each other.
template <class Parameter, class Moment, bool has_copy>
void update(const AdamWArguments& step, std::int64_t begin, std::int64_t end, std::int64_t index) {
  constexpr bool is_rounded = sizeof(Parameter) == sizeof(Bf16) || sizeof(Moment) == sizeof(Bf16);
  Parameter* parameters = static_cast<Parameter*>(step.parameters);
  Moment* exp_avg = static_cast<Moment*>(step.exp_avg);
  Moment* exp_avg_sq = static_cast<Moment*>(step.exp_avg_sq);
  Bf16* copy = reinterpret_cast<Bf16*>(step.copy);
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float gradient = step.gradients[i] * step.gradient_scale;
    float parameter = load(parameters[i]) * step.decay;
    const float old_first = load(exp_avg[i]);
    const float first = old_first + (gradient - old_first) * step.one_minus_beta1;
    const float second = load(exp_avg_sq[i]) * step.beta2 + gradient * gradient * step.one_minus_beta2;
    const float denominator = __builtin_sqrtf(second) * step.inverse_sqrt_bias_correction2 + step.epsilon;
    parameter -= step.step_size * (first / denominator);
    std::uint64_t bits = 0;
    if constexpr (is_rounded) bits = squares(step.key, static_cast<std::uint64_t>(index + (i - begin)));
    store_at_random(exp_avg[i], first, bits);
    store_at_random(exp_avg_sq[i], second, bits >> 16);
    store_at_random(parameters[i], parameter, bits >> 32);
    if constexpr (has_copy) store(copy[i], parameter);
  }
}

/// The parts of [begin, end) that follow each other in the logical tensor.
template <class Parameter, class Moment>
void update_rows(const AdamWArguments& step, std::int64_t begin, std::int64_t end) {
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t row = (step.begin + at) / step.num_columns, column = (step.begin + at) % step.num_columns;
    const std::int64_t count = min(end - at, step.num_columns - column);
    const std::int64_t index = step.first_index + row * step.row_stride + column;
    if (step.copy != nullptr) {
      update<Parameter, Moment, true>(step, at, at + count, index);
    } else {
      update<Parameter, Moment, false>(step, at, at + count, index);
    }
    at += count;
  }
}

void update_any(const AdamWArguments& step, std::int64_t begin, std::int64_t end) {
  if (step.has_bf16_parameters) {
    return step.has_bf16_moments ? update_rows<Bf16, Bf16>(step, begin, end)
                                 : update_rows<Bf16, float>(step, begin, end);
  }
  if (step.has_bf16_moments) return update_rows<float, Bf16>(step, begin, end);
  if (step.copy != nullptr) return update<float, float, true>(step, begin, end, 0);
  update<float, float, false>(step, begin, end, 0);
}

void adamw(const AdamWArguments& step) {
  constexpr std::int64_t chunk = 16384;
  const std::int64_t num_chunks = divide_up(step.size, chunk);
#pragma omp parallel for if (step.size >= min_parallel_elements)
  for (std::int64_t i = 0; i < num_chunks; ++i) {
    const std::int64_t begin = i * chunk, end = min(step.size, begin + chunk);
    update_any(step, begin, end);
  }
}

}  // namespace

void enter_adamw(Kernels& table) { table.adamw = adamw; }

}  // namespace sft::ops::cpu::SFT_ISA
