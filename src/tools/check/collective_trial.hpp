// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tries the collectives of a machine: are they right, and how fast.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/device.hpp"
#include "sft/device/ledger.hpp"

namespace sft::check {

/// The collectives over one group after the other, on memory of its own. All calls are collective over the group.
class CollectiveTrial {
 public:
  enum class Call { all_gather, reduce_scatter_add, all_reduce, exchange };
  static constexpr std::array<const char*, 4> call_names{"all_gather", "reduce_scatter_add", "all_reduce", "exchange"};

  static constexpr std::array<Call, 4> calls{Call::all_gather, Call::reduce_scatter_add, Call::all_reduce,
                                             Call::exchange};
  /// Whether a run makes such calls over the group.
  [[nodiscard]] static bool has(const comm::TensorGroup& group, Call call);

  /// For tensors of up to `max_bytes`, a multiple of 4. `way`: how the collectives were made.
  CollectiveTrial(device::Device& device, comm::Collectives& collectives, comm::Transport::Way way,
                  std::size_t max_bytes);

  /// Makes every call of the group on numbers whose sums are exact, few of them and as many as the largest tensor has
  /// in `bytes`. What came out wrong on this rank, in words; empty: nothing.
  [[nodiscard]] std::string find_error(const comm::TensorGroup& group, std::size_t bytes);

  /// Seconds of one call whose largest tensor has `bytes`, the best of some, or of one that takes long.
  [[nodiscard]] double measure_s(const comm::Group& group, Call call, std::size_t bytes);
  /// What a rank sends in such a call at least.
  [[nodiscard]] static double sent_bytes(Call call, int group_size, std::size_t bytes);

 private:
  /// The first `count` elements of memory of the device.
  [[nodiscard]] static Tensor floats(const device::Device::Block& block, std::int64_t count);
  void upload(const Tensor& to, const std::vector<float>& values);
  [[nodiscard]] std::vector<float> download(const Tensor& from);
  void make_call(const comm::Group& group, Call call, std::int64_t num_elements);
  [[nodiscard]] std::string find_error_of(const comm::TensorGroup& group, std::int64_t num_elements);
  /// Seconds of one call, the mean of `num_calls`.
  [[nodiscard]] double time_s(const comm::Group& group, Call call, std::int64_t num_elements, int num_calls);

  device::Device& device_;
  comm::Collectives& collectives_;
  const std::size_t max_bytes_;
  device::Ledger ledger_;
  device::Arena staging_, pinned_staging_;
  device::Device::Block large_, small_, pinned_;  ///< of max_bytes each
  std::unique_ptr<device::Stream> stream_;
};

}  // namespace sft::check
