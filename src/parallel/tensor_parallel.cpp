#include "sft/parallel/tensor_parallel.hpp"

namespace sft::parallel {

TensorParallel::TensorParallel(const mesh::Groups& groups, comm::Collectives& collectives, device::Stream& stream)
    : group_(groups.tp), collectives_(collectives), stream_(stream) {}

void TensorParallel::sum(Tensor x) {
  if (size() > 1) collectives_.all_reduce(group_, x, comm::ReduceOp::sum, stream_);
}

void TensorParallel::max(Tensor x) {
  if (size() > 1) collectives_.all_reduce(group_, x, comm::ReduceOp::max, stream_);
}

}  // namespace sft::parallel
