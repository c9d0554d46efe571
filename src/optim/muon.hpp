// SPDX-License-Identifier: Apache-2.0
#pragma once
// Muon (Jordan et al. 2024), the arithmetic of torch.optim.Muon, on the matrices of the blocks; AdamW on all other
// parameters: vectors, the embedding and the head.

#include <cstdint>
#include <vector>

#include "elementwise.hpp"
#include "newton_schulz.hpp"
#include "sft/parallel/matrix_exchange.hpp"
#include "update_plan.hpp"

namespace sft::optim {

/// A step makes directions of the matrices' gradients in their place, unit by unit, each rank those of its shard. The
/// end of the step makes each direction orthogonal on the rank that has the whole of it, and moves the weights along.
class Muon final : public Elementwise {
 public:
  Muon(const config::Optimizer& keys, const parallel::ShardMap& shard_map, const StateForm& form);

  [[nodiscard]] bool needs_whole(int unit, const parallel::Parameter& parameter) const override;
  void use(const StepExchange& exchange) override { exchange_ = &exchange.matrices; }
  void lay_out(device::Arena& arena, device::Arena& pinned) override;
  void begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) override;
  void end_step(const parallel::UnitStorage& storage, ops::Backend& backend) override;

 private:
  void orthogonalize(const parallel::WholeMatrix& matrix, ops::Backend& backend) const;
  /// Of the learning rate, for a matrix of this shape.
  [[nodiscard]] double rate_factor(const parallel::Parameter& parameter) const;

  const config::Optimizer keys_;
  const std::vector<ParameterRun> matrix_runs_;
  NewtonSchulz newton_schulz_;
  Tensor squares_;  ///< float64 (1): of the norm of a direction
  parallel::MatrixExchange* exchange_ = nullptr;
  double learning_rate_ = 0.0;  ///< of the step that is under way
};

}  // namespace sft::optim
