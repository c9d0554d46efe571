// SPDX-License-Identifier: Apache-2.0
#pragma once
// What works in memory that a plan has laid out, made in one place: for training and generation on a device, and for
// counting what a rank would send, without one.

#include <deque>
#include <memory>

#include "sft/comm/collectives.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/model/decoder.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/expert_exchange.hpp"
#include "sft/parallel/matrix_exchange.hpp"
#include "sft/parallel/sequence_attention.hpp"
#include "sft/parallel/shard_reduction.hpp"
#include "sft/parallel/sharded_units.hpp"
#include "sft/parallel/tensor_parallel.hpp"
#include "sft/rank/rank_plan.hpp"
#include "sft/rank/tools.hpp"

namespace sft::rank {

/// The streams of a rank, named for timelines; docs/architecture.md says what each carries.
struct Streams {
  explicit Streams(device::Device& device);
  /// Waits for all of them, for destructors: before what their work refers to goes.
  void drain() const noexcept;

  std::unique_ptr<device::Stream> compute, comm, gathers, ring, tp, experts, optimizer;
};

/// Where a decoder's units lie: what a rank stores of them, and where they are whole.
struct UnitMemory {
  const parallel::StoredParts& parts;
  const parallel::UnitBuffers& buffers;
  const parallel::ShardingPolicy& policy;
  const parallel::SlotAssignment& slots;
};

/// What any decoder needs beside its own memory: ops, whole units, sums over tp.
struct UnitWorkers {
  /// All that is referred to but `tools` outlives it; the memory is laid out. `cuts_tokens`, `tp_wire`: as
  /// TensorParallel's. `repeats_launches`: of ops on the compute stream, which can record them (repeats_launches).
  /// Local.
  UnitWorkers(const UnitMemory& memory, const mesh::Groups& groups, bool cuts_tokens, const Tensor& tp_wire,
              device::Device& device, comm::Collectives& collectives, const Tools& tools,
              ops::AttentionKernels attention = ops::AttentionKernels::own, bool repeats_launches = false);
  UnitWorkers(const UnitWorkers&) = delete;
  UnitWorkers& operator=(const UnitWorkers&) = delete;

  Streams streams;
  std::unique_ptr<ops::Backend> ops;
  parallel::TensorParallel tp;
  parallel::ShardedUnits units;
  parallel::ExpertExchange experts;
};

/// What the optimizer of a TrainedPart asks for.
struct StepWorkers {
  /// References outlive it.
  StepWorkers(const TrainedPart& part, const mesh::Groups& groups, ops::Backend& ops, comm::Collectives& collectives)
      : matrices(part.matrices, part.storage, groups, ops, collectives),
        reduction(groups, ops, collectives, part.storage.part().groups.shards) {}

  parallel::MatrixExchange matrices;
  parallel::ShardReduction reduction;
};

/// All that works in the memory of a RankPlan but its optimizers: a decoder that is ready for its first pass, and the
/// exchanges that an optimizer asks for.
struct RankWorkers : UnitWorkers {
  /// `plan` is laid out; it, `config`, which it was made from, and all else that is referred to but `tools` outlive the
  /// workers. Local. Throws what `tools` throw.
  RankWorkers(RankPlan& plan, const config::Config& config, const mesh::Groups& groups, device::Device& device,
              comm::Collectives& collectives, const Tools& tools);

  /// Ops on the stream of the optimizer (Updates); null where a step ends on the compute stream.
  std::unique_ptr<ops::Backend> step_ops;
  std::deque<StepWorkers> steps;  ///< by RankPlan::trained
  std::unique_ptr<parallel::SequenceAttention> attention;
  std::unique_ptr<transfer::Mover> activations;  ///< of blocks that are offloaded; null: none is
  model::Decoder decoder;
};

}  // namespace sft::rank
