// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/product_counter.hpp"

#include <algorithm>

#include "ops/cpu/grouped_matmul.hpp"
#include "ops/expert_tensors.hpp"
#include "sft/core/cast.hpp"

namespace sft::ops::cpu {

void ProductCounter::note(const Matmul& product, Kinds& kinds) const {
  const bool has_terms = product.a.shape[product.transpose_a ? 0 : 1] > 0;
  if (product.c.empty() || !has_terms || MatmulEngine::is_small(product, workspace_bytes_)) return;
  kinds.insert(MatmulEngine::key_of(product));
}

// Products of codes are made of tiles: about as many shapes as there are products.
void ProductCounter::fp8_matmul(const Fp8Matmul& product) {
  const std::int64_t depth = product.a.codes.shape[product.transpose_a ? 0 : 1];
  const std::int64_t rows = product.c.shape[0], columns = product.c.shape[1];
  note({.a = Tensor(nullptr, DType::bf16, {rows, depth}),
        .b = Tensor(nullptr, DType::bf16, {depth, columns}),
        .c = product.c,
        .accumulate = product.accumulate},
       of_tokens_);
}

template <class Grouped>
void ProductCounter::note_pieces(Grouped grouped, std::int64_t num_experts, std::int64_t num_rows) {
  const std::int64_t most_rows = num_rows / std::min(num_choices_, num_experts);  // a token is in an expert once
  for (std::int64_t rows = GroupedMatmulEngine::least_piece_rows; rows <= most_rows; rows *= 2) {
    const std::array<std::int32_t, 2> one_expert{0, checked_cast<std::int32_t>(rows)};
    grouped.offsets = one_expert;
    note(product_of(grouped, 0), of_experts_);
  }
}

void ProductCounter::grouped_matmul(const GroupedMatmul& grouped) {
  note_pieces(grouped, grouped.b.shape[0], grouped.a.shape[0]);
}
void ProductCounter::grouped_weight_gradient(const GroupedWeightGradient& grouped) {
  note_pieces(grouped, grouped.dweight.shape[0], grouped.x.shape[0]);
}

ProductCounter::Code ProductCounter::code_of(const MatmulEngine::Key& key) const {
  if (key.has_gaps()) return Code::shared;
  return isa_ == Isa::amx && key.is_bf16() ? Code::of_tiles : Code::own;
}

// Measured with oneDNN 2.6 on AVX-512: heap and memory of machine code that a product adds. Those whose code is shared
// differ by half as much from run to run.
std::int64_t ProductCounter::bytes_of(const Kinds& kinds) const {
  std::int64_t kibibytes = 0;
  for (const MatmulEngine::Key& key : kinds) {
    switch (code_of(key)) {
      case Code::own:
        kibibytes += key.is_bf16() ? 68 : 66;
        break;
      case Code::shared:
        kibibytes += 34;
        break;
      case Code::of_tiles:
        kibibytes += 140;
        break;
    }
  }
  return kibibytes * 1024;
}

std::size_t ProductCounter::code_bytes(int num_threads, std::int64_t num_lengths) const {
  // Threads that take products of experts side by side keep code of their own.
  const std::int64_t of_tokens = num_lengths * std::ssize(of_tokens_),
                     of_experts = num_threads * std::ssize(of_experts_);
  if (of_tokens + of_experts == 0) return 0;
  const std::int64_t num_kept = std::min(of_tokens, max_kept_products) + std::min(of_experts, max_kept_products);
  const std::int64_t bytes = num_lengths * bytes_of(of_tokens_) + num_threads * bytes_of(of_experts_);
  // Pages of oneDNN's own code that products touch, and code that they share, whatever their number.
  constexpr std::int64_t library_bytes = 1400 * std::int64_t{1024}, shared_bytes = 2304 * std::int64_t{1024};
  const auto is_shared = [this](const MatmulEngine::Key& key) { return code_of(key) == Code::shared; };
  const bool has_shared = std::ranges::any_of(of_tokens_, is_shared) || std::ranges::any_of(of_experts_, is_shared);
  return library_bytes + (has_shared ? shared_bytes : 0) + bytes / (of_tokens + of_experts) * num_kept;
}

}  // namespace sft::ops::cpu
