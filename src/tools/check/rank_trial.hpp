// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tries what every rank does by itself: matrix products and copies. A rank that is slow at them is slow in every step.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "sft/core/dtype.hpp"
#include "sft/device/device.hpp"
#include "sft/machine/gpus.hpp"
#include "sft/ops/backend.hpp"

namespace sft::check {

/// Products of two square matrices, on memory of its own.
class ProductTrial {
 public:
  /// n x n, of `dtype`.
  ProductTrial(device::Device& device, DType dtype, std::int64_t n);

  /// Queues one product.
  void multiply();
  void wait() { stream_->synchronize(); }
  /// Floating-point operations of one product.
  [[nodiscard]] double num_flops() const;

 private:
  const std::int64_t n_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<ops::Backend> backend_;
  device::Device::Block a_, b_, c_, workspace_;
  const DType dtype_;
};

/// Copies within the memory of the device, of its own.
class CopyTrial {
 public:
  CopyTrial(device::Device& device, std::size_t bytes);

  /// Queues one copy.
  void copy();
  void wait() { stream_->synchronize(); }
  /// Read and written by one copy.
  [[nodiscard]] double num_bytes() const { return 2 * static_cast<double>(bytes_); }

 private:
  device::Device& device_;
  const std::size_t bytes_;
  std::unique_ptr<device::Stream> stream_;
  device::Device::Block from_, to_;
};

/// The clock of this rank's GPU in the middle of products that take `product_s` each; none where nobody tells.
[[nodiscard]] std::optional<machine::GpuClock> clock_under_load(ProductTrial& products, double product_s);

}  // namespace sft::check
