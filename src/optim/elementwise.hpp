// SPDX-License-Identifier: Apache-2.0
#pragma once
// Optimizers that treat every element alone: they differ in what they keep for it and in the arithmetic of a step.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sft/optim/optimizer.hpp"

namespace sft::optim {

struct Window;
class OffloadedState;

/// What sets one of them apart.
struct ElementwiseRule {
  std::vector<std::string> state;  ///< names of the numbers that it keeps for each element, two at most
  /// The arithmetic of the 1-based step.
  std::function<ops::UpdateRule(std::int64_t step, double learning_rate, double weight_decay)> at;
  /// Parameters whose gradients become directions in their place, by `direction`, instead of steps; null: none.
  std::function<bool(int unit, const parallel::Parameter&)> is_directed = {};
  ops::UpdateRule direction = {};
};

[[nodiscard]] ElementwiseRule adamw_rule(const config::Optimizer& keys);

/// Matrices alone decay.
///
/// The ops meet state that lies elsewhere a window at a time, a unit shard or a part of it: read ahead of its use, and
/// written back while the next one is worked on; to a file also while the next step has begun.
class Elementwise : public Optimizer {
 public:
  Elementwise(ElementwiseRule rule, double weight_decay, const parallel::ShardMap& shard_map, const StateForm& form);
  ~Elementwise() override;
  Elementwise(const Elementwise&) = delete;
  Elementwise& operator=(const Elementwise&) = delete;

  void lay_out(device::Arena& arena, device::Arena& pinned) override;
  [[nodiscard]] StatePlace master_place() const override { return form_.master_place; }
  [[nodiscard]] std::uint64_t file_bytes() const override;
  void open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
            const std::string& folder) override;
  [[nodiscard]] bool is_file_direct() const override { return is_file_direct_; }
  [[nodiscard]] parallel::OffloadedShard* master_in_file() override;
  [[nodiscard]] std::vector<StateEntry> state() override;
  void zero(ops::Backend& backend) override;
  void read_ahead(Order order) override;
  void drain() noexcept override;
  void begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) override;
  void step_unit(int unit, const parallel::UnitStorage& storage, ops::Backend& backend) override;
  void end_step(const parallel::UnitStorage& storage, ops::Backend& backend) override;

 protected:
  [[nodiscard]] const parallel::ShardMap& shard_map() const { return shard_map_; }
  /// Of a tensor with this key, in the step that is under way.
  [[nodiscard]] std::uint64_t rounding_key(std::uint64_t key) const;

 private:
  /// Master weights or a kind of state: where they lie, and their number among what lies there.
  struct Part {
    StatePlace place = StatePlace::device;
    std::size_t number = 0;
    Tensor in_memory = {};  ///< (rank_shard_elements), of state that lies in memory
  };

  [[nodiscard]] OffloadedState& state_at(StatePlace place) const;
  /// Calls visit(state) for what lies elsewhere.
  template <class Visit>
  void for_each_offloaded(const Visit& visit) const;
  [[nodiscard]] parallel::OffloadedShard* shard_in_file(const Part& part) const;
  /// The part of the window in its buffer, or that of `in_memory`.
  [[nodiscard]] Tensor part_of(std::size_t window, const Part& part, const Tensor& in_memory) const;
  void step_window(std::size_t window, const parallel::UnitStorage& storage, ops::Backend& backend) const;
  /// Number `position` in the step's order.
  [[nodiscard]] std::size_t window_at(std::size_t position) const;

  const ElementwiseRule rule_;
  const double weight_decay_;
  const parallel::ShardMap& shard_map_;
  const StateForm form_;
  const std::vector<Window> windows_;
  // Of the step that is under way.
  ops::UpdateRule decaying_, not_decaying_;
  double gradient_scale_ = 1.0;
  std::uint64_t rounding_key_ = 0;
  Order order_ = Order::ascending;
  std::size_t next_ = 0;  ///< position in the order
  Part master_;
  std::vector<Part> state_;                            ///< in the order of the rule's names
  std::unique_ptr<OffloadedState> in_host_, in_file_;  ///< null: nothing lies there
  bool is_file_direct_ = false;
};

}  // namespace sft::optim
