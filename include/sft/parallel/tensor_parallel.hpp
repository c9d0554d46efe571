// SPDX-License-Identifier: Apache-2.0
#pragma once
// The communication of tensor parallelism (Shoeybi et al. 2019): one sum behind every row-parallel product.
//
// What comes between that product and the next column-parallel one (residual addition, norm) every rank computes for
// all T tokens, or, where tokens are cut, each for its own T / size of them (Korthikanti et al. 2022):
//
//   tokens   reduce(x) is a   slice(x)                  gather(x) is
//   whole    all-reduce       all rows                  nothing
//   cut      reduce-scatter   the rank-th of size runs  an all-gather

#include <cstdint>
#include <memory>

#include "sft/comm/collectives.hpp"
#include "sft/device/device.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// Collective over the tp group, but for slice and finish. Nothing is sent with one rank.
class TensorParallel {
 public:
  /// `compute_stream`: that of the compute backend; `tp_stream` carries what runs beside it. `wire`: bf16 memory as
  /// long as the longest x that is reduced, which then travels so; empty: as float32. All outlive it. `kv_replicas`:
  /// the neighbours in tp that hold this rank's key/value heads too.
  TensorParallel(const comm::Group& tp, device::Device& device, comm::Collectives& collectives,
                 device::Stream& compute_stream, device::Stream& tp_stream, bool cuts_tokens = false, Tensor wire = {},
                 const comm::Group& kv_replicas = comm::self_group());

  [[nodiscard]] int size() const { return group_.size(); }
  [[nodiscard]] int rank() const { return group_.rank(); }
  /// Ranks that hold this rank's key/value heads, and its number among them.
  [[nodiscard]] int num_kv_replicas() const { return kv_replicas_.size(); }
  [[nodiscard]] int kv_replica() const { return kv_replicas_.rank(); }

  /// x = sum, or maximum, over the group, of float32 or float64, which travel as they are. Queued on the compute
  /// stream.
  void sum(Tensor x);
  void max(Tensor x);
  /// x = sum over the ranks that hold this rank's key/value heads, all of which call it; otherwise as sum().
  void sum_over_kv_replicas(Tensor x);

  // Rows of tokens: x is (T, C), contiguous. Where tokens are cut, T is a multiple of size().
  /// The rows of x that this rank has between two products.
  [[nodiscard]] Tensor slice(const Tensor& x) const;
  /// slice(x) = those rows of the sum of x over the group; the others are left undefined. float32. Queued on the
  /// compute stream.
  void reduce(Tensor x);
  /// x = the slices of all ranks, of which this one has slice(x). Any dtype. Queued on the compute stream.
  void gather(Tensor x);

  // reduce and gather beside the ops that follow: x is read and written until finish(). One at a time.
  /// For an x that is computed in runs of rows, in order: rows [begin, begin + count) are now complete. Whole tokens
  /// are summed run by run, those that are cut all together behind the last run.
  void start_reduce(Tensor x, std::int64_t begin, std::int64_t count);
  void start_gather(Tensor x);
  /// Makes later ops of the compute stream wait for what was started, if anything was.
  void finish();

 private:
  /// Where x lies as it travels; empty where that is in float32.
  [[nodiscard]] Tensor wire_for(const Tensor& x) const {
    return wire_.empty() ? Tensor() : wire_.rows(0, x.num_elements());
  }
  [[nodiscard]] bool cuts_tokens() const { return cuts_tokens_ && size() > 1; }
  /// Queues `work` on the tp stream, behind the ops so far.
  template <class Work>
  void start(const Work& work);

  comm::Group group_, kv_replicas_;
  device::Timeline& timeline_;
  comm::Collectives& collectives_;
  device::Stream& compute_stream_;
  device::Stream& tp_stream_;
  bool cuts_tokens_;
  Tensor wire_;
  bool is_under_way_ = false;
  std::unique_ptr<device::Event> compute_done_, tp_done_;
};

}  // namespace sft::parallel
