// SPDX-License-Identifier: Apache-2.0
#pragma once
// A rank's rows of a row that sequence parallelism cuts, and rows to cut.

#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "emulation/cudnn/layer.hpp"
#include "emulation/ops/support.hpp"
#include "sft/sequence/row_cut.hpp"

namespace sft::ops::testing {

/// Writes the rank's rows of a tensor of the whole row.
inline void put_rows(Twin& part, Twin& whole, const sequence::RowCut& cut, int rank) {
  for (const sequence::Chunk& chunk : cut.chunks(rank)) {
    for (std::int64_t row = 0; row < chunk.length; ++row) {
      for (std::int64_t column = 0; column < part.cpu().row_elements(); ++column) {
        const double value = get(whole.at(whole.bytes(), chunk.global + row, column), whole.cpu().dtype);
        put(part.at(part.bytes(), chunk.local + row, column), part.cpu().dtype, value);
      }
    }
  }
}

/// A Row(heads, lengths of documents, window, seed, cut) for so many ranks, of which check(row, what, rank) is called
/// for each. Behind the documents is padding.
template <class Row, class Check>
Row check_ranks(const std::string& what, Heads heads, const std::vector<std::int32_t>& lengths, int sp_size,
                std::int64_t window, unsigned seed, const Check& check) {
  const std::int64_t tokens = std::reduce(lengths.begin(), lengths.end(), std::int64_t{0});
  Row row(heads, lengths, window, seed, sequence::RowCut(sequence::padded_row_length(tokens + 5, sp_size, 8), sp_size));
  for (int rank = 0; rank < sp_size; ++rank) {
    check(row, what + ", rank " + std::to_string(rank) + " of " + std::to_string(sp_size), rank);
  }
  return row;
}

/// Calls check(what, heads, lengths of documents, ranks, window, seed) for some rows; seeds are those from `first_seed`
/// on.
template <class Check>
void on_random_rows(unsigned seed, unsigned first_seed, const Check& check) {
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t end) { return static_cast<std::int64_t>(random() % end); };
  for (unsigned run = 0; run < 8; ++run) {
    std::vector<std::int32_t> lengths;
    for (std::int64_t tokens = 0; tokens < 120; tokens += lengths.back()) {
      lengths.push_back(static_cast<std::int32_t>(below(4) == 0 ? 1 : 1 + below(100)));
    }
    const std::int64_t window = below(2) == 0 ? 0 : 1 + below(100);
    check("run " + std::to_string(run), Heads{4, 2, 16}, lengths, static_cast<int>(2 + below(3)), window,
          first_seed + 10 * run);
  }
}

}  // namespace sft::ops::testing
