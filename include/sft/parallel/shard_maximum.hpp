// SPDX-License-Identifier: Apache-2.0
#pragma once
// The largest of numbers that the ranks which share the parameters each know in part.

#include "sft/comm/collectives.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/backend.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

class ShardMaximum {
 public:
  /// References outlive it.
  ShardMaximum(const mesh::Groups& groups, ops::Backend& backend, comm::Collectives& collectives)
      : groups_(groups), backend_(backend), collectives_(collectives) {}

  /// numbers, float32, = their maximum over fsdp x tp. On the stream of the backend. Collective over fsdp and tp.
  void take(const Tensor& numbers) const {
    for (const comm::Group* group : {&groups_.fsdp, &groups_.tp}) {
      if (group->size() > 1) collectives_.all_reduce(*group, numbers, comm::ReduceOp::max, backend_.stream());
    }
  }

 private:
  const mesh::Groups& groups_;
  ops::Backend& backend_;
  comm::Collectives& collectives_;
};

}  // namespace sft::parallel
