// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the ranks of a group contribute to a reduction, as one of them has it. C++17, for kernels too.

#include <cstddef>

namespace sft::comm {

/// This rank's part lies at its own place, what the others sent in slots one after the other, in rank order.
struct Contributions {
  int rank = 0, size = 1;
  std::byte* slots = nullptr;
  std::size_t slot_bytes = 0;
  const std::byte* own = nullptr;

  /// Where rank `peer`, another one, is received.
  [[nodiscard]] constexpr std::byte* slot(int peer) const {
    return slots + (peer < rank ? peer : peer - 1) * slot_bytes;
  }
  /// The part of rank r.
  [[nodiscard]] constexpr const std::byte* part(int r) const { return r == rank ? own : slot(r); }
  [[nodiscard]] constexpr Contributions with_own(const std::byte* place) const {
    Contributions all = *this;
    all.own = place;
    return all;
  }
};

}  // namespace sft::comm
