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

/// Counts, and hands every call on to other collectives, if there are any. What is counted is what must be sent: an
/// all-gather its part to every other rank, a reduce-scatter a part to every other rank, an all-reduce both.
class TrafficCounter final : public Collectives {
 public:
  /// Only counts, for planning: no message is sent, no memory touched, and groups may be planned ones.
  TrafficCounter() = default;
  /// Also hands on to `inner`, which outlives it.
  explicit TrafficCounter(Collectives& inner) : inner_(&inner) {}

  void all_reduce(const Group& group, Tensor inout, ReduceOp op, device::Stream& stream) override;
  void all_gather(const Group& group, Tensor full, ConstTensor local, device::Stream& stream) override;
  void reduce_scatter_add(const Group& group, Tensor local, Tensor full, device::Stream& stream) override;
  void reduce_scatter(const Group& group, Tensor inout, device::Stream& stream) override;
  void exchange(const Group& group, Tensor send, int to, Tensor receive, int from, device::Stream& stream) override;
  void exchange_all(const Group& group, const std::vector<Message>& sends, const std::vector<Message>& receives,
                    device::Stream& stream) override;
  /// Both of the inner collectives: planning allocates nothing.
  [[nodiscard]] device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) override;
  [[nodiscard]] device::Device::Block allocate_own(const Group& group, std::size_t bytes) override;
  void set_staging(const StagingMemory& staging) override;

  /// Of all calls since the last reset, by group, in the order of their first calls.
  [[nodiscard]] const std::vector<SentBytes>& sent() const { return sent_; }
  void reset() { sent_.clear(); }

 private:
  void count(const Group& group, std::int64_t bytes);

  Collectives* inner_ = nullptr;
  std::vector<SentBytes> sent_;
};

}  // namespace sft::comm
