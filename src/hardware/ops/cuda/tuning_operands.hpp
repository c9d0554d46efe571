// SPDX-License-Identifier: Apache-2.0
#pragma once
// Operands for products that are only timed.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>

#include "sft/device/device.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cuda {

/// Memory for the operands of one product at a time, as aligned as those of the run.
class TuningOperands {
 public:
  TuningOperands(device::Device& device, std::size_t most_bytes, cudaStream_t stream)
      : device_(device), most_bytes_(most_bytes), stream_(stream) {}

  /// `product` with operands that are there and have normal numbers; nothing where there is no room for them.
  [[nodiscard]] std::optional<Matmul> place(const Matmul& product);
  /// The same, of normal numbers that are rounded.
  [[nodiscard]] std::optional<Fp8Matmul> place(const Fp8Matmul& product);

 private:
  /// Begins anew with so many bytes; false: there is no room.
  [[nodiscard]] bool begin(std::size_t bytes);
  /// The next `bytes` of the block, as far from a line of memory as `data` is.
  [[nodiscard]] std::byte* next(const void* data, std::size_t bytes);
  /// `x` there, with normal numbers.
  [[nodiscard]] Tensor fill(const ConstTensor& x);
  /// `x` there, with the codes of normal numbers that lie in `source`, for so many elements, meanwhile.
  [[nodiscard]] ConstFp8Matrix fill(const ConstFp8Matrix& x, std::byte* source);

  device::Device& device_;
  std::size_t most_bytes_, num_bytes_ = 0, used_bytes_ = 0;
  cudaStream_t stream_;
  device::Device::Block block_;
};

}  // namespace sft::ops::cuda
