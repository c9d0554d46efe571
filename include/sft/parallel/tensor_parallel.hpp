#pragma once
// The communication of tensor parallelism (Shoeybi et al. 2019): one sum behind every row-parallel product.

#include "sft/comm/collectives.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// Collective over the tp group; every call is queued on `stream`, the stream of the compute backend.
class TensorParallel {
 public:
  TensorParallel(const mesh::Groups& groups, comm::Collectives& collectives, device::Stream& stream);

  [[nodiscard]] int size() const { return group_.size(); }
  [[nodiscard]] int rank() const { return group_.rank(); }
  /// Dtype of a partial sum: float32 where it still has to be summed over ranks, else `compute`.
  [[nodiscard]] DType partial_dtype(DType compute) const { return size() > 1 ? DType::float32 : compute; }
  /// x = sum, or maximum, over the group; float32 or float64. Nothing with one rank.
  void sum(Tensor x);
  void max(Tensor x);

 private:
  comm::Group group_;
  comm::Collectives& collectives_;
  device::Stream& stream_;
};

}  // namespace sft::parallel
