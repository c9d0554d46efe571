// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which part of a tensor in storage is meant.

#include <cstdint>

namespace sft::io {

/// A rectangle of a 1-D or 2-D tensor (1-D: columns = 1, column_begin = 0). One without elements is legal.
struct Rectangle {
  std::int64_t row_begin = 0, num_rows = 0, column_begin = 0, num_columns = 1;

  [[nodiscard]] std::int64_t num_elements() const { return num_rows * num_columns; }
};

}  // namespace sft::io
