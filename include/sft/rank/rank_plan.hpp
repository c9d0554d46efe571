// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything of one rank that has a size: what it stores, what it buffers, what it keeps. Pure: any rank of any mesh,
// without its device, its communicators or its memory.

#include <cstdint>
#include <memory>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/ledger.hpp"
#include "sft/mesh/place.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/decoder_buffers.hpp"
#include "sft/optim/gradient_norm.hpp"
#include "sft/optim/optimizer.hpp"
#include "sft/parallel/matrix_assignment.hpp"
#include "sft/parallel/sequence_attention.hpp"
#include "sft/parallel/unit_buffers.hpp"
#include "sft/rank/machine.hpp"
#include "sft/rank/upload.hpp"
#include "sft/rows/micro_batch_limits.hpp"

namespace sft::rank {

/// A part with gradients, and what steps it: each has an optimizer of its own.
struct TrainedPart {
  parallel::UnitStorage& storage;
  std::unique_ptr<optim::Optimizer> optimizer;
  parallel::MatrixAssignment matrices;  ///< that the optimizer needs whole
  /// Where adapters begin with a part of the weights (config::AdapterInit::splits_weights): what they began with, of B
  /// the negative, as tensors of their own. Else none.
  std::unique_ptr<parallel::StoredLayout> start_layout = {};
  Tensor start = {};  ///< in the node's memory: as the rank shard, in the dtype of the parameters

  [[nodiscard]] const parallel::ShardMap& shard_map() const { return storage.shard_map(); }
};

class RankPlan {
 public:
  struct Arenas {
    device::Arena parameters, gradients, optimizer, unit_buffers, activations, workspace, communication;
    device::Arena host_copies;                    ///< what travels between GPUs through host memory
    device::Arena gathered_units, reduced_units;  ///< unit buffers for collectives over fsdp alone
    /// Of experts, which share memory in groups of their own.
    device::Arena expert_gradients, gathered_experts, reduced_experts;
    device::Arena tp_sums;          ///< workspace that is summed over tp
    device::Arena offloaded;        ///< activations in host memory
    device::Arena pinned;           ///< host memory that the device copies from and to
    device::Arena host_parameters;  ///< those in host memory
    device::Arena host_optimizer;   ///< moments in host memory, and windows of state in a file
    device::Arena snapshot;         ///< a copy of what this rank saves
  };

  /// For rank place.rank() training on micro-batches within `limits`. `config` outlives
  /// it.
  RankPlan(const config::ValidConfig& config, const rows::MicroBatchLimits& limits, const mesh::Place& place,
           const Machine& machine);
  RankPlan(const RankPlan&) = delete;
  RankPlan& operator=(const RankPlan&) = delete;

  /// Gives every part its memory: over sizing arenas, then over real ones. The one place that knows what lies where.
  void lay_out(Arenas& arenas);
  /// The sizing pass: what real arenas must hold is used_bytes() of each.
  [[nodiscard]] Arenas measure();

  /// What a checkpoint holds, of which this rank holds its part: the weights that are trained, of a model that is
  /// trained whole its constants, and what the optimizer keeps. Behind lay_out().
  [[nodiscard]] std::vector<checkpoint::Entry> saved_entries() const;

  /// Bytes of this rank's state in files.
  [[nodiscard]] std::uint64_t offloaded_bytes() const {
    std::uint64_t bytes = 0;
    for (const TrainedPart& part : trained) bytes += part.optimizer->file_bytes();
    return bytes;
  }

  /// What the process will take beside the arenas after the plan was made, batches and the machine code of
  /// products (plan_products) left out.
  [[nodiscard]] std::size_t later_process_bytes() const;

  /// Whether units are stepped under the backward pass: where that saves memory, or state in files is read and written
  /// beside it.
  [[nodiscard]] bool updates_early() const;
  /// Whether units are stepped on a stream of their own, under the next forward pass (Updates).
  [[nodiscard]] bool updates_beside() const;
  /// Whether the gradient norm is summed on that stream, under the backward pass.
  [[nodiscard]] bool norms_beside() const { return ends_beside() && !gradients_leave; }
  /// Whether the end of a step has that stream: on GPUs.
  [[nodiscard]] bool ends_beside() const { return machine.kind == device::Kind::cuda; }

