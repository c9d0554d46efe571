// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sft::ops {

/// A matrix of float32 or bf16: `rows` rows of `columns` neighbours, `stride` elements apart. data may be null.
template <class Memory>
struct BasicView {
  Memory* data = nullptr;
  bool is_bf16 = false;
  std::int64_t rows = 0, columns = 0, stride = 0;
};
using View = BasicView<void>;
using ConstView = BasicView<const void>;  ///< is only read

}  // namespace sft::ops
