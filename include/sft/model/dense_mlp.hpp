// SPDX-License-Identifier: Apache-2.0
#pragma once
// The MLP of a dense block: down(f(gate(x)) * up(x)) with f = silu (SwiGLU, Shazeer 2020) or gelu (Gemma), in tiles of
// tokens where the policy asks for them (Bekman et al. 2025).

#include <functional>
#include <utility>

#include "sft/model/architecture.hpp"
#include "sft/model/block_buffers.hpp"
#include "sft/model/context.hpp"
#include "sft/model/mlp.hpp"

namespace sft::model {

class DenseMlp final : public Mlp {
 public:
  /// Columns of `gate_up` and rows of `down` are this rank's.
  DenseMlp(Linear gate_up, Linear down) : gate_up_(std::move(gate_up)), down_(std::move(down)) {}

  void forward(const Context& context, MlpActivations& saved, BlockScratch& scratch) const override;
  void backward(const Context& context, MlpActivations& saved, BlockScratch& scratch,
                const std::function<void()>& start_normed) const override;

  [[nodiscard]] std::vector<const Linear*> linear_layers() const override { return {&gate_up_, &down_}; }

  [[nodiscard]] const Linear& gate_up() const { return gate_up_; }
  [[nodiscard]] const Linear& down() const { return down_; }

 private:
  Linear gate_up_, down_;
};

}  // namespace sft::model