  [[nodiscard]] parallel::ParameterCounts num_parameters() const {
    parallel::ParameterCounts counts{.all = 0, .trainable = 0};
    for (const parallel::UnitStorage& stored : parts) {
      const std::int64_t n = stored.shard_map().num_parameters();
      counts.all += n;
      if (stored.part().has_gradient) counts.trainable += n;
    }
    return counts;
  }

  const mesh::Place place;
  const Machine machine;
  const comm::Transport::Way way;  ///< in which tensors travel
  const rows::MicroBatchLimits limits;
  const model::Sizes sizes;
  const std::shared_ptr<const model::Architecture> architecture;
  const parallel::ShardingPolicy policy;
  parallel::StoredParts parts;  ///< all parts of the architecture, in its order
  const parallel::SlotAssignment slots;
  parallel::UnitBuffers unit_buffers;
  model::DecoderBuffers decoder;
  std::unique_ptr<parallel::SequenceBuffers> attention;
  std::vector<TrainedPart> trained;  ///< those of `parts` with gradients: one at least
  /// Whether a unit may be stepped as soon as its gradient is summed, under the backward pass. Not where something has
  /// to be known of all gradients first: their norm, what an optimizer shares, sums over tp, that they are finite.
  const bool steps_early;
  /// Whether units are stepped so and, as a step has one micro-batch, share memory for their gradients.
  const bool gradients_leave;
  const bool repeats_launches;  ///< repeats_launches

  UploadBuffers upload;
  comm::StagingMemory staging;
  Tensor results;             ///< (model::Metric::count + 1) float64: metrics, then the sum of squared gradients
  Tensor downloaded_results;  ///< the same in pinned memory
  Tensor ops_workspace;
  Tensor step_workspace;  ///< of the ops on the stream that ends a step; empty without
  Tensor tp_wire;         ///< bf16: what is summed over tp, as it travels; empty where that is in float32
  Tensor snapshot;        ///< bytes, in pinned memory: of a checkpoint::Snapshot; empty where checkpoints wait for none

 private:
  void note_starts(const config::Lora& lora);

  const bool is_lora_, has_dropout_, has_snapshot_;
  const DType tp_reduce_;
  std::size_t start_bytes_ = 0;  ///< while adapters begin with a part of the weights
};

/// Calls visit(label, space, arena) for each.
template <class Visit>
void for_each_arena(RankPlan::Arenas& arenas, const Visit& visit) {
  using device::Label;
  using device::Space;
  visit(Label::parameters, Space::device, arenas.parameters);
  visit(Label::parameters, Space::pinned, arenas.host_parameters);
  visit(Label::gradients, Space::device, arenas.gradients);
  visit(Label::gradients, Space::device, arenas.expert_gradients);
  visit(Label::optimizer, Space::device, arenas.optimizer);
  visit(Label::optimizer, Space::pinned, arenas.host_optimizer);
  visit(Label::unit_buffers, Space::device, arenas.unit_buffers);
  visit(Label::unit_buffers, Space::device, arenas.gathered_units);
  visit(Label::unit_buffers, Space::device, arenas.reduced_units);
  visit(Label::unit_buffers, Space::device, arenas.gathered_experts);
  visit(Label::unit_buffers, Space::device, arenas.reduced_experts);
  visit(Label::activations, Space::device, arenas.activations);
  visit(Label::workspace, Space::device, arenas.workspace);
  visit(Label::workspace, Space::device, arenas.tp_sums);
  visit(Label::communication, Space::device, arenas.communication);
  visit(Label::communication, Space::pinned, arenas.host_copies);
  visit(Label::activations, Space::pinned, arenas.offloaded);
  visit(Label::workspace, Space::pinned, arenas.pinned);
  visit(Label::snapshot, Space::pinned, arenas.snapshot);
}

}  // namespace sft::rank
