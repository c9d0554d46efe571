// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/tensor_parallel.hpp"

#include "sft/core/ensure.hpp"

namespace sft::parallel {

TensorParallel::TensorParallel(const comm::Group& tp, device::Device& device, comm::Collectives& collectives,
                               device::Stream& compute_stream, device::Stream& tp_stream, bool cuts_tokens, Tensor wire,
                               const comm::Group& kv_replicas)
    : group_(tp),
      kv_replicas_(kv_replicas),
      timeline_(device.timeline()),
      collectives_(collectives),
      compute_stream_(compute_stream),
      tp_stream_(tp_stream),
      cuts_tokens_(cuts_tokens),
      wire_(wire),
      compute_done_(device.make_event()),
      tp_done_(device.make_event()) {}

void TensorParallel::sum(Tensor x) {
  if (size() > 1) collectives_.all_reduce(group_, x, comm::ReduceOp::sum, compute_stream_);
}

void TensorParallel::max(Tensor x) {
  if (size() > 1) collectives_.all_reduce(group_, x, comm::ReduceOp::max, compute_stream_);
}

void TensorParallel::sum_over_kv_replicas(Tensor x) {
  if (num_kv_replicas() > 1) collectives_.all_reduce(kv_replicas_, x, comm::ReduceOp::sum, compute_stream_);
}

Tensor TensorParallel::slice(const Tensor& x) const {
  if (!cuts_tokens()) return x;
  SFT_ENSURE(x.shape[0] % size() == 0, "tokens that are cut over tp divide by its size");
  const std::int64_t num_rows = x.shape[0] / size();
  return x.rows(rank() * num_rows, num_rows);
}

void TensorParallel::reduce(Tensor x) {
  if (size() == 1) return;
  SFT_ENSURE(!is_under_way_ || wire_.empty(), "one sum travels as bf16 at a time");
  if (cuts_tokens()) {
    collectives_.reduce_scatter(group_, x, compute_stream_, wire_for(x));
  } else {
    collectives_.all_reduce(group_, x, comm::ReduceOp::sum, compute_stream_, wire_for(x));
  }
}

void TensorParallel::gather(Tensor x) {
  if (cuts_tokens()) collectives_.all_gather(group_, x, slice(x), compute_stream_);
}

template <class Work>
void TensorParallel::start(const Work& work) {
  SFT_ENSURE(!is_under_way_, "what runs beside the ops is finished before the next is started");
  compute_done_->record(compute_stream_);
  tp_stream_.wait(*compute_done_);
  work();
  tp_done_->record(tp_stream_);
  is_under_way_ = true;
}

void TensorParallel::start_reduce(Tensor x, std::int64_t begin, std::int64_t count) {
  if (size() == 1) return;
  if (!cuts_tokens()) {
    const Tensor run = x.rows(begin, count);
    start([&] { collectives_.all_reduce(group_, run, comm::ReduceOp::sum, tp_stream_, wire_for(run)); });
  } else if (begin + count == x.shape[0]) {
    start([&] { collectives_.reduce_scatter(group_, x, tp_stream_, wire_for(x)); });
  }
}

void TensorParallel::start_gather(Tensor x) {
  if (cuts_tokens()) start([&] { collectives_.all_gather(group_, x, slice(x), tp_stream_); });
}

void TensorParallel::finish() {
  if (!is_under_way_) return;
  device::timed_wait(timeline_, compute_stream_, *tp_done_, "wait for tp");
  is_under_way_ = false;
}

}  // namespace sft::parallel
