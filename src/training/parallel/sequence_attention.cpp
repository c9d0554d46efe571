// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/sequence_attention.hpp"

#include <algorithm>

#include "parallel/all_gather_attention.hpp"
#include "parallel/local_attention.hpp"
#include "parallel/ring_attention.hpp"
#include "parallel/ulysses_attention.hpp"
#include "sft/core/ensure.hpp"

namespace sft::parallel {

std::int64_t num_tokens_of(const sequence::AttentionSchedules& schedules, const SequenceShape& shape) {
  SFT_ENSURE(schedules.size() == shape.num_kinds, "each kind of attention has a schedule");
  const std::int64_t num_tokens = schedules.front().num_tokens;
  SFT_ENSURE(std::ranges::all_of(schedules, [=](const auto& s) { return s.num_tokens == num_tokens; }),
             "schedules of one micro-batch are of the same tokens");
  return num_tokens;
}

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
