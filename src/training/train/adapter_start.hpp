// SPDX-License-Identifier: Apache-2.0
#pragma once
// Adapters that begin with a part of the weights, which is taken out of these (config::AdapterInit::splits_weights:
// PiSSA, OLoRA): the model is the same at first, on every mesh the same to the bit. For each weight one rank collects
// it and computes its part, which then goes to all.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sft/comm/group.hpp"
#include "sft/config/config.hpp"
#include "sft/device/device.hpp"
#include "sft/model/linear/weight_factors.hpp"
#include "sft/rank/rank_plan.hpp"

namespace sft::train {

class AdapterStart {
 public:
  /// All references outlive it. Both verbs are collective over the world, and do nothing where adapters begin
  /// otherwise; who calls them brings up to date what follows from the parameters.
  AdapterStart(const config::Config& config, rank::RankPlan& plan, const comm::Group& world, device::Device& device,
               device::Stream& stream)
      : config_(config), plan_(plan), world_(world), device_(device), stream_(stream) {}

  /// New adapters: A and B are found, noted in TrainedPart::start and taken out of the weights.
  void begin();
  /// Takes what TrainedPart::start says out of the weights, as they were loaded.
  void go_on();

 private:
  /// An adapter, and its weight.
  struct Adapted {
    const rank::TrainedPart* trained;      ///< has a and b
    const parallel::UnitStorage* weights;  ///< has the weight
    const parallel::Parameter *a, *b, *weight;
    config::AdapterSize size;
  };
  /// A rank's memory of one part, and what lies where in it.
  struct Shard {
    const parallel::ShardMap* shard_map;
    Tensor values;
  };

  /// In the order of units, the same on all ranks.
  [[nodiscard]] std::vector<Adapted> adapted() const;
  /// What this rank owns of the parameter, as bytes for other ranks.
  [[nodiscard]] std::string owned(const Shard& shard, const parallel::Parameter& parameter);
  /// Writes what the rank has of `whole` (rows, columns) into the shard, times `factor`.
  void put(const Shard& shard, const parallel::Parameter& parameter, std::span<const float> whole, float factor);
  /// weight -= scale b a, as far as the rank has it, rounded once.
  void subtract(const Adapted& adapter, const model::WeightFactors& factors);
  /// Calls change(element of the local slice, numbers from it on) for what the rank has of the parameter, and writes
  /// the numbers back.
  template <class Change>
  void change(const Shard& shard, const parallel::Parameter& parameter, const Change& change);

  /// The weight on rank `to`, empty on others.
  [[nodiscard]] std::vector<float> collect(const Adapted& adapter, int to);

  const config::Config& config_;
  rank::RankPlan& plan_;
  const comm::Group& world_;
  device::Device& device_;
  device::Stream& stream_;
};

}  // namespace sft::train
