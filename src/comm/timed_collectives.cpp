// SPDX-License-Identifier: Apache-2.0
#include "timed_collectives.hpp"

#include "comm/agreement.hpp"
#include "comm/messages.hpp"

namespace sft::comm {

template <class Call>
void TimedCollectives::run(const Group& group, const char* name, std::size_t bytes, device::Stream& stream,
                           const Call& call) {
  refuse_inside_agree(group, name);
  if (!timeline_.is_on() || group.size() == 1) return call();
  const device::RangeLabel label{.category = "collective", .what = name, .of = group.name(), .bytes = bytes};
  device::timed(timeline_, stream, label, call);
}

void TimedCollectives::all_reduce(const Group& group, Tensor inout, ReduceOp op, device::Stream& stream) {
  run(group, "all_reduce", inout.size_bytes(), stream, [&] { inner_->all_reduce(group, inout, op, stream); });
}

void TimedCollectives::all_gather(const Group& group, Tensor full, ConstTensor local, device::Stream& stream) {
  run(group, "all_gather", full.size_bytes(), stream, [&] { inner_->all_gather(group, full, local, stream); });
}

void TimedCollectives::reduce_scatter_add(const Group& group, Tensor local, Tensor full, device::Stream& stream) {
  run(group, "reduce_scatter_add", full.size_bytes(), stream,
      [&] { inner_->reduce_scatter_add(group, local, full, stream); });
}

void TimedCollectives::reduce_scatter(const Group& group, Tensor inout, device::Stream& stream) {
  run(group, "reduce_scatter", inout.size_bytes(), stream, [&] { inner_->reduce_scatter(group, inout, stream); });
}

void TimedCollectives::exchange(const Group& group, Tensor send, int to, Tensor receive, int from,
                                device::Stream& stream) {
  run(group, "exchange", send.size_bytes() + receive.size_bytes(), stream,
      [&] { inner_->exchange(group, send, to, receive, from, stream); });
}

void TimedCollectives::exchange_all(const Group& group, const std::vector<Message>& sends,
                                    const std::vector<Message>& receives, device::Stream& stream) {
  const std::size_t bytes = timeline_.is_on() ? bytes_of(sends) + bytes_of(receives) : 0;
  run(group, "exchange_all", bytes, stream, [&] { inner_->exchange_all(group, sends, receives, stream); });
}

device::Device::Block TimedCollectives::allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) {
  refuse_inside_agree(group, "allocate_shared");
  return inner_->allocate_shared(group, use, bytes);
}

device::Device::Block TimedCollectives::allocate_own(const Group& group, std::size_t bytes) {
  return inner_->allocate_own(group, bytes);
}

void TimedCollectives::set_staging(const StagingMemory& staging) { inner_->set_staging(staging); }

}  // namespace sft::comm
