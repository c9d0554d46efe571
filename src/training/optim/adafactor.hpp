// SPDX-License-Identifier: Apache-2.0
#pragma once
// Adafactor (Shazeer & Stern 2018) with the rate of the schedule: transformers.Adafactor as its Trainer makes it,
// without relative steps, scaling by the parameter and a first moment.

#include <cstdint>
#include <vector>

#include "factored_plan.hpp"
#include "state_arrays.hpp"

namespace sft::optim {

/// Its state is small and always lies where the ops work, in float32. Ranks add up the squares of their parts of each
/// matrix, by rows and by columns, then those of the direction: two reductions in share().
class Adafactor final : public Optimizer {
 public:
  Adafactor(const config::Optimizer& keys, const parallel::ShardMap& shard_map, const StateForm& form);

  void lay_out(device::Arena& arena, device::Arena& pinned) override;
  [[nodiscard]] StateLocation master_location() const override { return form_.master_location; }
  [[nodiscard]] std::uint64_t file_bytes() const override { return arrays_.file_bytes(); }
  void open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
            const std::string& folder) override {
    arrays_.open(device, compute_stream, storage, folder);
  }
  [[nodiscard]] bool is_file_direct() const override { return arrays_.is_file_direct(); }
  [[nodiscard]] transfer::OffloadedShard* master_in_file() override { return arrays_.master_in_file(); }
  [[nodiscard]] std::vector<StateEntry> state() override;
  void zero(ops::Backend& backend) override { backend.run(ops::Fill{moments_, 0.0F}); }
  void read_ahead(Order order) override { arrays_.read_ahead(order); }
  void drain() noexcept override { arrays_.drain(); }
  [[nodiscard]] std::size_t max_shared_bytes() const override;
  void use(const StepCollectives& exchange) override { reduction_ = &exchange.reduction; }
  void begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) override;
  void share(const parallel::UnitStorage& storage, ops::Backend& backend) override;
  void step_unit(parallel::UnitIndex unit, const parallel::UnitStorage& storage, ops::Backend& backend) override;
  void end_step(const parallel::UnitStorage& storage, ops::Backend& backend) override;

 private:
  /// The new moments, and the factors that follow from them.
  void update_moments(const parallel::UnitStorage& storage, ops::Backend& backend) const;
  void add_squares(const parallel::UnitStorage& storage, ops::Backend& backend) const;
  /// All but parameters and copy.
  [[nodiscard]] ops::FactoredUpdate update_of(const FactoredPart& part, const parallel::UnitStorage& storage) const;

  const config::Optimizer keys_;
  const StateForm form_;
  const FactoredPlan plan_;
  const MomentsLayout rows_layout_{MomentsLayout::Kind::rows}, columns_layout_{MomentsLayout::Kind::columns},
      vectors_layout_{MomentsLayout::Kind::vectors};
  const bool has_vectors_;  ///< any rank
  const std::vector<FactoredWindow> windows_;
  StateArrays arrays_;  ///< of the windows, without state
  Tensor moments_;      ///< float32 (num_moments of the plan)
  Tensor sums_;         ///< float64 (num_moments): of squares
  Tensor factors_;      ///< float32 (num_moments)
  Tensor squares_;      ///< float64 (tensors): of directions
  parallel::ShardReduction* reduction_ = nullptr;
  // Of the step that is under way.
  std::int64_t step_ = 0;
  double learning_rate_ = 0.0, gradient_scale_ = 1.0;
  std::uint64_t rounding_key_ = 0;
};

}  // namespace sft::optim
