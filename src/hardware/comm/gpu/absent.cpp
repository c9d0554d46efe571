// SPDX-License-Identifier: Apache-2.0
#include "comm/gpu/make_collectives.hpp"
#include "sft/core/error.hpp"

namespace sft::comm {

std::unique_ptr<Collectives> make_gpu_collectives(device::Device& /*device*/,
                                                  const std::vector<TensorGroup>& /*groups*/,
                                                  const Transport& /*transport*/) {
  throw_config_error("no collectives for GPU memory", "this program has no NCCL",
                     "run sft of a build that found NCCL (-DSFT_CUDA=ON), or set backend = cpu");
}

}  // namespace sft::comm
