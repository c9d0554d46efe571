// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/product_counter.hpp"

#include <algorithm>
#include <array>

#include "ops/cpu/grouped_matmul.hpp"
#include "ops/cpu/own_matmul.hpp"
#include "ops/cpu/row_pieces.hpp"
#include "ops/grouped_products.hpp"
#include "sft/core/cast.hpp"

namespace sft::ops::cpu {

namespace {

/// Of `bytes` of so many products, those of the `most` that are kept.
std::int64_t kept_bytes(std::int64_t bytes, std::int64_t num_products, std::int64_t most) {
  return num_products <= most ? bytes : bytes / num_products * most;
}

}  // namespace

bool ProductCounter::has_code(const Matmul& product) const {
  const bool has_terms = product.a.shape[product.transpose_a ? 0 : 1] > 0;
  if (product.c.empty() || !has_terms || MatmulEngine::is_small(product, workspace_bytes_) ||
      MatmulEngine::is_own(product, workspace_bytes_, isa_)) {
    return false;
  }
  const bool has_own_tiles = !has_fast_bf16_products(isa_) && has_own_products(isa_, DType::float32);
  return product.a.dtype == DType::float32 || !has_own_tiles;
}

void ProductCounter::note(const Matmul& product, Kinds& kinds) const {
  if (!has_code(product)) return;
  kinds.insert(MatmulEngine::key_of(product));
}

void ProductCounter::note(const Fp8Matmul& product) {
  if (product.c.empty() || product.a.codes.shape[1] == 0 || MatmulEngine::has_own_fp8_products(isa_)) return;
  for (const Matmul& tile : MatmulEngine::fp8_tiles(product)) of_tokens_.insert(MatmulEngine::key_of(tile));
}

void ProductCounter::run(const Call& call) {
  if (const auto* const product = std::get_if<Matmul>(&call)) {
    note(*product, of_tokens_);
  } else if (const auto* const in_fp8 = std::get_if<Fp8Matmul>(&call)) {
    note(*in_fp8);
  } else if (const auto* const grouped = std::get_if<GroupedMatmul>(&call)) {
    GroupedMatmul one = *grouped;
    one.a.shape[0] = one.c.shape[0] = least_piece_rows;
    note_expert(one);
  } else if (const auto* const gradient = std::get_if<GroupedWeightGradient>(&call)) {
    GroupedWeightGradient one = *gradient;
    one.x.shape[0] = one.y.shape[0] = least_piece_rows;
    note_expert(one);
  }
}

template <class Grouped>
void ProductCounter::note_expert(Grouped& grouped) {
  constexpr std::array<std::int32_t, 2> offsets{0, least_piece_rows};
  grouped.offsets = offsets;
  const Matmul product = product_of(grouped, 0);
  of_experts_.emplace(MatmulEngine::key_of(product), product);
}

ProductCounter::Kinds ProductCounter::pieces_of_experts(std::int64_t most_rows) const {
  Kinds pieces;
  for (const auto& kind : of_experts_) {
    Matmul piece = kind.second;
    std::int64_t& other_rows = (piece.transpose_a ? piece.b.shape : piece.c.shape)[0];
    for (std::int64_t rows = least_piece_rows; rows <= most_rows; rows = next_piece_rows(rows)) {
      piece.a.shape[0] = other_rows = rows;
      note(piece, pieces);
    }
  }
  return pieces;
}

// oneDNN 2.6 has one function for all sizes of product, "gemm:jit", and code of its own for each size,
// "brg:avx512_core" and others: the latter for packed operands on AVX-512, of bf16 numbers where they are multiplied as
// such. Those of bf16 numbers that are left to it elsewhere have few rows or columns.
ProductCounter::Code ProductCounter::code_of(const MatmulEngine::Key& key) const {
  if (isa_ <= Isa::avx2) return Code::shared_float32;  // tiles of bf16 products too
  const Code shared = key.is_bf16() ? Code::shared_bf16 : Code::shared_float32;
  if (key.has_gaps() || (key.is_bf16() && !has_fast_bf16_products(isa_))) return shared;
  return Code::own;
}

// Measured with oneDNN 2.6: heap and memory of machine code that a product adds. Those whose code is shared differ by
// half as much from run to run. Thin bf16 products take more where oneDNN uses the processor's bf16 instructions
// although they are not fast (Intel's AVX-512 BF16 without AMX).
std::int64_t ProductCounter::bytes_of(const Kinds& kinds) const {
  std::int64_t kibibytes = 0;
  for (const MatmulEngine::Key& key : kinds) {
    switch (code_of(key)) {
      case Code::own:
        kibibytes += key.is_bf16() ? 68 : 66;
        break;
      case Code::shared_bf16:
        kibibytes += isa_ == Isa::avx512_bf16 && !has_fast_bf16_products(isa_) ? 64 : 34;
        break;
      case Code::shared_float32:
        kibibytes += 34;
        break;
    }
  }
  return kibibytes * 1024;
}

// Pages of oneDNN's own code that products touch, whatever their number, and code that many of them share: measured, as
// growth of resident memory at the first products of each kind. Code for float32 numbers is made for each
// transposition, and on AVX-512 in two forms; below AVX2 it copies operands too, which product_copies_bytes has.
std::int64_t ProductCounter::library_bytes(const std::set<Code>& codes) const {
  std::int64_t kibibytes = 1400;
  if (codes.contains(Code::shared_bf16)) kibibytes += 2400;
  if (codes.contains(Code::shared_float32)) kibibytes += isa_ <= Isa::avx2 ? 1792 : 6300;
  return kibibytes * 1024;
}

std::size_t ProductCounter::code_bytes(const ProductUse& use) const {
  const Kinds pieces = pieces_of_experts(use.most_expert_rows);
  const std::int64_t of_tokens = use.num_lengths * std::ssize(of_tokens_), of_experts = std::ssize(pieces);
  if (of_tokens + of_experts == 0) return 0;
  const std::int64_t piece_bytes = bytes_of(pieces);
  std::int64_t bytes =
      kept_bytes(use.num_lengths * bytes_of(of_tokens_) + piece_bytes, of_tokens + of_experts, max_kept_products);
  if (use.num_threads > 1) {  // each keeps code of its own, for experts' products side by side
    bytes += use.num_threads * kept_bytes(piece_bytes, of_experts, max_kept_of_thread(use.num_threads));
  }
  std::set<Code> codes;
  for (const Kinds* kinds : {&of_tokens_, &pieces}) {
    for (const MatmulEngine::Key& key : *kinds) codes.insert(code_of(key));
  }
  return bytes + library_bytes(codes);
}

}  // namespace sft::ops::cpu
