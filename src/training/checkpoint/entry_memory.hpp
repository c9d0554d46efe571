// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of entries, filled with what was read.

#include <string>
#include <vector>

#include "sft/checkpoint/loaded_weights.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/device/device.hpp"

namespace sft::checkpoint {

class EntryMemory {
 public:
  /// `seen` gets the numbers of "model". All outlive it.
  EntryMemory(device::Device& device, device::Stream& stream, LoadedWeights& seen)
      : device_(device), stream_(stream), seen_(seen) {}

  /// Zeros between the parts of an entry.
  void clear_padding(const Entry& entry);
  /// `values`, of `dtype`, are the rectangle `where` of the entry's tensor of `parameter`, read from `source`: puts
  /// them from element `begin` of the entry's memory on, in its dtype. They are host memory, for a GPU best pinned.
  /// Refuses weights that are no finite numbers. Returns when they are there.
  void put(const std::string& source, const Entry& entry, const parallel::Parameter& parameter,
           const io::Rectangle& where, std::int64_t begin, DType dtype, const void* values);

 private:
  device::Device& device_;
  device::Stream& stream_;
  LoadedWeights& seen_;
  std::vector<float> values_;
  std::vector<char> converted_;
};

}  // namespace sft::checkpoint
