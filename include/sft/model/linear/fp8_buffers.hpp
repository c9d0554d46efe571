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

struct ActivationPolicy;
struct DecoderParameters;

/// Of the two layers of a sublayer: qkv and o, or gate_up and down. The gradients of both outputs are kept at a time.
enum class LayerOfTwo { first, second };

/// Memory for a matrix of 8-bit floats, which is undefined until it is rounded.
struct Fp8Memory {
  Tensor codes;   ///< (n) uint8, aligned to 16 bytes
  Tensor scales;  ///< (n) float32

  [[nodiscard]] bool fits(std::int64_t lines, std::int64_t terms, ops::Fp8Tiles tiles) const;
  /// What it has room for, in its first elements.
  [[nodiscard]] ops::Fp8Matrix matrix(std::int64_t lines, std::int64_t terms, ops::Fp8Format format,
                                      ops::Fp8Tiles tiles) const;
};

/// The codes of the gradient of a layer's output in the layout of the second of its two products, from the first one to
/// that: whoever calls for both has one for both.
struct GradientCodes {
  Fp8Memory memory;
  bool are_kept = false;
};

/// The operands of a product: a line for each row of the result, and for each column.
struct Fp8Operands {
  ops::ConstFp8Matrix left, right;
};

/// Memory of a pair of operands, which the next product in the same room overwrites. The second room is for slices of
/// the first layer of attention where that works on several groups of heads: in its backward pass slices of both layers
/// take turns.
enum class Fp8Room { any, slices_of_first };

/// Operands of products in fp8 and the gradients that two products read, which all layers of blocks share. Pure:
/// planning lays them out without a device.
class Fp8Buffers {
 public:
  /// For all sublayers on a rank of `sizes`. `keeps_gradients`: weights of layers are trained, so that gradients of
  /// outputs go into two products.
  Fp8Buffers(config::Fp8 way, const DecoderParameters& parameters, const Sizes& sizes, const ActivationPolicy& policy,
             bool keeps_gradients);

  // For Sublayer::fit_fp8.
  /// Makes room for all products of a layer (columns, columns_in) that so many tokens pass, and for what is kept of its
  /// gradient.
  void fit_layer(std::int64_t tokens, std::int64_t columns, std::int64_t columns_in, LayerOfTwo layer);
  /// Makes room for products of slices of a first layer (LinearRows).
  void fit_slices(std::int64_t tokens, std::int64_t columns, std::int64_t columns_in);
  /// Makes room for the products of experts, which work one after the other. `trades_places`: matrices are (columns in,
  /// columns), and so are their gradients, whose operands trade places: there is room for both.
  void fit_experts(const Sizes& sizes, bool trades_places);

  /// Takes nothing with fp8 = none; call with sizing arenas, then with real ones.
  void lay_out(device::Arena& workspace);

  [[nodiscard]] bool is_used() const { return way_ != config::Fp8::none; }
  [[nodiscard]] bool is_blockwise() const { return way_ == config::Fp8::blockwise; }

  /// Of activations and gradients.
  [[nodiscard]] ops::Fp8Tiles vectors() const { return is_blockwise() ? ops::Fp8Tiles::vectors : ops::Fp8Tiles::whole; }

  /// Of the left or right operand of a product.
  [[nodiscard]] const Fp8Memory& left(Fp8Room room) const {
    return (room == Fp8Room::any ? left_ : kept_of_first_).memory;
  }
  [[nodiscard]] const Fp8Memory& right(Fp8Room room) const {
    return (room == Fp8Room::any ? right_ : right_of_slices_).memory;
  }
  /// Of what the first of the two products of an output's gradient leaves for the second. Of experts, of which one
  /// works at a time, that of the second layer fits as many rows as this rank has tokens.
  [[nodiscard]] const Fp8Memory& kept(LayerOfTwo layer) const {
    return (layer == LayerOfTwo::first ? kept_of_first_ : kept_of_second_).memory;
  }
  /// The scales of what is kept of the first layer of some neighbouring experts of this rank: of `num_rows` rows from
  /// `first_row` on. The codes lie in the memory of their activations (ExpertSizes::act_rows).
  [[nodiscard]] Tensor expert_scales(std::int64_t first_row, std::int64_t num_rows, std::int64_t first_expert,
                                     std::int64_t num_experts) const;
  /// Unless blockwise: (2) float32, the scale of the left operand and that of the right one.
  [[nodiscard]] Tensor scales_of_both(Fp8Room room) const { return room == Fp8Room::any ? scales_ : scales_of_slices_; }

 private:
  struct SizedMemory {
    std::int64_t num_codes = 0, num_scales = 0;
    Fp8Memory memory;

    /// Makes room for a matrix in these tiles.
    void fit(std::int64_t lines, std::int64_t terms, ops::Fp8Tiles tiles);
  };

  /// Makes room for all products of a layer alone.
  void fit_products(std::int64_t tokens, std::int64_t columns, std::int64_t columns_in);
  /// Where the scales begin that are kept for rows from `row` on, of experts from `expert` on.
  [[nodiscard]] std::int64_t first_expert_scale(std::int64_t row, std::int64_t expert) const;

  /// Takes the scales of both operands, those of whole matrices side by side for tp.
  Tensor take_scales(device::Arena& workspace, SizedMemory& left, SizedMemory& right) const;

  config::Fp8 way_;
  bool keeps_gradients_;
  /// What slices of the first layer read lies where the gradient of its output is kept, which comes behind all slices.
  SizedMemory left_, right_, kept_of_first_, kept_of_second_, right_of_slices_;
  Tensor scales_;                       ///< of left and right
  Tensor scales_of_slices_;             ///< of kept_of_first and right_of_slices
  std::int64_t expert_lines_ = 0;       ///< of what is kept of an expert's first layer, up to a multiple of 4
  std::int64_t num_expert_scales_ = 0;  ///< kept
  Tensor expert_scales_;
};

}  // namespace sft::model
