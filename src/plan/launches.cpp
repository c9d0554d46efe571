// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/launches.hpp"

#include <algorithm>

namespace sft::plan {

namespace {

// Of a block, forward and backward: launches of a Llama's, 9 and 23; what each takes a host, and for how long a GPU
// idles between two. What a large GPU of 2022 does in products of some hundred tokens, and reads. All of it estimates,
// those of share/machines.ini: a run is right either way.
constexpr double launches_of_block = 32, host_launch_s = 4e-6, gap_s = 2e-6;
constexpr double flops_per_s = 1e14, bytes_per_s = 3e12;

/// Weights of a block on this rank that each token goes through.
double weights_of_token(const model::Sizes& s) {
  const double attention = static_cast<double>(s.hidden * s.head_dim * (2 * s.q_heads + 2 * s.kv_heads));
  const double experts = static_cast<double>(s.expert_choices * s.expert_mlp);
  return attention + 3.0 * static_cast<double>(s.hidden) * (static_cast<double>(s.widest_mlp()) + experts);
}

}  // namespace

bool repeats_launches(const config::Config& config, const model::Sizes& sizes, device::Kind kind) {
  if (kind != device::Kind::cuda) return false;
  if (config.device.cuda_graphs) return *config.device.cuda_graphs;
  // Products for the result, the gradient of the input and that of the weight: two operations a weight and token each,
  // and the weight read or, in float32, written.
  const double weights = weights_of_token(sizes);
  const double products_s = 6.0 * weights * static_cast<double>(sizes.tokens) / flops_per_s;
  const double memory_s = (2.0 * static_cast<double>(size_of(sizes.compute)) + 4.0) * weights / bytes_per_s;
  return std::max(products_s, memory_s) + launches_of_block * gap_s < launches_of_block * host_launch_s;
}

}  // namespace sft::plan
