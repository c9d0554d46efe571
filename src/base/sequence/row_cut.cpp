// SPDX-License-Identifier: Apache-2.0
#include "sft/sequence/row_cut.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "sft/core/ensure.hpp"

namespace sft::sequence {

std::int64_t row_multiple(int sp_size, int local_multiple) {
  SFT_ENSURE(local_multiple >= 1, "the tokens of a rank are a multiple of at least one");
  const std::int64_t num_chunks = sp_size > 1 ? 2 : 1;
  return sp_size * std::lcm(num_chunks, std::int64_t{local_multiple});
}

std::int64_t padded_row_length(std::int64_t length, int sp_size, int local_multiple) {
  const std::int64_t multiple = row_multiple(sp_size, local_multiple);
  return (length + multiple - 1) / multiple * multiple;
}

std::int64_t joined_row_length(std::int64_t num_tokens, std::int64_t max_tokens, int sp_size, int local_multiple) {
  constexpr std::uint64_t lengths_per_octave = 16;
  const std::int64_t least = padded_row_length(std::max<std::int64_t>(num_tokens, 1), sp_size, local_multiple);
  const std::int64_t on_rank = least / sp_size;
  const auto octave = std::bit_floor(static_cast<std::uint64_t>(on_rank));
  const auto step = std::max<std::int64_t>(static_cast<std::int64_t>(octave / lengths_per_octave), 1);
  const std::int64_t rounded = (on_rank + step - 1) / step * step;
  return std::min(padded_row_length(rounded * sp_size, sp_size, local_multiple),
                  padded_row_length(std::max(max_tokens, least), sp_size, local_multiple));
}

RowCut::RowCut(std::int64_t length, int sp_size) : length_(length), sp_size_(sp_size) {
  SFT_ENSURE(sp_size >= 1, "a row is cut for at least one sp rank");
  SFT_ENSURE(length % row_multiple(sp_size) == 0, "the row length divides by 2 sp_size");
}

std::vector<Chunk> RowCut::chunks(int sp_rank) const {
  SFT_ENSURE(sp_rank >= 0, "an sp rank lies in its group");
  SFT_ENSURE(sp_rank < sp_size_, "an sp rank lies in its group");
  if (sp_size_ == 1) return {{0, 0, length_}};
  const std::int64_t length = length_ / (2 * sp_size_);
  return {{0, sp_rank * length, length}, {length, (2 * sp_size_ - 1 - sp_rank) * length, length}};
}

}  // namespace sft::sequence
