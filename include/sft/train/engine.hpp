// SPDX-License-Identifier: Apache-2.0
#pragma once
// One training step of the whole machine: the model, its shards, its optimizer and the groups it talks in.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/device/ledger.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/matmul_algorithms.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/rows/batch.hpp"
#include "sft/rows/micro_batch_limits.hpp"

namespace sft::train {

/// Of the routers of a step's micro-batches (model::RouterBalance).
struct RouterResult {
  double aux_loss = 0.0;          ///< mean of the micro-batches', without its coefficient
  double expert_imbalance = 0.0;  ///< model::expert_imbalance of all of them together
};

/// What one optimizer step did; alike on every rank.
struct StepResult {
  double loss = 0.0;       ///< sum w nll / sum w over the global batch, no auxiliary loss; 0 without a target
  double grad_norm = 0.0;  ///< before clipping
  double mean_token_accuracy = 0.0;
  double entropy = 0.0;  ///< of the predictions, mean over target tokens, nats
  std::int64_t num_tokens = 0;
  std::int64_t num_target_tokens = 0;
  double model_flops = 0.0;                  ///< of the step, all ranks; see docs/formats.md
  std::optional<RouterResult> routers = {};  ///< of a model with experts
  /// Why nan_policy = skip left the step out: where something was NaN or Inf. The numbers of the step, but counts of
  /// its tokens and its FLOPs, mean nothing then. Empty: it was done.
  std::string left_out = "";
};

/// The gradient of one part of the model, float32 (rank_shard_elements of its map).
struct PartGradients {
  const parallel::ShardMap* shard_map;
  Tensor tensor;
};

/// Sums over the rows of evaluation batches: of one rank, until it adds those of the others.
struct EvalSums {
  double weighted_nll = 0.0, weight = 0.0;  ///< over target tokens
  double num_right = 0.0, entropy = 0.0;    ///< over target tokens: predicted right; entropy of the prediction, nats
  double num_tokens = 0.0, num_target_tokens = 0.0;

  EvalSums& operator+=(const EvalSums& other);
};

/// A step is begin_step, a call of add_micro_batch for each micro-batch, and finish_step. These, evaluate and the
/// constructor are collective over the world, and all ranks take the same steps. All other calls are local.
class Engine {
 public:
  /// Plans and allocates everything, for micro-batches within `limits`; parameters are uninitialized until initialize()
  /// or a load. The ledger gets all of it but the machine code of products (rank::plan_products). `algorithms`:
  /// null, or of a GPU's products; outlives the engine. Not inside Group::agree. Where a rank has no memory, or no room
  /// for its files, every rank throws the same comm::SharedError; the collectives are of no use then.
  Engine(const config::ValidConfig& config, const rows::MicroBatchLimits& limits, const mesh::Place& place,
         const mesh::Groups& groups, device::Device& device, comm::Collectives& collectives, device::Ledger& ledger,
         const ops::MatmulAlgorithms* algorithms = nullptr);
  ~Engine();

  /// Whether a run begins, or goes on with the adapters of a checkpoint that is loaded next.
  enum class Start { anew, from_checkpoint };
  /// Random initial weights from init_seed, the same on any mesh; zero moments. Collective over the world.
  void initialize(Start start = Start::anew);
  /// Begins the 1-based `step` (bias correction), of `learning_rate`, and forgets the gradients of the last one. That
  /// one may be unfinished: weights and moments are then as if it had never begun, as long as add_micro_batch did not
  /// step them. `counts`: of this data rank's rows in all micro-batches of the step. `num_skipped`: steps before it
  /// that were left out, which the optimizer does not count.
  void begin_step(std::int64_t step, double learning_rate, const rows::BatchCounts& counts,
                  std::int64_t num_skipped = 0);
  /// Forward and backward pass of the step's next micro-batch, of gradient_accumulation_steps. Weights and moments stay
  /// as they are, unless steps_early(): then the last micro-batch steps them.
  void add_micro_batch(const rows::MicroBatch& batch);
  /// Whether units are stepped under the backward pass (rank::RankPlan::steps_early), because state lies in files or a
  /// step has one micro-batch, whose gradients leave so.
  [[nodiscard]] bool steps_early() const;
  /// Whether what repeats of a micro-batch's work is queued by one launch (rank::repeats_launches).
  [[nodiscard]] bool repeats_launches() const;
  /// Reduction, clipping and the update. Throws a numerical Error, held by every rank, naming step and rank when loss
  /// or norm is NaN or Inf; the weights are then untouched, unless add_micro_batch stepped them. With nan_policy = skip
  /// such a step is left out instead: weights and all state of the optimizer stay as they were before it, to the bit.
  [[nodiscard]] StepResult finish_step();
  /// The forward pass over a micro-batch with the weights as they are. Every row and token counts on one rank alone, so
  /// that the ranks' sums can be added up. Nothing that a later step reads changes.
  [[nodiscard]] EvalSums evaluate(const rows::MicroBatch& batch);
  /// Logits (T, V) of one row, on one rank without parallelism: for generation and tests.
  [[nodiscard]] std::vector<float> logits(const std::vector<std::int32_t>& tokens, bool last_only);

  [[nodiscard]] parallel::ParameterCounts num_parameters() const;
  /// Bytes of this rank's state in files.
  [[nodiscard]] std::uint64_t offloaded_bytes() const;
  /// And of its activations.
  [[nodiscard]] std::uint64_t activation_file_bytes() const;
  /// What a checkpoint holds, in memory of the engine, which the state must not outlive; after writing to it call
  /// refresh(). The entries are model, with LoRA adapter in its place, and what the optimizers keep: one of a name for
  /// each part that is trained.
  [[nodiscard]] checkpoint::State state() const;
  /// Memory of a checkpoint::Snapshot of state(), as checkpoint.async asks for it; empty where it does not.
  [[nodiscard]] Tensor snapshot_memory() const;
  /// All weights but adapters, as entries model, in the same way: one for each part, with LoRA also for copies of some
  /// of them that are trained.
  [[nodiscard]] checkpoint::State weights() const;
  /// With LoRA: the adapters, as entries adapter, in the same way.
  [[nodiscard]] checkpoint::State adapter() const;
  /// What weights that come from elsewhere do not bring: the state of an optimizer that begins and, with LoRA, new
  /// adapters. After these weights are loaded. Collective over the world.
  void initialize_beside_weights(Start start = Start::anew);
  /// Takes out of the frozen weights what the adapters of the checkpoint began with (init_lora_weights = pissa, olora),
  /// which was loaded behind an initialize() from_checkpoint. Once; nothing where adapters began otherwise. Collective
  /// over the world.
  void split_weights_as_saved();
  /// What carries the ops. Whoever reads or writes tensors of state(), weights(), adapter() or gradients() asks for it
  /// behind the last finish_step(), and queues that here: it comes behind the updates, which on GPUs may still run.
  [[nodiscard]] device::Stream& stream();
  [[nodiscard]] ops::Backend& backend();

  /// The gradients of the last step before clipping, of each part that is trained, but of matrices that the optimizer
  /// needs whole, whose step it is: for tests. Throws std::logic_error where they have left (steps_early).
  [[nodiscard]] std::vector<PartGradients> gradients() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sft::train
