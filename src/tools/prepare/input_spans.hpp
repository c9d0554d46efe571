// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who of a team reads what of the inputs.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "prepare/byte_stream.hpp"
#include "prepare/prepare_options.hpp"
#include "sft/prepare/team.hpp"

namespace sft::prepare {

/// Consecutive records of one input. All spans, in their order, are all records, in theirs.
struct InputSpan {
  static constexpr int everyone = -1;
  static constexpr std::int64_t unknown_size = -1;

  std::string input;                       ///< file, or "-"
  std::size_t group = 0;                   ///< of inputs
  bool is_part = false;                    ///< of a file: the lines that begin in `range`
  ByteRange range = {};                    ///< the end of the last part of a file is open
  std::int64_t size_bytes = unknown_size;  ///< that are read; of a pipe it is not known
  int reader = 0;                          ///< the one rank that reads it, or `everyone`

  [[nodiscard]] bool is_read_by(int rank) const { return reader == rank || reader == everyone; }
};

/// Files of lines are cut into parts of bytes, about sixteen for each rank and of 64 KiB to 16 MiB; others, which are
/// compressed or one JSON array, have one reader each. What has the least to read takes the next part. One of the
/// others that is more than half a rank's share is read by everyone: its tokens are made by all, then. Alone, a process
/// reads files as they are. Collective over the team; every process gets the same.
[[nodiscard]] std::vector<InputSpan> divide_inputs(const std::vector<InputGroup>& groups, const Team& team);

/// What a rank reads in all; 0 where that is not known.
[[nodiscard]] std::int64_t num_bytes_read(const std::vector<InputSpan>& spans, int rank);

}  // namespace sft::prepare
