// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole gradients of matrices at the end of a step, for optimizers that need them: shards go over fsdp, then slices
// over tp, to the rank that works on the matrix, and what that leaves in their place goes back the same way.

#include <functional>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/matrix_assignment.hpp"
#include "sft/parallel/unit_storage.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// The gradient of a matrix, on the rank that works on it.
struct WholeMatrix {
  const Parameter* parameter;
  /// float32, flat: its tp slices, one after the other, each row-major.
  Tensor slices;
  int num_slices;

  /// (local_rows, local_columns) of the parameter.
  [[nodiscard]] Tensor slice(int index) const;
  /// Where slice `index` lies in `whole`, any matrix (rows, columns) of the parameter's shape.
  [[nodiscard]] Tensor part_of(const Tensor& whole, int index) const;
};

class MatrixExchange {
 public:
  /// All references outlive it; the assignment is laid out, and the collectives exchange over fsdp and tp. `storage` is
  /// that of the matrices' part, whose PartGroups::shards is called fsdp here.
  MatrixExchange(const MatrixAssignment& assignment, const UnitStorage& storage, const mesh::Groups& groups,
                 ops::Backend& backend, comm::Collectives& collectives)
      : assignment_(assignment),
        storage_(storage),
        fsdp_(groups.*storage.part().groups.shards),
        tp_(groups.tp),
        backend_(backend),
        collectives_(collectives) {}

  /// Calls work(matrix) for each matrix that is assigned to this rank; what the ops queued there write into its slices
  /// is the gradient of every rank that holds a part of it from then on. On the stream of the backend, behind the sums
  /// of all gradients. Collective over fsdp and tp.
  void for_each(const std::function<void(const WholeMatrix&)>& work);

 private:
  using Round = std::vector<AssignedMatrix>;
  enum class Direction { to_worker, from_worker };

  [[nodiscard]] FsdpRank fsdp_rank() const { return FsdpRank::from(fsdp_.rank()); }
  [[nodiscard]] TpRank tp_rank() const { return TpRank::from(tp_.rank()); }
  /// Between the shards of all ranks of fsdp and the gathered slices.
  void exchange_shards(const Round& round, Direction direction);
  /// Between the slices of all ranks of tp and the joined ones.
  void exchange_slices(const Round& round, Direction direction);
  /// `there` is at the worker.
  void copy(const Tensor& here, const Tensor& there, Direction direction);

  /// The elements of the matrix, counted in its unit flat, that lie in the shard of a rank of fsdp.
  [[nodiscard]] ShardRange range_in_shard(const AssignedMatrix& matrix, FsdpRank rank) const;
  /// The slice of this rank of tp, on the ranks of fsdp where its shards come together.
  [[nodiscard]] Tensor own_slice(const AssignedMatrix& matrix) const;
  [[nodiscard]] WholeMatrix whole(const AssignedMatrix& matrix) const;

  const MatrixAssignment& assignment_;
  const UnitStorage& storage_;
  const comm::Group &fsdp_, &tp_;
  ops::Backend& backend_;
  comm::Collectives& collectives_;
};

}  // namespace sft::parallel
