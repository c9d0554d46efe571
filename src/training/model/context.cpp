// SPDX-License-Identifier: Apache-2.0
#include "sft/model/context.hpp"

#include "sft/core/dtype.hpp"

namespace sft::model {

void scale_embedding(const Context& context, const Tensor& x) {
  auto multiplier = static_cast<float>(context.config.embedding_multiplier);
  if (context.config.rounds_embedding_multiplier && context.sizes.compute == DType::bf16) {
    multiplier = float32_of_bf16(bf16_of_float32(multiplier));
  }
  if (multiplier != 1.0F) context.ops.run(ops::Scale{x, multiplier});
}

}  // namespace sft::model
