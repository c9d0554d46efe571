// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/traffic.hpp"

#include <algorithm>

#include "sft/core/ensure.hpp"

namespace sft::comm {

namespace {

std::int64_t num_bytes(const ConstTensor& tensor) { return static_cast<std::int64_t>(tensor.size_bytes()); }

}  // namespace

void TrafficCounter::count(const Group& group, std::int64_t bytes) {
  if (group.size() == 1 || bytes == 0) return;
  const auto found = std::ranges::find(sent_, group.name(), &SentBytes::group);
  if (found == sent_.end()) {
    sent_.push_back({group.name(), bytes});
  } else {
    found->bytes += bytes;
  }
}

void TrafficCounter::all_reduce(const Group& group, Tensor inout, ReduceOp op, device::Stream& stream) {
  count(group, 2 * num_bytes(inout) * (group.size() - 1) / group.size());
  if (inner_ != nullptr) inner_->all_reduce(group, inout, op, stream);
}

void TrafficCounter::all_gather(const Group& group, Tensor full, ConstTensor local, device::Stream& stream) {
  count(group, num_bytes(local) * (group.size() - 1));
  if (inner_ != nullptr) inner_->all_gather(group, full, local, stream);
}

void TrafficCounter::reduce_scatter_add(const Group& group, Tensor local, Tensor full, device::Stream& stream) {
  count(group, num_bytes(local) * (group.size() - 1));
  if (inner_ != nullptr) inner_->reduce_scatter_add(group, local, full, stream);
}

void TrafficCounter::reduce_scatter(const Group& group, Tensor inout, device::Stream& stream) {
  count(group, num_bytes(inout) * (group.size() - 1) / group.size());
  if (inner_ != nullptr) inner_->reduce_scatter(group, inout, stream);
}

void TrafficCounter::exchange(const Group& group, Tensor send, int to, Tensor receive, int from,
                              device::Stream& stream) {
  count(group, to == group.rank() ? 0 : num_bytes(send));
  if (inner_ != nullptr) inner_->exchange(group, send, to, receive, from, stream);
}

void TrafficCounter::exchange_all(const Group& group, const std::vector<Message>& sends,
                                  const std::vector<Message>& receives, device::Stream& stream) {
  for (const Message& message : sends) count(group, num_bytes(message.tensor));
  if (inner_ != nullptr) inner_->exchange_all(group, sends, receives, stream);
}

device::Device::Block TrafficCounter::allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) {
  SFT_ENSURE(inner_ != nullptr, "what only counts has no memory");
  return inner_->allocate_shared(group, use, bytes);
}

device::Device::Block TrafficCounter::allocate_own(const Group& group, std::size_t bytes) {
  SFT_ENSURE(inner_ != nullptr, "what only counts has no memory");
  return inner_->allocate_own(group, bytes);
}

void TrafficCounter::set_staging(const StagingMemory& staging) {
  if (inner_ != nullptr) inner_->set_staging(staging);
}

}  // namespace sft::comm
