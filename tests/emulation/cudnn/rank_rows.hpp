// SPDX-License-Identifier: Apache-2.0
#pragma once
// A rank's rows of a row that sequence parallelism cuts.

#include <cstdint>

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

}  // namespace sft::ops::testing
