// SPDX-License-Identifier: Apache-2.0
#include "planner/attention_rates.hpp"

#include "sft/rank/machine.hpp"

namespace sft::planner {

simulator::Rates with_attention_of(simulator::Rates rates, const config::Config& config) {
  const auto take = [](std::vector<simulator::ProductRate>& rate,
                       const std::vector<simulator::ProductRate>& of_choice) {
    if (!of_choice.empty()) rate = of_choice;
  };
  const auto take_forward = [&] {
    if (!config.model.attention_sinks) take(rates.attention.forward, rates.attention_cudnn.forward);
  };
  switch (rank::attention_kernels(config.device, config.model)) {
    case ops::AttentionKernels::cudnn_unordered:
      take(rates.attention.backward, rates.attention_cudnn_unordered.backward);
      take_forward();
      break;
    case ops::AttentionKernels::cudnn:
      take(rates.attention.backward, rates.attention_cudnn.backward);
      [[fallthrough]];
    case ops::AttentionKernels::cudnn_forward:
      take_forward();
      break;
    case ops::AttentionKernels::hopper:
      take(rates.attention.forward, rates.attention_hopper.forward);
      take(rates.attention.backward, rates.attention_hopper.backward);
      break;
    default:
      break;
  }
  return rates;
}

}  // namespace sft::planner
