// SPDX-License-Identifier: Apache-2.0
#include "sft/sequence/row_cut.hpp"

#include "sft/core/error.hpp"

namespace sft::sequence {

std::int64_t row_multiple(int sp_size) { return sp_size > 1 ? 2 * std::int64_t{sp_size} : 1; }

std::int64_t padded_row_length(std::int64_t length, int sp_size) {
  const std::int64_t multiple = row_multiple(sp_size);
  return (length + multiple - 1) / multiple * multiple;
}

RowCut::RowCut(std::int64_t length, int sp_size) : length_(length), sp_size_(sp_size) {
  ensure(sp_size >= 1, "a row is cut for at least one sp rank");
  ensure(length % row_multiple(sp_size) == 0, "the row length divides by 2 sp_size");
}

std::vector<Chunk> RowCut::chunks(int sp_rank) const {
  ensure(sp_rank >= 0 && sp_rank < sp_size_, "an sp rank lies in its group");
  if (sp_size_ == 1) return {{0, 0, length_}};
  const std::int64_t length = length_ / (2 * sp_size_);
  return {{0, sp_rank * length, length}, {length, (2 * sp_size_ - 1 - sp_rank) * length, length}};
}

}  // namespace sft::sequence
