// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/tensor_parallel.hpp"

namespace sft::parallel {

TensorParallel::TensorParallel(const comm::Group& tp, device::Device& device, comm::Collectives& collectives,
                               device::Stream& compute_stream, device::Stream& tp_stream)
    : group_(tp),
      collectives_(collectives),
      compute_stream_(compute_stream),
      tp_stream_(tp_stream),
      compute_done_(device.make_event()),
      sum_done_(device.make_event()) {}

void TensorParallel::sum(Tensor x) {
  if (size() > 1) collectives_.all_reduce(group_, x, comm::ReduceOp::sum, compute_stream_);
}

void TensorParallel::max(Tensor x) {
  if (size() > 1) collectives_.all_reduce(group_, x, comm::ReduceOp::max, compute_stream_);
}

void TensorParallel::start_sum(Tensor x) {
  if (size() == 1) return;
  compute_done_->record(compute_stream_);
  tp_stream_.wait(*compute_done_);
  collectives_.all_reduce(group_, x, comm::ReduceOp::sum, tp_stream_);
  sum_done_->record(tp_stream_);
}

void TensorParallel::finish_sum() {
  if (size() > 1) compute_stream_.wait(*sum_done_);
}

}  // namespace sft::parallel
