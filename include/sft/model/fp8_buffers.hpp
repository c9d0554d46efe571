// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the operands of a product of a linear layer lie in 8-bit floats, for all layers in turn. Pure: planning lays it
// out without a device.

#include <cstdint>

#include "sft/config/config.hpp"
#include "sft/device/arena.hpp"
#include "sft/model/context.hpp"
#include "sft/ops/fp8.hpp"

namespace sft::model {

class Fp8Buffers {
 public:
  /// For a rank of `sizes`. At most `mlp_tile_tokens` tokens pass the layers of an MLP at a time.
  Fp8Buffers(config::Fp8 way, const config::Model& model, const Sizes& sizes, std::int64_t mlp_tile_tokens);

  /// Takes nothing with fp8 = none; call with sizing arenas, then with real ones.
  void lay_out(device::Arena& workspace);

  [[nodiscard]] bool is_used() const { return way_ != config::Fp8::none; }
  [[nodiscard]] bool is_blockwise() const { return way_ == config::Fp8::blockwise; }

  /// The left or right operand of a product, (lines, terms): undefined until it is rounded.
  [[nodiscard]] ops::Fp8Matrix left(std::int64_t lines, std::int64_t terms, ops::Fp8Format format,
                                    ops::Fp8Tiles tiles) const {
    return view_of(left_, lines, terms, format, tiles);
  }
  [[nodiscard]] ops::Fp8Matrix right(std::int64_t lines, std::int64_t terms, ops::Fp8Format format,
                                     ops::Fp8Tiles tiles) const {
    return view_of(right_, lines, terms, format, tiles);
  }
  /// Unless blockwise: (2) float32, the scale of the left operand and that of the right one.
  [[nodiscard]] Tensor scales_of_both() const { return scales_; }

 private:
  struct Memory {
    std::int64_t num_codes = 0, num_scales = 0;
    Tensor codes, scales;

    /// Makes room for a matrix in these tiles.
    void fit(std::int64_t lines, std::int64_t terms, ops::Fp8Tiles tiles);
  };

  static ops::Fp8Matrix view_of(const Memory& memory, std::int64_t lines, std::int64_t terms, ops::Fp8Format format,
                                ops::Fp8Tiles tiles);
  /// Makes room for all products of a layer (columns, columns_in) that so many tokens pass.
  void fit_layer(std::int64_t tokens, std::int64_t columns, std::int64_t columns_in);

  config::Fp8 way_;
  Memory left_, right_;
  Tensor scales_;  ///< of both
};

}  // namespace sft::model
