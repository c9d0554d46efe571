#include "sft/parallel/sequence_attention.hpp"

#include "parallel/local_attention.hpp"
#include "parallel/ring_attention.hpp"

namespace sft::parallel {

std::unique_ptr<SequenceAttention> make_sequence_attention(const SequenceAttention::Shape& shape, const comm::Group& sp,
                                                           device::Device& device, ops::Backend& backend,
                                                           comm::Collectives& collectives,
                                                           device::Stream& ring_stream) {
  if (sp.size() == 1) return std::make_unique<LocalAttention>(shape, backend);
  return std::make_unique<RingAttention>(shape, sp, device, backend, collectives, ring_stream);
}

}  // namespace sft::parallel
