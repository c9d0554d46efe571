// SPDX-License-Identifier: Apache-2.0
#include "plan/attention_rates.hpp"

#include "sft/plan/machine.hpp"

namespace sft::plan {

device::Rates with_attention_of(device::Rates rates, const config::Config& config) {
  const auto take = [](std::vector<device::ProductRate>& rate, const std::vector<device::ProductRate>& of_choice) {
    if (!of_choice.empty()) rate = of_choice;
  };
  const sequence::AttentionMethod method = config.parallel.attention_method();
  // A library's backward pass is not asked for where keys go round a ring.
  const bool is_in_a_ring =
      method.keys == sequence::AttentionMethod::Keys::ring && config.parallel.sp_size > method.ulysses_size;
  switch (attention_kernels(config.device)) {
    case ops::AttentionKernels::cudnn_unordered:
      if (!is_in_a_ring) take(rates.attention.backward, rates.attention_cudnn_unordered.backward);
      take(rates.attention.forward, rates.attention_cudnn.forward);
      break;
    case ops::AttentionKernels::cudnn:
      if (!is_in_a_ring) take(rates.attention.backward, rates.attention_cudnn.backward);
      [[fallthrough]];
    case ops::AttentionKernels::cudnn_forward:
      take(rates.attention.forward, rates.attention_cudnn.forward);
      break;
    case ops::AttentionKernels::hopper:
      take(rates.attention.forward, rates.attention_hopper.forward);
      take(rates.attention.backward, rates.attention_hopper.backward);
      break;
    case ops::AttentionKernels::own:
      break;
  }
  return rates;
}

}  // namespace sft::plan
