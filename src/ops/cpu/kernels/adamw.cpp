// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov & Hutter 2019) in the order of operations of torch.optim.AdamW, one pass over memory.

#include "ops/cpu/kernels/table.hpp"
#include "ops/cpu/kernels/types.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

template <bool has_copy>
void update(const AdamWArguments& step, std::int64_t begin, std::int64_t end) {
  Bf16* copy = reinterpret_cast<Bf16*>(step.copy);
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float gradient = step.gradients[i] * step.gradient_scale;
    float parameter = step.parameters[i] * step.decay;
    const float first = step.exp_avg[i] + (gradient - step.exp_avg[i]) * step.one_minus_beta1;
    const float second = step.exp_avg_sq[i] * step.beta2 + gradient * gradient * step.one_minus_beta2;
    const float denominator = __builtin_sqrtf(second) * step.inverse_sqrt_bias_correction2 + step.epsilon;
    parameter -= step.step_size * (first / denominator);
    step.exp_avg[i] = first;
    step.exp_avg_sq[i] = second;
    step.parameters[i] = parameter;
    if constexpr (has_copy) store(copy[i], parameter);
  }
}

void adamw(const AdamWArguments& step) {
  constexpr std::int64_t chunk = 16384;
  const std::int64_t num_chunks = divide_up(step.size, chunk);
#pragma omp parallel for if (step.size >= min_parallel_elements)
  for (std::int64_t i = 0; i < num_chunks; ++i) {
    const std::int64_t begin = i * chunk, end = min(step.size, begin + chunk);
    if (step.copy != nullptr) {
      update<true>(step, begin, end);
    } else {
      update<false>(step, begin, end);
    }
  }
}

}  // namespace

void enter_adamw(Kernels& table) { table.adamw = adamw; }

}  // namespace sft::ops::cpu::SFT_ISA
