// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a library's choice of an algorithm depends on: products with one key run alike.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "sft/ops/backend.hpp"

namespace sft::ops {

/// Elements from a row of a matrix to the next.
[[nodiscard]] inline std::int64_t row_stride(const ConstTensor& x) { return x.shape[0] > 1 ? x.stride0 : x.shape[1]; }

inline constexpr std::uint32_t flag_transpose_a = 1, flag_transpose_b = 2, flag_bf16 = 16;  ///< of flags_of
/// Properties of a product that decide how it is computed, in addition to sizes and strides: one bit each.
[[nodiscard]] std::uint32_t flags_of(const Matmul& product);

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

/// The same of products of 8-bit floats, c = a b^T. Those that a library takes as they are have one text for each key.
struct Fp8ProductKey {
  /// An operand's.
  struct Form {
    Fp8Format format;
    Fp8Tiles tiles;
    auto operator<=>(const Form&) const = default;  // NOLINT: clang-tidy 14 takes its 0 for a null pointer
  };

  std::array<std::int64_t, 6> sizes;  ///< m, n, k with the zeros behind a line, and the strides of a, b, c
  Form a, b;
  bool is_bf16, accumulate, has_bias;  ///< c, and what is added
  /// The bias, and whether c and the bias begin at multiples of 16 bytes: always so where a library takes them.
  bool has_bf16_bias, is_c_aligned, is_bias_aligned;
  auto operator<=>(const Fp8ProductKey&) const = default;  // NOLINT: the same

  /// "fp8 4096x6144x1024 strides 1024,1024,6144 e5m2 vectors x e4m3 blocks to bf16, added, with bias"
  [[nodiscard]] std::string text() const;
};

/// Of matrices that may not exist.
[[nodiscard]] Fp8ProductKey key_of(const Fp8Matmul& product);

}  // namespace sft::ops
