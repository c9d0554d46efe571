// SPDX-License-Identifier: Apache-2.0
#include "run_context.hpp"

namespace sft::apps {

std::unique_ptr<comm::Collectives> RunContext::make_collectives() const {
  return comm::make_collectives(device,
                                groups.of_tensors({.max_ctas = config->device.max_ctas(),
                                                   .exchanges_matrices = config->optimizer.needs_whole_matrices(),
                                                   .rounds_gradients = config->parallel.reduce_dtype == DType::bf16,
                                                   .rounds_tp_sums = config->parallel.tp_reduce == DType::bf16}),
                                transport);
}

}  // namespace sft::apps
