// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/shared_regions.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::hub {

namespace {

constexpr std::int64_t num_slots = 8;

std::uint64_t bytes_of(const FileTensor& tensor, WeightType type) {
  std::uint64_t bytes = size_bytes_of(type);
  for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

constexpr std::size_t alignment = 4096;

}  // namespace

/// A place for one region after the other: that of turn t is in slot t % num_slots.
struct SharedRegions::Slot {
  std::atomic<std::int64_t> num_written;  ///< regions that were here
  std::atomic<std::uint64_t> num_bytes;   ///< of the present one
};

struct SharedRegions::Shared {
  std::atomic<int> num_ready;  ///< ranks that expect no more
  std::atomic<int> is_unordered;
  std::atomic<int> has_failed, has_message;
  std::array<char, 1000> message;
  std::array<Slot, num_slots> slots;
};

std::size_t SharedRegions::memory_bytes(const WeightsPlan& plan) {
  std::size_t count = 0;
  const std::vector<FileTensor>& files = plan.map().files();
  for (std::size_t i = 0; i < files.size(); ++i) count += num_regions(bytes_of(files[i], plan.type_of(i)));
  return memory_bytes(count);
}

std::size_t SharedRegions::memory_bytes(std::size_t num_regions) {
  return round_up(sizeof(Shared), alignment) + round_up(num_regions * sizeof(std::atomic<std::uint32_t>), alignment) +
         num_slots * region_bytes;
}

SharedRegions::SharedRegions(const WeightsPlan& plan, std::span<std::byte> memory, int num_ranks)
    : num_ranks_(num_ranks) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);
  SFT_ENSURE(memory.size() >= memory_bytes(plan), "shared regions have their memory");
  std::size_t count = 0;
  const std::vector<FileTensor>& files = plan.map().files();
  for (std::size_t i = 0; i < files.size(); ++i) {
    first_region_.push_back(count);
    tensor_bytes_.push_back(bytes_of(files[i], plan.type_of(i)));
    count += num_regions(tensor_bytes_.back());
  }
  // Zeros are what these hold at first: all ranks take the memory as it is.
  shared_ = reinterpret_cast<Shared*>(memory.data());
  std::byte* const expected = memory.data() + round_up(sizeof(Shared), alignment);
  expected_ = reinterpret_cast<std::atomic<std::uint32_t>*>(expected);
  slots_ = expected + round_up(count * sizeof(std::atomic<std::uint32_t>), alignment);
  turns_.assign(count, -1);
}

template <class Visit>
void SharedRegions::for_each_region(std::size_t tensor, std::uint64_t begin, std::uint64_t size,
                                    const Visit& visit) const {
  for (const std::uint64_t end = begin + size; begin < end;) {
    const std::uint64_t number = begin / region_bytes, first = number * region_bytes;
    const std::uint64_t part = std::min(end, first + region_bytes) - begin;
    visit(first_region_[tensor] + number, first, begin, part);
    begin += part;
  }
}

std::uint64_t SharedRegions::size_of(std::size_t tensor, std::uint64_t region_begin) const {
  return std::min(region_bytes, tensor_bytes_[tensor] - region_begin);
}

template <class Ready>
void SharedRegions::wait(const Ready& ready) const {
  constexpr int num_spins = 1000;
  for (int i = 0; !ready(); ++i) {
    if (shared_->has_failed.load(std::memory_order_acquire) != 0) {
      while (shared_->has_message.load(std::memory_order_acquire) == 0) std::this_thread::yield();
      throw Error(ExitStatus::data, shared_->message.data());
    }
    if (i < num_spins) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

void SharedRegions::expect(std::size_t tensor, std::uint64_t begin, std::uint64_t size) {
  for_each_region(tensor, begin, size, [&](std::size_t region, std::uint64_t, std::uint64_t, std::uint64_t part) {
    expected_[region].fetch_add(checked_cast<std::uint32_t>(part), std::memory_order_relaxed);
    if (region + num_slots / 2 < last_expected_) shared_->is_unordered.store(1, std::memory_order_relaxed);
    last_expected_ = std::max(last_expected_, region);
  });
}

void SharedRegions::start() {
  shared_->num_ready.fetch_add(1, std::memory_order_acq_rel);
  wait([&] { return shared_->num_ready.load(std::memory_order_acquire) == num_ranks_; });
  if (shared_->is_unordered.load(std::memory_order_relaxed) != 0) return;
  std::int64_t turn = 0;
  for (std::size_t tensor = 0; tensor < tensor_bytes_.size(); ++tensor) {
    for_each_region(tensor, 0, tensor_bytes_[tensor],
                    [&](std::size_t region, std::uint64_t, std::uint64_t, std::uint64_t whole) {
                      const bool is_whole = expected_[region].load(std::memory_order_relaxed) == whole;
                      if (is_whole) turns_[region] = turn++;
                    });
  }
}

void SharedRegions::put(std::size_t tensor, std::uint64_t begin, std::uint64_t size, const char* bytes,
                        const Write& write) {
  const auto put_part = [&](std::size_t region, std::uint64_t first, std::uint64_t at, std::uint64_t part) {
    const char* const from = bytes + (at - begin);
    const std::int64_t turn = turns_[region];
    if (turn < 0) return write(tensor, at, part, from);
    Slot& slot = shared_->slots[turn % num_slots];
    wait([&] { return slot.num_written.load(std::memory_order_acquire) == turn / num_slots; });
    std::byte* const memory = slots_ + (turn % num_slots) * region_bytes;
    std::memcpy(memory + (at - first), from, part);
    const std::uint64_t whole = size_of(tensor, first);
    if (slot.num_bytes.fetch_add(part, std::memory_order_acq_rel) + part < whole) return;
    write(tensor, first, whole, reinterpret_cast<const char*>(memory));
    slot.num_bytes.store(0, std::memory_order_relaxed);
    slot.num_written.fetch_add(1, std::memory_order_release);
  };
  for_each_region(tensor, begin, size, put_part);
}

void RegionCounter::write(const std::string& name, const io::Rectangle& where, DType, const void*) {
  const MappedTensor& tensor = plan_.map().tensor(name);
  if (where.num_columns == tensor.width()) return;
  const std::uint64_t element_bytes = size_bytes_of(plan_.type());
  for (const Run& run : plan_.map().runs(name, where)) {
    regions_.expect(run.tensor, run.first * element_bytes, run.count * element_bytes);
  }
}

void SharedRegions::fail(const std::string& message) noexcept {
  if (shared_->has_failed.exchange(1, std::memory_order_acq_rel) != 0) return;
  const std::size_t size = std::min(message.size(), shared_->message.size() - 1);
  std::memcpy(shared_->message.data(), message.data(), size);
  shared_->has_message.store(1, std::memory_order_release);
}

}  // namespace sft::hub
