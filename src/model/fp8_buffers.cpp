// SPDX-License-Identifier: Apache-2.0
#include "sft/model/fp8_buffers.hpp"

#include <algorithm>
#include <utility>

namespace sft::model {

Fp8Buffers::Fp8Buffers(config::Fp8 way, const config::Model& model, const Sizes& sizes, std::int64_t mlp_tile_tokens,
                       bool keeps_gradients)
    : way_(way), keeps_gradients_(keeps_gradients) {
  if (!is_used()) return;
  fit_layer(sizes.tokens, sizes.qkv_columns(), sizes.hidden, kept_of_first_);
  fit_layer(sizes.tokens, sizes.hidden, sizes.q_columns(), kept_of_second_);
  if (sizes.head_groups > 1) {
    kept_of_first_.fit(sizes.tokens, sizes.hidden, is_blockwise() ? ops::Fp8Tiles::vectors : ops::Fp8Tiles::whole);
    right_of_slices_.fit(sizes.qkv_columns(), sizes.hidden,
                         is_blockwise() ? ops::Fp8Tiles::blocks : ops::Fp8Tiles::whole);
  }
  const std::int64_t mlp_tokens = std::min(mlp_tile_tokens, sizes.tokens), mlp = sizes.widest_mlp();
  if (mlp > 0) {
    fit_layer(mlp_tokens, 2 * mlp, sizes.hidden, kept_of_first_);
    fit_layer(mlp_tokens, sizes.hidden, mlp, kept_of_second_);
  }
  if (sizes.experts == 0) return;
  // All rows may go to one expert. Matrices of gpt-oss are (columns in, columns), and so are their gradients, whose
  // operands trade places: then there is room for both.
  const bool is_gpt_oss = model.expert_form == config::ExpertForm::gpt_oss;
  for (const auto& [columns, columns_in] :
       {std::pair{2 * sizes.expert_mlp, sizes.hidden}, std::pair{sizes.hidden, sizes.expert_mlp}}) {
    fit_layer(sizes.arriving_rows(), columns, columns_in);
    if (is_gpt_oss) fit_layer(sizes.arriving_rows(), columns_in, columns);
  }
}

void Fp8Buffers::fit_layer(std::int64_t tokens, std::int64_t columns, std::int64_t columns_in) {
  using ops::Fp8Tiles;
  const Fp8Tiles vectors = is_blockwise() ? Fp8Tiles::vectors : Fp8Tiles::whole,
                 blocks = is_blockwise() ? Fp8Tiles::blocks : Fp8Tiles::whole;
  left_.fit(tokens, columns_in, vectors);  // y = x w^T
  right_.fit(columns, columns_in, blocks);
  left_.fit(tokens, columns, vectors);  // dx = dy w
  right_.fit(columns_in, columns, blocks);
  left_.fit(columns, tokens, vectors);  // dw = dy^T x
  right_.fit(columns_in, tokens, vectors);
}

void Fp8Buffers::fit_layer(std::int64_t tokens, std::int64_t columns, std::int64_t columns_in, Memory& kept) {
  fit_layer(tokens, columns, columns_in);
  if (!keeps_gradients_) return;
  const ops::Fp8Tiles tiles = is_blockwise() ? ops::Fp8Tiles::vectors : ops::Fp8Tiles::whole;
  kept.fit(tokens, columns, tiles);  // for dx, where dw comes first
  kept.fit(columns, tokens, tiles);
}

void Fp8Buffers::Memory::fit(std::int64_t lines, std::int64_t terms, ops::Fp8Tiles tiles) {
  num_codes = std::max(num_codes, ops::num_fp8_codes(lines, terms));
  const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles, lines, terms);
  num_scales = std::max(num_scales, scale_rows * scale_columns);
}

void Fp8Buffers::lay_out(device::Arena& workspace) {
  if (!is_used()) return;
  for (Memory* memory : {&left_, &right_, &kept_of_first_, &kept_of_second_, &right_of_slices_}) {
    if (memory->num_codes > 0) memory->codes = take(workspace, DType::uint8, {memory->num_codes});
  }
  scales_ = take_scales(workspace, left_, right_);
  if (kept_of_first_.num_codes > 0) scales_of_slices_ = take_scales(workspace, kept_of_first_, right_of_slices_);
  if (kept_of_second_.num_codes > 0) {
    kept_of_second_.scales = take(workspace, DType::float32, {kept_of_second_.num_scales});
  }
}

Tensor Fp8Buffers::take_scales(device::Arena& workspace, Memory& left, Memory& right) const {
  // Those of tiles begin where the kernels of products want them.
  const std::int64_t begin = is_blockwise() ? (left.num_scales + 3) / 4 * 4 : left.num_scales;
  const Tensor both = take(workspace, DType::float32, {begin + right.num_scales});
  left.scales = both.rows(0, left.num_scales);
  right.scales = both.rows(begin, right.num_scales);
  return both;
}

ops::Fp8Matrix Fp8Buffers::view_of(const Memory& memory, std::int64_t lines, std::int64_t terms, ops::Fp8Format format,
                                   ops::Fp8Tiles tiles) {
  const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles, lines, terms);
  const std::int64_t line_codes = ops::fp8_line_codes(terms);
  return {memory.codes.rows(0, lines * line_codes).view({lines, line_codes}).columns(0, terms),
          memory.scales.rows(0, scale_rows * scale_columns).view({scale_rows, scale_columns}), format, tiles};
}

}  // namespace sft::model
