// SPDX-License-Identifier: Apache-2.0
#pragma once
// The communication of tensor parallelism (Shoeybi et al. 2019): one sum behind every row-parallel product.

#include <memory>

#include "sft/comm/collectives.hpp"
#include "sft/device/device.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// Collective over the tp group. Nothing happens with one rank.
class TensorParallel {
 public:
  /// `compute_stream`: that of the compute backend; `tp_stream` carries sums that run beside it. All outlive it.
  TensorParallel(const comm::Group& tp, device::Device& device, comm::Collectives& collectives,
                 device::Stream& compute_stream, device::Stream& tp_stream);

  [[nodiscard]] int size() const { return group_.size(); }
  [[nodiscard]] int rank() const { return group_.rank(); }

  /// x = sum, or maximum, over the group; float32 or float64. Queued on the compute stream.
  void sum(Tensor x);
  void max(Tensor x);

  /// The same sum beside the ops that follow: x is read and written until finish_sum. One at a time.
  void start_sum(Tensor x);
  /// Makes later ops of the compute stream wait for it.
  void finish_sum();

 private:
  comm::Group group_;
  comm::Collectives& collectives_;
  device::Stream& compute_stream_;
  device::Stream& tp_stream_;
  std::unique_ptr<device::Event> compute_done_, sum_done_;
};

}  // namespace sft::parallel
