// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where ranks have columns of a matrix (tp), none has much of a file without gap. The ranks of a node lay what they
// have side by side in memory that they share, and write it in regions of mebibytes: two-phase I/O (Thakur et al.
// 1999), without a message, so threads beside training can do it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sft/hub/weights.hpp"

namespace sft::hub {

/// Each rank of the node has one over the same memory, makes the calls expect() of all that it will put, then start(),
/// then put() in the same order, which is that of the files: the places of regions are used again in turn. Where a rank
/// expects bytes far before others that it expected, nothing is laid together. A rank that cannot go on calls fail(),
/// which ends the others' waits.
class SharedRegions {
 public:
  static constexpr std::uint64_t region_bytes = std::uint64_t{2} << 20;

  /// The memory that it works in.
  [[nodiscard]] static std::size_t memory_bytes(const WeightsPlan& plan);
  /// The same for files whose tensors have so many regions.
  [[nodiscard]] static std::size_t memory_bytes(std::size_t num_regions);
  /// Of a tensor.
  [[nodiscard]] static std::size_t num_regions(std::uint64_t tensor_bytes) {
    return (tensor_bytes + region_bytes - 1) / region_bytes;
  }
  /// `memory`: zeros before the first rank makes one, the same on all `num_ranks` ranks of the node; outlives it.
  SharedRegions(const WeightsPlan& plan, std::span<std::byte> memory, int num_ranks);

  /// This rank will put so many bytes of tensor number `tensor` of the plan's files, from byte `begin` of it on.
  void expect(std::size_t tensor, std::uint64_t begin, std::uint64_t size);
  /// Waits for the others. Throws what another rank gave to fail(), as put() does.
  void start();

  using Write = std::function<void(std::size_t tensor, std::uint64_t begin, std::uint64_t size, const char* bytes)>;
  /// Lays bytes into their regions. Calls `write` for every region that they complete, and, for bytes of a region that
  /// the ranks of this node do not have whole, with these.
  void put(std::size_t tensor, std::uint64_t begin, std::uint64_t size, const char* bytes, const Write& write);

  /// Ends all waits with an Error of this text.
  void fail(const std::string& message) noexcept;

 private:
  struct Shared;
  struct Slot;

  /// Calls visit(region, first byte of it in the tensor, begin, size) for the part of each region.
  template <class Visit>
  void for_each_region(std::size_t tensor, std::uint64_t begin, std::uint64_t size, const Visit& visit) const;
  [[nodiscard]] std::uint64_t size_of(std::size_t tensor, std::uint64_t region_begin) const;
  template <class Ready>
  void wait(const Ready& ready) const;

  std::size_t last_expected_ = 0;  ///< region
  std::vector<std::uint64_t> tensor_bytes_;
  std::vector<std::size_t> first_region_;  ///< of each tensor
  int num_ranks_;
  Shared* shared_;
  std::atomic<std::uint32_t>* expected_;  ///< bytes of each region
  std::byte* slots_;                      ///< memory of the regions under way
  std::vector<std::int64_t> turns_;       ///< of each region among those that are laid together; -1: it is not
};

/// Expects what a WeightsSink over the same plan and regions puts for the same calls. Writes nothing.
class RegionCounter final : public io::TensorSink {
 public:
  /// Both outlive it.
  RegionCounter(const WeightsPlan& plan, SharedRegions& regions) : plan_(plan), regions_(regions) {}
  void write(const std::string& name, const io::Rectangle& where, DType dtype, const void* values) override;

 private:
  const WeightsPlan& plan_;
  SharedRegions& regions_;
};

}  // namespace sft::hub
