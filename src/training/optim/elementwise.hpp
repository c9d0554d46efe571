// SPDX-License-Identifier: Apache-2.0
#pragma once
// Optimizers that treat every element alone: they differ in what they keep for it and in the arithmetic of a step.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "packed_shard.hpp"
#include "sft/optim/optimizer.hpp"
#include "state_arrays.hpp"
#include "update_plan.hpp"

namespace sft::optim {

/// What sets one of them apart.
struct ElementwiseRule {
  std::vector<std::string> state;  ///< names of the numbers that it keeps for each element, two at most
  /// The arithmetic of the 1-based step.
  std::function<ops::UpdateRule(std::int64_t step, double learning_rate, double weight_decay)> at;
  /// Parameters that are neither stepped nor have state; null: none.
  IsParameter is_left_out = {};
};

[[nodiscard]] ElementwiseRule adamw_rule(const config::Optimizer& keys);

/// Matrices alone decay.
class Elementwise : public Optimizer {
 public:
  Elementwise(ElementwiseRule rule, double weight_decay, const parallel::ShardMap& shard_map, const StateForm& form);

  void lay_out(device::Arena& arena, device::Arena& pinned) override { arrays_.lay_out(arena, pinned); }
  [[nodiscard]] StateLocation master_location() const override { return form_.master_location; }
  [[nodiscard]] std::uint64_t file_bytes() const override { return arrays_.file_bytes(); }
  void open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
            const std::string& folder) override {
    arrays_.open(device, compute_stream, storage, folder);
  }
  [[nodiscard]] bool is_file_direct() const override { return arrays_.is_file_direct(); }
  [[nodiscard]] transfer::OffloadedShard* master_in_file() override { return arrays_.master_in_file(); }
  [[nodiscard]] std::vector<StateEntry> state() override;
  void zero(ops::Backend& backend) override { arrays_.zero(backend); }
  void read_ahead(Order order) override { arrays_.read_ahead(order); }
  void drain() noexcept override { arrays_.drain(); }
  void begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) override;
  void step_unit(parallel::UnitIndex unit, const parallel::UnitStorage& storage, ops::Backend& backend) override;
  void end_step(const parallel::UnitStorage& storage, ops::Backend& backend) override;

 protected:
  [[nodiscard]] const parallel::ShardMap& shard_map() const { return shard_map_; }
  [[nodiscard]] const std::vector<Window>& windows() const { return windows_; }
  /// The key of random rounding in the step that is under way, for a tensor with this key.
  [[nodiscard]] std::uint64_t rounding_key(std::uint64_t key) const;
  /// What the gradients of the step that is under way are scaled by.
  [[nodiscard]] double gradient_scale() const { return gradient_scale_; }
  /// Steps what is left out of a window, whose weights are `parameters`.
  virtual void step_left_out(std::size_t /*window*/, const Tensor& /*parameters*/,
                             const parallel::UnitStorage& /*storage*/, ops::Backend& /*backend*/) const {}

 private:
  /// Where the state of some elements begins, which a window has.
  [[nodiscard]] std::int64_t state_place(std::int64_t element, std::size_t window) const;
  void step_window(std::size_t window, const parallel::UnitStorage& storage, ops::Backend& backend) const;

  const ElementwiseRule rule_;
  const double weight_decay_;
  const parallel::ShardMap& shard_map_;
  const StateForm form_;
  const std::vector<Window> windows_;
  const std::optional<PackedShard> packed_;  ///< the parameters that have state, where not all have
  const PackedLayout packed_layout_;
  StateArrays arrays_;  ///< of the windows, the state in the order of the rule's names
  // Of the step that is under way.
  std::int64_t step_ = 0;
  double learning_rate_ = 0.0;
  double gradient_scale_ = 1.0;
  std::uint64_t rounding_key_ = 0;
};

}  // namespace sft::optim
