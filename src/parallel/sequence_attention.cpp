// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/sequence_attention.hpp"

#include "parallel/local_attention.hpp"
#include "parallel/ring_attention.hpp"

namespace sft::parallel {

std::unique_ptr<SequenceBuffers> make_sequence_buffers(const SequenceShape& shape, int sp_size) {
  if (sp_size == 1) return std::make_unique<LocalBuffers>(shape);
  return std::make_unique<RingBuffers>(shape);
}

}  // namespace sft::parallel
