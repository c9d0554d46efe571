// SPDX-License-Identifier: Apache-2.0
#pragma once
// Muon (Jordan et al. 2024), the arithmetic of torch.optim.Muon, on the matrices of the blocks; AdamW on all other
// parameters: vectors, the embedding and the head.

#include <cstdint>
#include <string>
#include <vector>

#include "elementwise.hpp"
#include "newton_schulz.hpp"
#include "packed_shard.hpp"
#include "sft/parallel/matrix_exchange.hpp"
#include "state_arrays.hpp"
#include "update_plan.hpp"

namespace sft::optim {

/// share() makes directions of the matrices' gradients in their place, each rank those of its shard, then makes each
/// orthogonal on the rank that has the whole of it. A step of a unit moves the weights along. The matrices have a
/// momentum, all others AdamW's two moments.
class Muon final : public Elementwise {
 public:
  Muon(const config::Optimizer& keys, const parallel::ShardMap& shard_map, const StateForm& form);

  void lay_out(device::Arena& arena, device::Arena& pinned) override;
  [[nodiscard]] std::uint64_t file_bytes() const override { return Elementwise::file_bytes() + momentum_.file_bytes(); }
  void open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
            const std::string& folder) override;
  [[nodiscard]] std::vector<StateEntry> state() override;
  void zero(ops::Backend& backend) override;
  void read_ahead(Order order) override;
  void drain() noexcept override;
  [[nodiscard]] bool needs_whole(parallel::UnitIndex unit, const parallel::Parameter& parameter) const override;
  void use(const StepCollectives& exchange) override { exchange_ = &exchange.matrices; }
  void begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) override;
  void share(const parallel::UnitStorage& storage, ops::Backend& backend) override;

 private:
  /// The directions, before they are orthogonal.
  void make_directions(std::size_t window, const parallel::UnitStorage& storage, ops::Backend& backend) const;
  void orthogonalize(const parallel::WholeMatrix& matrix, ops::Backend& backend) const;
  void step_left_out(std::size_t window, const Tensor& parameters, const parallel::UnitStorage& storage,
                     ops::Backend& backend) const override;
  /// What the learning rate is multiplied with for a matrix of this shape.
  [[nodiscard]] double rate_factor(const parallel::Parameter& parameter) const;

  const config::Optimizer keys_;
  const IsParameter is_matrix_;
  const PackedShard matrices_;
  const PackedLayout matrices_layout_;
  const std::vector<std::vector<ParameterRun>> matrix_runs_;  ///< of each window
  StateArrays momentum_;                                      ///< of the windows; its weights are not used
  NewtonSchulz newton_schulz_;
  Tensor squares_;  ///< float64 (1): of the norm of a direction
  parallel::MatrixExchange* exchange_ = nullptr;
  // Of the step that is under way.
  double learning_rate_ = 0.0;
  Order order_ = Order::ascending;
};

}  // namespace sft::optim
