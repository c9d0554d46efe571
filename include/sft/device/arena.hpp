// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that is planned, not discovered: a component lays itself out twice with the same code, first over a sizing
// arena (addresses without memory, and without a device), then over a real one of exactly that size.

#include <cstddef>

#include "sft/device/device.hpp"
#include "sft/device/ledger.hpp"

namespace sft::device {

/// A bump allocator over one block. Never frees single pieces; entered in the ledger while it lives.
class Arena {
 public:
  static constexpr std::size_t alignment_bytes = 256;

  /// A sizing arena: take() returns addresses that must not be used, used_bytes() is the result.
  Arena() = default;
  /// `capacity_bytes` of the device's `space`, entered under `label`. Device and ledger outlive it.
  Arena(Device& device, Ledger& ledger, Label label, std::size_t capacity_bytes, Space space = Space::device);
  /// A real arena over a block that others made, of at least as many bytes.
  Arena(Device::Block block, Ledger& ledger, Label label, std::size_t capacity_bytes, Space space);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// The next `bytes`, aligned. Throws std::logic_error beyond the capacity of a real arena.
  void* take(std::size_t bytes);
  [[nodiscard]] std::size_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] bool is_sizing() const { return ledger_ == nullptr; }
  /// Gives back everything taken after `mark` (a former used_bytes()): scratch with stack discipline.
  void rewind(std::size_t mark) { used_bytes_ = mark; }
  [[nodiscard]] std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  Device::Block block_;
  Ledger* ledger_ = nullptr;
  Label label_ = Label::workspace;
  Space space_ = Space::device;
  std::size_t capacity_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t peak_bytes_ = 0;
};

}  // namespace sft::device
