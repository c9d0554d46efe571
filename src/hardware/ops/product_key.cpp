// SPDX-License-Identifier: Apache-2.0
#include "ops/product_key.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sft::ops {

namespace {

/// The largest of the powers of two that algorithms ask for and that divides the address.
std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (const std::uint32_t bytes : {256U, 16U, 8U, 4U}) {
    if (address % bytes == 0) return bytes;
  }
  return 2;
}

constexpr std::uintptr_t vector_bytes = 16;  ///< that products of 8-bit floats need of pointers
bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % vector_bytes == 0; }

std::string text_of(const Fp8ProductKey::Form& form) {
  constexpr std::array tiles{"whole", "vectors", "blocks"};
  return fmt::format("{} {}", form.format == Fp8Format::e5m2 ? "e5m2" : "e4m3",
                     tiles.at(static_cast<std::size_t>(form.tiles)));
}

}  // namespace

std::uint32_t flags_of(const Matmul& product) {
  const auto bit = [](bool set, int position) { return static_cast<std::uint32_t>(set) << position; };
  return bit(product.transpose_a, 0) | bit(product.transpose_b, 1) | bit(product.accumulate, 2) |
         bit(product.bias.data != nullptr, 3) | bit(product.a.dtype == DType::bf16, 4) |
         bit(product.c.dtype == DType::bf16, 5) | bit(product.bias.dtype == DType::bf16, 6);
}

std::string ProductKey::text() const {
  const auto [m, n, k, a_stride, b_stride, c_stride] = sizes;
  return fmt::format("{}x{}x{} strides {},{},{} flags {} aligned {}", m, n, k, a_stride, b_stride, c_stride, flags,
                     fmt::join(alignments, ","));
}

std::size_t ProductKeyHash::operator()(const ProductKey& key) const {
  std::uint64_t hash = key.flags;
  const auto add = [&](std::uint64_t part) {
    hash = (hash ^ part) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32U;
  };
  for (const std::int64_t size : key.sizes) add(static_cast<std::uint64_t>(size));
  for (const std::uint32_t alignment : key.alignments) add(alignment);
  return hash;
}

ProductKey key_of(const Matmul& product) {
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  return {{c.shape[0], c.shape[1], a.shape[transpose_a ? 0 : 1], row_stride(a), row_stride(b), row_stride(c)},
          flags_of(product),
          {alignment_of(a.data), alignment_of(b.data), alignment_of(c.data), alignment_of(bias.data)}};
}

std::string Fp8ProductKey::text() const {
  const auto [m, n, k, a_stride, b_stride, c_stride] = sizes;
  return fmt::format("fp8 {}x{}x{} strides {},{},{} {} x {} to {}{}{}", m, n, k, a_stride, b_stride, c_stride,
                     text_of(a), text_of(b), is_bf16 ? "bf16" : "float32", accumulate ? ", added" : "",
                     has_bias ? ", with bias" : "");
}

Fp8ProductKey key_of(const Fp8Matmul& product) {
  const auto& [a, b, c, accumulate, bias] = product;
  return {.sizes = {c.shape[0], c.shape[1], fp8_line_codes(a.codes.shape[1]), a.codes.stride0, b.codes.stride0,
                    row_stride(c)},
          .a = {a.format, a.tiles},
          .b = {b.format, b.tiles},
          .is_bf16 = c.dtype == DType::bf16,
          .accumulate = accumulate,
          .has_bias = bias.data != nullptr,
          .has_bf16_bias = bias.dtype == DType::bf16,
          .is_c_aligned = is_aligned(c.data),
          .is_bias_aligned = is_aligned(bias.data)};
}

}  // namespace sft::ops
