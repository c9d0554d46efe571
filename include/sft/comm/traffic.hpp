// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank sends in collectives, counted by group.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/comm/collectives.hpp"

namespace sft::comm {

/// Bytes that a rank sends to other ranks.
struct SentBytes {
  std::string group;  ///< its name
  std::int64_t bytes;
};

/// Counts what must be sent (bytes_to_send), and hands every call on to other collectives, if there are any.
class TrafficCounter final : public Collectives {
 public:
  /// Only counts, for planning: no message is sent, no memory touched, and groups may be planned ones.
  TrafficCounter() = default;
  /// Also hands on to `inner`, which outlives it.
  explicit TrafficCounter(Collectives& inner) : inner_(&inner) {}

  void run(const Group& group, const Call& call, device::Stream& stream) override;
  /// Memory of the inner collectives; std::logic_error where it only counts: planning allocates nothing.
  [[nodiscard]] device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) override;
  [[nodiscard]] device::Device::Block allocate_own(const Group& group, std::size_t bytes) override;
  void set_staging(const StagingMemory& staging) override;

  /// What all calls since the last reset sent, by group, in the order of their first calls.
  [[nodiscard]] const std::vector<SentBytes>& sent() const { return sent_; }
  void reset() { sent_.clear(); }

 private:
  Collectives* inner_ = nullptr;
  std::vector<SentBytes> sent_;
};

}  // namespace sft::comm
