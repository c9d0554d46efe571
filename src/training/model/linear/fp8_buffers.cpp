// SPDX-License-Identifier: Apache-2.0
#include "sft/model/linear/fp8_buffers.hpp"

#include <algorithm>
#include <utility>

#include "sft/model/architecture.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

Fp8Buffers::Fp8Buffers(config::Fp8 way, const DecoderParameters& parameters, const Sizes& sizes,
                       const ActivationPolicy& policy, bool keeps_gradients)
    : way_(way), keeps_gradients_(keeps_gradients) {
  if (!is_used()) return;
  for (const BlockParameters& block : parameters.blocks) {
    for (const BlockSublayer& sublayer : block.sublayers) sublayer.layer->fit_fp8(sizes, policy, *this);
  }
}

void Fp8Buffers::fit_slices(std::int64_t tokens, std::int64_t columns, std::int64_t columns_in) {
  kept_of_first_.fit(tokens, columns_in, vectors());
  right_of_slices_.fit(columns, columns_in, is_blockwise() ? ops::Fp8Tiles::blocks : ops::Fp8Tiles::whole);
}

void Fp8Buffers::fit_experts(const Sizes& sizes, bool trades_places) {
  const ExpertSizes& experts = sizes.experts;
  for (const auto& [columns, columns_in] :
       {std::pair{2 * experts.columns, sizes.hidden}, std::pair{sizes.hidden, experts.columns}}) {
    fit_products(experts.most_rows_of_one(), columns, columns_in);
    if (trades_places) fit_products(experts.most_rows_of_one(), columns_in, columns);
  }
  if (!keeps_gradients_) return;
  const std::int64_t kept_rows = std::min(experts.most_rows_of_one(), round_up(sizes.tokens, experts.alignment));
  kept_of_second_.fit(kept_rows, sizes.hidden, vectors());
  expert_lines_ = round_up(2 * experts.columns, 4);
  num_expert_scales_ = first_expert_scale(experts.arriving_rows(), experts.local_count());
}

std::int64_t Fp8Buffers::first_expert_scale(std::int64_t row, std::int64_t expert) const {
  return is_blockwise() ? (row / ops::fp8_tile + expert) * expert_lines_ : expert;
}

Tensor Fp8Buffers::expert_scales(std::int64_t first_row, std::int64_t num_rows, std::int64_t first_expert,
                                 std::int64_t num_experts) const {
  const std::int64_t begin = first_expert_scale(first_row, first_expert);
  return expert_scales_.rows(begin, first_expert_scale(first_row + num_rows, first_expert + num_experts) - begin);
}

void Fp8Buffers::fit_products(std::int64_t tokens, std::int64_t columns, std::int64_t columns_in) {
  using ops::Fp8Tiles;
  const Fp8Tiles vectors = this->vectors(), blocks = is_blockwise() ? Fp8Tiles::blocks : Fp8Tiles::whole;
  left_.fit(tokens, columns_in, vectors);  // y = x w^T
  right_.fit(columns, columns_in, blocks);
  left_.fit(tokens, columns, vectors);  // dx = dy w
  right_.fit(columns_in, columns, blocks);
  left_.fit(columns, tokens, vectors);  // dw = dy^T x
  right_.fit(columns_in, tokens, vectors);
}

void Fp8Buffers::fit_layer(std::int64_t tokens, std::int64_t columns, std::int64_t columns_in, LayerOfTwo layer) {
  fit_products(tokens, columns, columns_in);
  if (!keeps_gradients_) return;
  SizedMemory& kept = layer == LayerOfTwo::first ? kept_of_first_ : kept_of_second_;
  const ops::Fp8Tiles tiles = vectors();
  kept.fit(tokens, columns, tiles);  // for dx, where dw comes first
  kept.fit(columns, tokens, tiles);
}

void Fp8Buffers::SizedMemory::fit(std::int64_t lines, std::int64_t terms, ops::Fp8Tiles tiles) {
  num_codes = std::max(num_codes, ops::num_fp8_codes(lines, terms));
  const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles, lines, terms);
  num_scales = std::max(num_scales, scale_rows * scale_columns);
}

void Fp8Buffers::lay_out(device::Arena& workspace) {
  if (!is_used()) return;
  for (SizedMemory* x : {&left_, &right_, &kept_of_first_, &kept_of_second_, &right_of_slices_}) {
    if (x->num_codes > 0) x->memory.codes = take(workspace, DType::uint8, {x->num_codes});
  }
  scales_ = take_scales(workspace, left_, right_);
  if (kept_of_first_.num_codes > 0) scales_of_slices_ = take_scales(workspace, kept_of_first_, right_of_slices_);
  if (kept_of_second_.num_codes > 0) {
    kept_of_second_.memory.scales = take(workspace, DType::float32, {kept_of_second_.num_scales});
  }
  if (num_expert_scales_ > 0) expert_scales_ = take(workspace, DType::float32, {num_expert_scales_});
}

Tensor Fp8Buffers::take_scales(device::Arena& workspace, SizedMemory& left, SizedMemory& right) const {
  // Those of tiles begin where the kernels of products want them.
  const std::int64_t begin = is_blockwise() ? (left.num_scales + 3) / 4 * 4 : left.num_scales;
  const Tensor both = take(workspace, DType::float32, {begin + right.num_scales});
  left.memory.scales = both.rows(0, left.num_scales);
  right.memory.scales = both.rows(begin, right.num_scales);
  return both;
}

bool Fp8Memory::fits(std::int64_t lines, std::int64_t terms, ops::Fp8Tiles tiles) const {
  const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles, lines, terms);
  return ops::num_fp8_codes(lines, terms) <= codes.num_elements() &&
         scale_rows * scale_columns <= scales.num_elements();
}

ops::Fp8Matrix Fp8Memory::matrix(std::int64_t lines, std::int64_t terms, ops::Fp8Format format,
                                 ops::Fp8Tiles tiles) const {
  const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles, lines, terms);
  const std::int64_t line_codes = ops::fp8_line_codes(terms);
  return {codes.rows(0, lines * line_codes).view({lines, line_codes}).columns(0, terms),
          scales.rows(0, scale_rows * scale_columns).view({scale_rows, scale_columns}), format, tiles};
}

}  // namespace sft::model
