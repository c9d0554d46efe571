// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/launches.hpp"

#include <algorithm>
#include <cstddef>

#include "sft/model/sublayer.hpp"

namespace sft::rank {

namespace {

// Of a block, forward and backward: launches of a Llama's, 9 and 23, and what each of its adapters adds, as the tape
// counts them; what each takes a host, and for how long a GPU idles between two. What a large GPU of 2022 does in
// products of some hundred tokens, and reads. All of it estimates, those of share/machines.ini: a run is right either
// way.
constexpr double launches_of_llama = 32, launches_of_adapter = 11, launches_of_dropout = 3, launches_of_magnitude = 18;
constexpr double host_launch_s = 4e-6, gap_s = 2e-6;
constexpr double flops_per_s = 1e14, bytes_per_s = 3e12;

/// Weights of the largest block, of all ranks of tp, that each token goes through.
double weights_of_token(const model::DecoderParameters& parameters) {
  double most = 0.0;
  for (const model::BlockParameters& block : parameters.blocks) {
    double weights = 0.0;
    for (const model::BlockSublayer& sublayer : block.sublayers) weights += sublayer.layer->matmul_weights();
    most = std::max(most, weights);
  }
  return most;
}

double launches_of_block(const config::Lora& lora, const model::DecoderParameters& parameters) {
  std::size_t num_adapters = 0;
  for (const model::BlockParameters& block : parameters.blocks) {
    std::size_t num_of_block = 0;
    for (const model::BlockSublayer& sublayer : block.sublayers) {
      for (const model::Linear& layer : sublayer.layer->linear_layers()) num_of_block += layer.adapters.size();
    }
    num_adapters = std::max(num_adapters, num_of_block);
  }
  const double of_adapter = launches_of_adapter + (lora.lora_dropout > 0.0 ? launches_of_dropout : 0.0) +
                            (lora.use_dora ? launches_of_magnitude : 0.0);
  return launches_of_llama + static_cast<double>(num_adapters) * of_adapter;
}

}  // namespace

bool repeats_launches(const config::Config& config, const model::DecoderParameters& parameters,
                      const model::Sizes& sizes, device::Kind kind) {
  if (kind != device::Kind::cuda) return false;
  if (config.device.cuda_graphs) return *config.device.cuda_graphs;
  // Products for the result, the gradient of the input and, of weights that are trained, that of the weight: two
  // operations a weight and token each, and the weight read or, in float32, written.
  const bool is_trained = !config.lora.use_peft;
  const double weights = weights_of_token(parameters) / sizes.tp_size;
  const double launches = launches_of_block(config.lora, parameters);
  const double products_s = (is_trained ? 6.0 : 4.0) * weights * static_cast<double>(sizes.tokens) / flops_per_s;
  const double bytes_of_weight = 2.0 * static_cast<double>(size_of(sizes.compute)) + (is_trained ? 4.0 : 0.0);
  return std::max(products_s, bytes_of_weight * weights / bytes_per_s) + launches * gap_s < launches * host_launch_s;
}

}  // namespace sft::rank
