// SPDX-License-Identifier: Apache-2.0
#pragma once
// One GPU of this node.

#include <string>

#include "pinned_memory.hpp"
#include "sft/device/device.hpp"
#include "sft/device/factory.hpp"

namespace sft::device {

class CudaDevice final : public Device {
 public:
  /// What is pinned at a time: a second's work of a driver, less than any of them refuses.
  static constexpr std::size_t pinned_block_bytes = std::size_t{4} << 30;

  /// Takes GPU number `gpu` of those that this process sees, for the calling thread; `num_sharing` ranks share it.
  /// `block_bytes`, a multiple of a page: for tests.
  CudaDevice(int gpu, int num_sharing, std::size_t block_bytes = pinned_block_bytes);

  [[nodiscard]] Kind kind() const override { return Kind::cuda; }
  [[nodiscard]] std::string description() const override { return description_; }

  [[nodiscard]] Block allocate(std::size_t bytes, Space space) override;

  [[nodiscard]] std::optional<OwnMemory> own_memory() const override;
  [[nodiscard]] std::size_t peak_bytes() override;

  [[nodiscard]] std::unique_ptr<Stream> make_stream(Priority priority) override;
  [[nodiscard]] std::unique_ptr<Event> make_event() override;

  void copy(void* destination, const void* source, std::size_t bytes, Stream& stream) override;
  void fill_zero(void* destination, std::size_t bytes, Stream& stream) override;

 private:
  std::size_t num_sharing_;
  std::size_t peak_bytes_ = 0;
  PinnedMemory pinned_;
  std::string description_;  ///< "NVIDIA H100 80GB HBM3, 79.11 GiB"
};

/// own_gpu() of a build with CUDA.
[[nodiscard]] OwnGpu own_cuda_gpu();

}  // namespace sft::device
