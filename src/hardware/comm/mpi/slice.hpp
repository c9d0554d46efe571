// SPDX-License-Identifier: Apache-2.0
#pragma once
// How memory that all ranks reduce is cut among them.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sft/core/cast.hpp"
#include "sft/core/dtype.hpp"

namespace sft::comm {

/// A run of bytes that all ranks reduce, cut into one piece a rank.
struct Slice {
  std::byte* begin;
  std::size_t bytes;
  std::size_t piece_bytes;

  [[nodiscard]] std::byte* piece(int r) const { return begin + std::min(bytes, r * piece_bytes); }
  [[nodiscard]] std::size_t bytes_of_piece(int r) const { return piece(r + 1) - piece(r); }
};

/// Bytes of the piece of each of `size` ranks.
[[nodiscard]] inline std::size_t piece_bytes_of(std::size_t bytes, std::size_t size) {
  return round_up((bytes + size - 1) / size, std::size_t{64});
}

[[nodiscard]] inline std::int64_t num_elements(std::size_t bytes, DType dtype) {
  return static_cast<std::int64_t>(bytes / size_of(dtype));
}

}  // namespace sft::comm
