// SPDX-License-Identifier: Apache-2.0
#pragma once
// One GPU of this node.

#include <string>

#include "sft/device/device.hpp"

namespace sft::device {

class CudaDevice final : public Device {
 public:
  /// Takes the GPU number `local_rank` for the calling thread. Throws a configuration error when the node has no GPU,
  /// or fewer than ranks.
  CudaDevice(int local_rank, int num_local_ranks);

  [[nodiscard]] Kind kind() const override { return Kind::cuda; }
  [[nodiscard]] std::string description() const override { return description_; }

  [[nodiscard]] Block allocate(std::size_t bytes, Space space) override;

  [[nodiscard]] std::unique_ptr<Stream> make_stream(Priority priority) override;
  [[nodiscard]] std::unique_ptr<Event> make_event() override;

  void copy(void* destination, const void* source, std::size_t bytes, Stream& stream) override;
  void fill_zero(void* destination, std::size_t bytes, Stream& stream) override;

 private:
  std::string description_;  ///< "NVIDIA H100 80GB HBM3, 79.11 GiB"
};

}  // namespace sft::device
