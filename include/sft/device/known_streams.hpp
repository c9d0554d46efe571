// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which streams know what an event recorded: the one that it recorded, and those that wait for it already. To make one
// of these wait again changes nothing.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sft/device/device.hpp"

namespace sft::device {

class KnownStreams {
 public:
  /// The event records what is queued on `stream` so far.
  void record(const Stream& stream) {
    numbers_.assign(1, stream.number());
    is_recorded_ = true;
  }
  /// `stream` is to wait for it. False: it knows, or nothing was recorded.
  [[nodiscard]] bool tell(const Stream& stream) {
    if (!is_recorded_ || std::ranges::find(numbers_, stream.number()) != numbers_.end()) return false;
    numbers_.push_back(stream.number());
    return true;
  }

 private:
  std::vector<std::uint64_t> numbers_;
  bool is_recorded_ = false;
};

}  // namespace sft::device
