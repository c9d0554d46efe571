// SPDX-License-Identifier: Apache-2.0
#include "sft/model/linear/parameters.hpp"

#include <algorithm>

namespace sft::model {

using parallel::TpSplit;

std::int64_t Shape::local_rows(int tp_size) const {
  if (split == TpSplit::rows) return rows / tp_size;
  if (split == TpSplit::kv_rows) return rows / std::min<std::int64_t>(num_kv_heads, tp_size);
  return rows;
}

std::int64_t Shape::local_columns(int tp_size) const { return split == TpSplit::columns ? columns / tp_size : columns; }

std::int64_t Linear::columns_out(int tp_size) const {
  std::int64_t sum = 0;
  for (const LinearMember& member : members) sum += member.shape.local_rows(tp_size);
  return sum;
}

}  // namespace sft::model
