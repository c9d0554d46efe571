// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/sequence_attention.hpp"

#include "parallel/all_gather_attention.hpp"
#include "parallel/local_attention.hpp"
#include "parallel/ring_attention.hpp"
#include "parallel/ulysses_attention.hpp"

namespace sft::parallel {

std::unique_ptr<InnerBuffers> make_inner_buffers(const SequenceShape& shape, int sp_size) {
  if (sp_size == 1) return std::make_unique<LocalBuffers>(shape);
  return std::make_unique<RingBuffers>(shape, sp_size);
}

std::unique_ptr<SequenceBuffers> make_sequence_buffers(const SequenceShape& shape, int sp_size,
                                                       const sequence::AttentionMethod& method) {
  if (method.ulysses_size > 1) return std::make_unique<UlyssesBuffers>(shape, sp_size, method.ulysses_size);
  if (sp_size > 1 && method.keys == sequence::AttentionMethod::Keys::all_gather) {
    return std::make_unique<AllGatherBuffers>(shape, sp_size);
  }
  return make_inner_buffers(shape, sp_size);
}

}  // namespace sft::parallel
