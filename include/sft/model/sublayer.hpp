// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every kind of MLP of a block does. The block around it has the residual stream, the norms and the sums over tp
// of what it adds; LayerPlan::MlpKind names the kinds, and block_buffers.hpp has their memory.

#include <functional>
#include <vector>

namespace sft::model {

struct Context;
struct Linear;
struct MlpActivations;
struct BlockScratch;

/// Forward and backward are collective over the tp group, within the unit that has the parameters, which is in use.
class Mlp {
 public:
  virtual ~Mlp() = default;

  /// scratch.delta (T, C) = this rank's term of what the MLP gives for scratch.normed (T, C): TensorParallel::reduce
  /// follows. `saved` gets what backward() reads, as far as the policy keeps it.
  virtual void forward(const Context& context, MlpActivations& saved, BlockScratch& scratch) const = 0;
  /// Of scratch.dbranch (T, C), the gradient of what the MLP gives: the slice of scratch.dnormed (T, C), summed over
  /// tp, and the gradients of its parameters. `start_normed` writes scratch.normed again and starts its gather over tp
  /// (TensorParallel::finish ends it): it is called once. What the policy did not keep is computed again from that.
  virtual void backward(const Context& context, MlpActivations& saved, BlockScratch& scratch,
                        const std::function<void()>& start_normed) const = 0;
  /// Its layers that may have adapters.
  [[nodiscard]] virtual std::vector<const Linear*> linear_layers() const { return {}; }
};

}  // namespace sft::model
