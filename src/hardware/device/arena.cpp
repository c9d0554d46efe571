// SPDX-License-Identifier: Apache-2.0
#include "sft/device/arena.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::device {

Arena::Arena(Device& device, Ledger& ledger, Label label, std::size_t capacity_bytes, Space space)
    : Arena(device.allocate(capacity_bytes, space), ledger, label, capacity_bytes, space) {}

Arena::Arena(Device::Block block, Ledger& ledger, Label label, std::size_t capacity_bytes, Space space)
    : block_(std::move(block)), ledger_(&ledger), label_(label), space_(space), capacity_bytes_(capacity_bytes) {
  ledger.add(label, space, capacity_bytes);
}

Arena::~Arena() {
  if (ledger_ != nullptr) ledger_->remove(label_, space_, capacity_bytes_);
}

Arena::Arena(Arena&& other) noexcept
    : block_(std::move(other.block_)),
      ledger_(std::exchange(other.ledger_, nullptr)),
      label_(other.label_),
      space_(other.space_),
      capacity_bytes_(std::exchange(other.capacity_bytes_, 0)),
      used_bytes_(std::exchange(other.used_bytes_, 0)),
      peak_bytes_(std::exchange(other.peak_bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  Arena moved(std::move(other));
  std::swap(block_, moved.block_);
  std::swap(ledger_, moved.ledger_);
  std::swap(label_, moved.label_);
  std::swap(space_, moved.space_);
  std::swap(capacity_bytes_, moved.capacity_bytes_);
  std::swap(used_bytes_, moved.used_bytes_);
  std::swap(peak_bytes_, moved.peak_bytes_);
  return *this;
}

void* Arena::take(std::size_t bytes) {
  const std::size_t begin = used_bytes_;
  const std::size_t end = begin + round_up(bytes, alignment_bytes);
  if (!is_sizing()) SFT_ENSURE(end <= capacity_bytes_, "an arena holds what was planned for it");
  used_bytes_ = end;
  peak_bytes_ = std::max(peak_bytes_, end);
  // A sizing arena counts from one alignment, so that its addresses are aligned and never null.
  if (is_sizing()) return reinterpret_cast<void*>(alignment_bytes + begin);
  return static_cast<std::byte*>(block_.get()) + begin;
}

}  // namespace sft::device
