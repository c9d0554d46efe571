// SPDX-License-Identifier: Apache-2.0
#pragma once
// The MLP of a dense block: down(f(gate(x)) * up(x)) with f = silu (SwiGLU, Shazeer 2020) or gelu (Gemma), in tiles of
// tokens where the policy asks for them (Bekman et al. 2025).

#include <cstdint>
#include <functional>
#include <utility>

#include "sft/model/architecture.hpp"
#include "sft/model/block_buffers.hpp"
#include "sft/model/context.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

class DenseMlp final : public Mlp {
 public:
  /// Rows of `gate_up` and columns of `down` are this rank's: 2F and F, with F in the member `width` of Sizes.
  DenseMlp(Linear gate_up, Linear down, std::int64_t Sizes::*width = &Sizes::mlp)
      : gate_up_(std::move(gate_up)), down_(std::move(down)), width_(width) {}

  void forward(const Context& context, MlpActivations& saved, BlockScratch& scratch) const override;
  void backward(const Context& context, MlpActivations& saved, BlockScratch& scratch,
                const std::function<void()>& start_normed) const override;
  /// backward() of an MLP that stands beside others: scratch.normed is there, and this rank's term of dnormed is left
  /// to be summed over tp.
  void backward_term(const Context& context, MlpActivations& saved, BlockScratch& scratch) const;

  [[nodiscard]] std::vector<const Linear*> linear_layers() const override { return {&gate_up_, &down_}; }

  [[nodiscard]] const Linear& gate_up() const { return gate_up_; }
  [[nodiscard]] const Linear& down() const { return down_; }

 private:
  struct Tile;
  template <class Work>
  void for_each_tile(const Context& context, MlpActivations& saved, BlockScratch& scratch, const Work& work) const;
  /// The gradients of gate and up, in their place.
  void differentiate(const Context& context, Tile& tile, bool recomputes) const;
  /// Then that of what the MLP reads.
  void differentiate_input(const Context& context, Tile& tile) const;
  void add_weight_gradients(const Context& context, Tile& tile) const;

  Linear gate_up_, down_;
  std::int64_t Sizes::*width_;
};

}  // namespace sft::model
