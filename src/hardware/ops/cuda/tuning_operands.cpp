// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/tuning_operands.hpp"

#include <algorithm>
#include <cstdint>

#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/kernels/run.hpp"
#include "ops/product_key.hpp"
#include "ops/views/fp8.hpp"
#include "ops/views/tensor.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cuda {
namespace {

constexpr std::size_t line_bytes = 256;  ///< the largest alignment that algorithms ask for
constexpr std::uint64_t seed = 1;

/// Bytes from the first element to the last.
std::size_t span_bytes(const ConstTensor& x) {
  if (x.data == nullptr) return 0;
  const std::int64_t rows = x.ndim == 2 ? x.shape[0] : 1, columns = x.ndim == 2 ? x.shape[1] : x.shape[0];
  const std::int64_t stride = rows > 1 ? x.stride0 : columns;
  return static_cast<std::size_t>((rows - 1) * stride + columns) * size_of(x.dtype);
}

/// With the lines that products may read beyond its own.
std::size_t code_bytes(const ConstFp8Matrix& x) {
  return static_cast<std::size_t>(num_fp8_codes(x.codes.shape[0], x.codes.shape[1]));
}

/// Bytes of the numbers that are rounded to codes, in bf16.
std::size_t source_bytes(const ConstFp8Matrix& x) {
  return static_cast<std::size_t>(x.codes.num_elements()) * size_of(DType::bf16);
}

/// Of the block, for this many wherever in a line they begin.
std::size_t needs(std::size_t bytes) { return round_up(bytes + line_bytes, line_bytes); }
std::size_t needs(const ConstTensor& x) { return needs(span_bytes(x)); }
std::size_t needs(const ConstFp8Matrix& x) { return needs(code_bytes(x)) + needs(x.scales); }

Tensor placed_at(void* data, const ConstTensor& x) {
  Tensor placed(data, x.dtype, {1});
  placed.ndim = x.ndim;
  placed.shape = x.shape;
  placed.stride0 = x.stride0;
  return placed;
}

}  // namespace

std::optional<Matmul> TuningOperands::place(const Matmul& product) {
  if (!begin(needs(product.a) + needs(product.b) + needs(product.c) + needs(product.bias))) return std::nullopt;
  Matmul placed = product;
  placed.a = fill(product.a);
  placed.b = fill(product.b);
  placed.c = fill(product.c);
  placed.bias = fill(product.bias);
  SFT_ENSURE(key_of(placed) == key_of(product), "tune_matmul: the same product in other memory");
  return placed;
}

std::optional<Fp8Matmul> TuningOperands::place(const Fp8Matmul& product) {
  const std::size_t source = std::max(source_bytes(product.a), source_bytes(product.b));
  if (!begin(needs(source) + needs(product.a) + needs(product.b) + needs(product.c) + needs(product.bias))) {
    return std::nullopt;
  }
  std::byte* const numbers = next(nullptr, source);
  Fp8Matmul placed = product;
  placed.a = fill(product.a, numbers);
  placed.b = fill(product.b, numbers);
  placed.c = fill(product.c);
  placed.bias = fill(product.bias);
  SFT_ENSURE(key_of(placed) == key_of(product), "tune_matmul: the same product in other memory");
  return placed;
}

bool TuningOperands::begin(std::size_t bytes) {
  used_bytes_ = 0;
  if (bytes > most_bytes_) return false;
  if (bytes > num_bytes_) {
    block_ = nullptr;
    block_ = device_.allocate(bytes);
    num_bytes_ = bytes;
  }
  return true;
}

std::byte* TuningOperands::next(const void* data, std::size_t bytes) {
  auto* const begin =
      static_cast<std::byte*>(block_.get()) + used_bytes_ + reinterpret_cast<std::uintptr_t>(data) % line_bytes;
  used_bytes_ += needs(bytes);
  return begin;
}

Tensor TuningOperands::fill(const ConstTensor& x) {
  if (x.data == nullptr) return placed_at(nullptr, x);
  std::byte* const begin = next(x.data, span_bytes(x));
  // Between rows too. Zeros would draw less power, and the clock would be faster than in a run.
  const auto elements = static_cast<std::int64_t>(span_bytes(x) / size_of(x.dtype));
  cuda::run(FillNormal{Tensor(begin, x.dtype, {elements}), seed, 0, 1.0F}, Context{stream_, {}});
  return placed_at(begin, x);
}

ConstFp8Matrix TuningOperands::fill(const ConstFp8Matrix& x, std::byte* source) {
  const Fp8Matrix placed(placed_at(next(x.codes.data, code_bytes(x)), x.codes),
                         placed_at(next(x.scales.data, span_bytes(x.scales)), x.scales), x.format, x.tiles);
  const Tensor numbers(source, DType::bf16, {x.codes.shape[0], x.codes.shape[1]});
  const Context context{stream_, {}};
  cuda::run(FillNormal{numbers, seed, 0, 1.0F}, context);
  if (x.tiles == Fp8Tiles::whole) cuda::run(FindFp8Scale{.out = placed, .in = numbers}, context);
  cuda::run(RoundToFp8{.out = placed, .in = numbers}, context);
  return placed;
}

}  // namespace sft::ops::cuda
