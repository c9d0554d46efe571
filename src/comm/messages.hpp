// SPDX-License-Identifier: Apache-2.0
#pragma once
// What Collectives::exchange_all asks of its messages, whoever sends them.

#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/core/error.hpp"

namespace sft::comm {

/// Throws std::logic_error unless each is contiguous, not empty, and to or from another rank.
inline void require_exchangeable(const Group& group, const std::vector<Message>& messages) {
  for (const Message& message : messages) {
    ensure(message.tensor.is_contiguous() && !message.tensor.empty() && message.rank != group.rank(),
           "exchange_all of contiguous tensors with other ranks");
  }
}

}  // namespace sft::comm
