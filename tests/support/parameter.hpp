// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parameters of made-up units.

#include <cstdint>
#include <string>

#include "sft/parallel/shard_map.hpp"

namespace sft::test {

/// A matrix of these rows and columns, or with columns = 0 a vector; of two heads where it is split by them.
inline parallel::Parameter parameter(const std::string& name, std::int64_t rows, std::int64_t columns,
                                     parallel::TpSplit split) {
  parallel::Parameter result;
  result.name = name;
  result.rows = rows;
  result.columns = columns;
  result.split = split;
  if (split == parallel::TpSplit::kv_rows) result.num_kv_heads = 2;
  return result;
}

}  // namespace sft::test
