// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/matrix_exchange.hpp"

#include <algorithm>

namespace sft::parallel {

Tensor WholeMatrix::slice(int index) const {
  const std::int64_t count = parameter->local_elements();
  return slices.rows(index * count, count).view({parameter->local_rows, parameter->local_columns});
}

Tensor WholeMatrix::part_of(const Tensor& whole, int index) const {
  return parameter->split == TpSplit::columns
             ? whole.columns(index * parameter->local_columns, parameter->local_columns)
             : whole.rows(index * parameter->local_rows, parameter->local_rows);
}

void MatrixExchange::for_each(const std::function<void(const WholeMatrix&)>& work) {
  for (const Round& round : assignment_.rounds()) {
    exchange_shards(round, Direction::to_worker);
    exchange_slices(round, Direction::to_worker);
    for (const AssignedMatrix& matrix : round) {
      if (matrix.fsdp_rank == fsdp_rank() && matrix.tp_rank == tp_rank()) work(whole(matrix));
    }
    exchange_slices(round, Direction::from_worker);
    exchange_shards(round, Direction::from_worker);
  }
}

void MatrixExchange::exchange_shards(const Round& round, Direction direction) {
  if (fsdp_.size() == 1) return;
  const FsdpRank self = fsdp_rank();
  std::vector<comm::Message> here, there;  // parts of this rank's shard; of slices that come together on it
  for (const AssignedMatrix& matrix : round) {
    const Unit& unit = storage_.shard_map().unit(matrix.unit);
    const ShardRange own = range_in_shard(matrix, self);
    const Tensor own_part =
        own.count == 0 ? Tensor()
                       : storage_.gradients_of(matrix.unit).rows(own.begin - self * unit.shard_elements, own.count);
    if (matrix.fsdp_rank != self) {
      if (own.count > 0) here.push_back({own_part, matrix.fsdp_rank});
      continue;
    }
    for (const FsdpRank rank : IndexRange<FsdpRank>(fsdp_.size())) {
      const ShardRange range = range_in_shard(matrix, rank);
      if (range.count == 0) continue;
      const Tensor part = own_slice(matrix).rows(range.begin - matrix.parameter->unit_offset, range.count);
      if (rank == self) {
        copy(own_part, part, direction);
      } else {
        there.push_back({part, rank});
      }
    }
  }
  const bool is_sent = direction == Direction::to_worker;
  collectives_.exchange_all(fsdp_, is_sent ? here : there, is_sent ? there : here, backend_.stream());
}

void MatrixExchange::exchange_slices(const Round& round, Direction direction) {
  if (tp_.size() == 1) return;
  const bool is_sent = direction == Direction::to_worker;
  std::vector<comm::Message> here, there;  // this rank's slices; those of the matrix that it works on
  for (const AssignedMatrix& matrix : round) {
    if (matrix.fsdp_rank != fsdp_rank()) continue;
    const int ranks_per_slice = tp_.size() / matrix.num_slices();
    // The worker has its own slice; of ranks with the same one, the first sends it, and all get it back.
    const auto is_exchanged = [&](TpRank rank) {
      return !is_sent || (rank % ranks_per_slice == 0 && rank / ranks_per_slice != matrix.tp_rank / ranks_per_slice);
    };
    if (matrix.tp_rank != tp_rank()) {
      if (is_exchanged(tp_rank())) here.push_back({own_slice(matrix), matrix.tp_rank});
      continue;
    }
    const WholeMatrix all = whole(matrix);
    for (const TpRank rank : IndexRange<TpRank>(tp_.size())) {
      const Tensor part = all.slice(rank / ranks_per_slice);
      if (rank != tp_rank()) {
        if (is_exchanged(rank)) there.push_back({part, rank});
      } else if (all.num_slices > 1) {
        copy(own_slice(matrix), part, direction);
      }
    }
  }
  collectives_.exchange_all(tp_, is_sent ? here : there, is_sent ? there : here, backend_.stream());
}

void MatrixExchange::copy(const Tensor& here, const Tensor& there, Direction direction) {
  if (direction == Direction::to_worker) {
    backend_.run(ops::Copy{there, here});
  } else {
    backend_.run(ops::Copy{here, there});
  }
}

ShardRange MatrixExchange::range_in_shard(const AssignedMatrix& matrix, FsdpRank rank) const {
  const std::int64_t shard_elements = storage_.shard_map().unit(matrix.unit).shard_elements;
  const std::int64_t first = matrix.parameter->unit_offset;
  const std::int64_t begin = std::max(first, rank * shard_elements);
  const std::int64_t end = std::min(first + matrix.parameter->local_elements(), (rank + 1) * shard_elements);
  return {begin, std::max<std::int64_t>(end - begin, 0)};
}

Tensor MatrixExchange::own_slice(const AssignedMatrix& matrix) const {
  const std::int64_t count = matrix.parameter->local_elements();
  if (fsdp_.size() > 1) return assignment_.gathered_slices().rows(matrix.gathered_offset, count);
  return storage_.gradients_of(matrix.unit).rows(matrix.parameter->unit_offset, count);
}

WholeMatrix MatrixExchange::whole(const AssignedMatrix& matrix) const {
  const Parameter& parameter = *matrix.parameter;
  const int num_slices = matrix.num_slices();
  return {&parameter, num_slices > 1 ? assignment_.joined_slices().rows(0, parameter.elements()) : own_slice(matrix),
          num_slices};
}

}  // namespace sft::parallel
