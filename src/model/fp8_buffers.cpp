// SPDX-License-Identifier: Apache-2.0
#include "sft/model/fp8_buffers.hpp"

#include <algorithm>
#include <utility>

#include "model/fp8_products.hpp"

namespace sft::model {

Fp8Buffers::Fp8Buffers(config::Fp8 way, const config::Model& model, const Sizes& sizes, std::int64_t mlp_tile_tokens)
    : way_(way) {
  if (!is_used()) return;
  fit_layer(sizes.tokens, sizes.qkv_columns(), sizes.hidden);
  fit_layer(sizes.tokens, sizes.hidden, sizes.q_columns());
  const std::int64_t mlp_tokens = std::min(mlp_tile_tokens, sizes.tokens), mlp = sizes.widest_mlp();
  if (mlp > 0) {
    fit_layer(mlp_tokens, 2 * mlp, sizes.hidden);
    fit_layer(mlp_tokens, sizes.hidden, mlp);
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
  const bool blockwise = is_blockwise();
  const ops::Fp8Tiles along_columns = fp8_vectors(blockwise, /*along_rows=*/false),
                      along_rows = fp8_vectors(blockwise, /*along_rows=*/true);
  left_.fit(tokens, columns_in, along_columns);  // y = x w^T
  left_.fit(tokens, columns, along_columns);     // dx = dy w
  left_.fit(tokens, columns, along_rows);        // dw = dy^T x
  right_.fit(columns, columns_in, fp8_blocks(blockwise));
  right_.fit(tokens, columns_in, along_rows);
}

void Fp8Buffers::Memory::fit(std::int64_t rows, std::int64_t columns, const ops::Fp8Tiles& tiles) {
  num_codes = std::max(num_codes, rows * columns);
  num_scales =
      std::max(num_scales, ops::Fp8Tiles::count(rows, tiles.rows) * ops::Fp8Tiles::count(columns, tiles.columns));
}

void Fp8Buffers::lay_out(device::Arena& workspace) {
  if (!is_used()) return;
  for (Memory* memory : {&left_, &right_}) memory->codes = take(workspace, DType::uint8, {memory->num_codes});
  scales_ = take(workspace, DType::float32, {left_.num_scales + right_.num_scales});
  left_.scales = scales_.rows(0, left_.num_scales);
  right_.scales = scales_.rows(left_.num_scales, right_.num_scales);
}

ops::Fp8Matrix Fp8Buffers::view_of(const Memory& memory, std::int64_t rows, std::int64_t columns, ops::Fp8Format format,
                                   ops::Fp8Tiles tiles) {
  const std::int64_t scale_rows = ops::Fp8Tiles::count(rows, tiles.rows),
                     scale_columns = ops::Fp8Tiles::count(columns, tiles.columns);
  return {memory.codes.rows(0, rows * columns).view({rows, columns}),
          memory.scales.rows(0, scale_rows * scale_columns).view({scale_rows, scale_columns}), format, tiles};
}

}  // namespace sft::model
