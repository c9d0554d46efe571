// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/traffic.hpp"

#include <algorithm>

#include "sft/core/ensure.hpp"

namespace sft::comm {

void TrafficCounter::run(const Group& group, const Call& call, device::Stream& stream) {
  const std::int64_t bytes = bytes_to_send(call, group);
  if (group.size() > 1 && bytes > 0) {
    const auto found = std::ranges::find(sent_, group.name(), &SentBytes::group);
    if (found == sent_.end()) {
      sent_.push_back({group.name(), bytes});
    } else {
      found->bytes += bytes;
    }
  }
  if (inner_ != nullptr) inner_->run(group, call, stream);
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
