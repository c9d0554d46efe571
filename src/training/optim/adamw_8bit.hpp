// SPDX-License-Identifier: Apache-2.0
#pragma once
// AdamW with moments in 8 bits (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"), the arithmetic
// of bitsandbytes.optim.AdamW8bit; in float32 for what is_blockwise() leaves out.

#include <array>
#include <cstdint>
#include <vector>

#include "block_layouts.hpp"
#include "block_plan.hpp"
#include "joined_shard.hpp"
#include "state_arrays.hpp"

namespace sft::optim {

/// Scales, and the codes of cut blocks, always lie where the ops work: share() needs these before any unit is stepped.
class Adamw8bit final : public Optimizer {
 public:
  Adamw8bit(const config::Optimizer& keys, const parallel::ShardMap& shard_map, const StateForm& form);

  void lay_out(device::Arena& arena, device::Arena& pinned) override;
  [[nodiscard]] StateLocation master_location() const override { return form_.master_location; }
  [[nodiscard]] std::uint64_t file_bytes() const override { return arrays_.file_bytes(); }
  void open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
            const std::string& folder) override;
  [[nodiscard]] bool is_file_direct() const override { return arrays_.is_file_direct(); }
  [[nodiscard]] transfer::OffloadedShard* master_in_file() override { return arrays_.master_in_file(); }
  [[nodiscard]] std::vector<StateEntry> state() override;
  void zero(ops::Backend& backend) override;
  void read_ahead(Order order) override { arrays_.read_ahead(order); }
  void drain() noexcept override { arrays_.drain(); }
  [[nodiscard]] std::size_t max_shared_bytes() const override { return num_maxima() * sizeof(float); }
  void use(const StepCollectives& exchange) override { reduction_ = &exchange.reduction; }
  void begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) override;
  void share(const parallel::UnitStorage& storage, ops::Backend& backend) override;
  void step_unit(parallel::UnitIndex unit, const parallel::UnitStorage& storage, ops::Backend& backend) override;
  void end_step(const parallel::UnitStorage& storage, ops::Backend& backend) override;

 private:
  /// What there is of each moment.
  struct Moment {
    Tensor cut_codes;  ///< uint8 (num_cut_codes of the plan)
    Tensor scales;     ///< float32: of whole blocks, then a slot for each cut one
    Tensor maxima;     ///< float32 (slots): the new scales of cut blocks, in a step
  };
  static constexpr std::size_t num_moments = 2;

  /// How many maxima the ranks agree on: of cut blocks, for both moments.
  [[nodiscard]] std::int64_t num_maxima() const { return 2 * cuts_.num_slots(); }
  [[nodiscard]] ops::UpdateRule rule_of(const parallel::Parameter& parameter) const;
  /// All but parameters and copy.
  [[nodiscard]] ops::Update update_of(const BlockRun& run, const parallel::UnitStorage& storage) const;
  /// The step of a cut run, all but parameters and copy.
  [[nodiscard]] ops::BlockwiseUpdate cut_update_of(const BlockRun& run, const parallel::UnitStorage& storage) const;
  void step_window(std::size_t window, const parallel::UnitStorage& storage, ops::Backend& backend) const;

  const config::Optimizer keys_;
  const StateForm form_;
  const BlockCuts cuts_;
  const BlockPlan plan_;
  const FloatsLayout floats_layout_{cuts_};
  const CodesLayout codes_layout_{cuts_};
  const ScalesLayout scales_layout_{cuts_};
  const bool has_floats_, has_blocks_;  ///< any rank
  const std::vector<BlockWindow> windows_;
  StateArrays arrays_;  ///< the codes of whole blocks of both moments, then the numbers of both
  std::array<Moment, num_moments> moments_;
  std::vector<JoinedShard> codes_;  ///< of each moment, all of them
  Tensor maxima_;                   ///< those of both moments
  parallel::ShardReduction* reduction_ = nullptr;
  // Of the step that is under way.
  std::int64_t step_ = 0;
  double learning_rate_ = 0.0, gradient_scale_ = 1.0;
  std::uint64_t rounding_key_ = 0;
};

}  // namespace sft::optim
