// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a library's choice of an algorithm depends on: products with one key run alike.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "sft/ops/backend.hpp"

namespace sft::ops {

struct ProductKey {
  std::array<std::int64_t, 6> sizes;        ///< m, n, k and the strides of a, b, c
  std::uint32_t flags;                      ///< flags_of
  std::array<std::uint32_t, 4> alignments;  ///< of a, b, c, bias, bytes
  bool operator==(const ProductKey&) const = default;

  /// "4096x6144x1024 strides 1024,1024,6144 flags 48 aligned 256,256,256,256"
  [[nodiscard]] std::string text() const;
};

struct ProductKeyHash {
  std::size_t operator()(const ProductKey& key) const;
};

/// Of matrices that may not exist: their addresses are read, not what lies there.
[[nodiscard]] ProductKey key_of(const Matmul& product);

}  // namespace sft::ops
