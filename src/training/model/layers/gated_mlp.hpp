// SPDX-License-Identifier: Apache-2.0
#pragma once
// An MLP, down(f(gate(x)) * up(x)) or without a gate down(f(up(x))), for the layers that have one: alone, or with
// experts.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/unit_builder.hpp"
#include "sft/model/block_buffers.hpp"
#include "sft/model/context.hpp"

namespace sft::model {

/// Declares its two layers, gate_up and down, of `width` columns between them.
[[nodiscard]] std::vector<Linear> declare_gated_mlp(UnitBuilder& unit, const config::Model& model,
                                                    const std::string& path, std::int64_t width);
/// Tokens that it works on at a time, at most.
[[nodiscard]] std::int64_t gated_mlp_tile_tokens(const Sizes& sizes, const ActivationPolicy& policy);
/// The tensors that it works in, with scratch memory of that turn.
[[nodiscard]] std::vector<SublayerTensor> gated_mlp_tensors(const Sizes& sizes, const ActivationPolicy& policy,
                                                            const std::vector<Linear>& layers, int turn = 0);

/// Its passes; see Sublayer.
class GatedMlp {
 public:
  /// `layers` outlive it.
  GatedMlp(const std::vector<Linear>& layers, const SublayerTensors& own);

  void forward(const Context& context, BlockScratch& scratch) const;
  void backward(const Context& context, BlockScratch& scratch, const std::function<void()>& start_normed) const;
  /// backward() along with others: scratch.normed is there, and this rank's term of dnormed is left to be summed over
  /// tp.
  void backward_term(const Context& context, BlockScratch& scratch) const;

 private:
  struct Tile;
  template <class Work>
  void for_each_tile(const Context& context, BlockScratch& scratch, const Work& work) const;
  /// The gradients of gate and up, in their place.
  void differentiate(const Context& context, Tile& tile) const;
  /// Then that of what the MLP reads.
  void differentiate_input(const Context& context, Tile& tile) const;
  void add_weight_gradients(const Context& context, Tile& tile) const;

  const Linear &gate_up_, &down_;
  /// (T, 2F) gate_up, its gradient after the backward pass; empty where no block keeps it. (T, F) without a gate.
  Tensor kept_;
  Tensor tile_, act_;  ///< gate_up of N tokens where no block keeps it; (N, F) the activation, or its gradient
};

}  // namespace sft::model
