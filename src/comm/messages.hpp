// SPDX-License-Identifier: Apache-2.0
#pragma once
// The messages of Collectives::exchange_all, whoever sends them.

#include <cstddef>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/core/ensure.hpp"

namespace sft::comm {

/// Throws std::logic_error unless each is contiguous, not empty, and to or from another rank.
inline void require_exchangeable(const Group& group, const std::vector<Message>& messages) {
  for (const Message& message : messages) {
    SFT_ENSURE(message.tensor.is_contiguous() && !message.tensor.empty() && message.rank != group.rank(),
               "exchange_all of contiguous tensors with other ranks");
  }
}

inline std::size_t bytes_of(const std::vector<Message>& messages) {
  std::size_t bytes = 0;
  for (const Message& message : messages) bytes += message.tensor.size_bytes();
  return bytes;
}

}  // namespace sft::comm
