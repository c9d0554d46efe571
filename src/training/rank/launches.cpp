// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/launches.hpp"

#include <algorithm>
#include <string>

#include "sft/config/linear_modules.hpp"

namespace sft::rank {

namespace {

// Of a block, forward and backward: launches of a Llama's, 9 and 23, and what each of its adapters adds, as the tape
// counts them; what each takes a host, and for how long a GPU idles between two. What a large GPU of 2022 does in
// products of some hundred tokens, and reads. All of it estimates, those of share/machines.ini: a run is right either
// way.
constexpr double launches_of_llama = 32, launches_of_adapter = 11, launches_of_dropout = 3, launches_of_magnitude = 18;
constexpr double host_launch_s = 4e-6, gap_s = 2e-6;
constexpr double flops_per_s = 1e14, bytes_per_s = 3e12;

/// Weights of a block on this rank that each token goes through.
double weights_of_token(const model::Sizes& s) {
  const double attention = static_cast<double>(s.hidden * s.head_dim * (2 * s.q_heads + 2 * s.kv_heads));
  const double experts = static_cast<double>(s.experts.choices * s.experts.columns);
  return attention + 3.0 * static_cast<double>(s.hidden) * (static_cast<double>(s.widest_mlp()) + experts);
}

double launches_of_block(const config::Lora& lora) {
  const auto num_adapters = static_cast<double>(
      std::ranges::count_if(config::linear_layer_names(), [&](const std::string& name) { return lora.adapts(name); }));
  const double of_adapter = launches_of_adapter + (lora.lora_dropout > 0.0 ? launches_of_dropout : 0.0) +
                            (lora.use_dora ? launches_of_magnitude : 0.0);
  return launches_of_llama + num_adapters * of_adapter;
}

}  // namespace

bool repeats_launches(const config::Config& config, const model::Sizes& sizes, device::Kind kind) {
  if (kind != device::Kind::cuda) return false;
  if (config.device.cuda_graphs) return *config.device.cuda_graphs;
  // Products for the result, the gradient of the input and, of weights that are trained, that of the weight: two
  // operations a weight and token each, and the weight read or, in float32, written.
  const bool is_trained = !config.lora.use_peft;
  const double weights = weights_of_token(sizes), launches = launches_of_block(config.lora);
  const double products_s = (is_trained ? 6.0 : 4.0) * weights * static_cast<double>(sizes.tokens) / flops_per_s;
  const double bytes_of_weight = 2.0 * static_cast<double>(size_of(sizes.compute)) + (is_trained ? 4.0 : 0.0);
  return std::max(products_s, bytes_of_weight * weights / bytes_per_s) + launches * gap_s < launches * host_launch_s;
}

}  // namespace sft::rank
