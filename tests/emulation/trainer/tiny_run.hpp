// SPDX-License-Identifier: Apache-2.0
#pragma once
// Some steps of a tiny model on a mesh, on CPUs or on GPUs.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "equivalence/mesh_table.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/config/config.hpp"
#include "sft/core/dtype.hpp"
#include "sft/device/kind.hpp"
#include "sft/device/launch_tape.hpp"
#include "sft/ops/backend.hpp"
#include "support/mesh.hpp"

namespace sft::test {

/// What is trained; the mesh's sizes, the data and the optimizer are the same for all runs of a case.
struct TinyRun {
  test::Layout layout;  ///< dp_replicate x dp_shard x sp x tp
  int ep_size = 1;
  Family family = Family::llama;
  std::int64_t head_dim = 0;  ///< 0: the family's
  config::Precision precision = config::Precision::fp32;
  config::Fp8 fp8 = config::Fp8::none;
  config::OptimizerKind optim = config::OptimizerKind::adamw_torch;
  DType moments_dtype = DType::float32;
  int zero_stage = 3;
  DType reduce_dtype = DType::float32, tp_reduce = DType::float32;  ///< in which sums travel
  std::optional<bool> tp_sequence_parallel = {};
  int reshard_size = 1;  ///< neighbours that keep a unit for the backward pass; 1: none
  config::SpMethod sp_method = config::SpMethod::ring;
  int ulysses_size = 0;
  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::none;
  bool offloads_activations = false, activations_go_to_files = false;
  int num_layers = 0;   ///< 0: 4 where activations are offloaded, of which the last two stay, else 2
  int head_groups = 1;  ///< that attention works on one after the other
  config::Offload offload_optimizer = config::Offload::none;
  config::Offload offload_parameters = config::Offload::none;
  std::string offload_folder = {};  ///< for files: of state, and of the activations of CPUs
  bool has_adapters = false;        ///< with dropout; with experts they have some, too, and none drops
  int accumulation = 1;
  double max_grad_norm = 1.0;
  config::NanPolicy nan_policy = config::NanPolicy::stop;
  int mlp_tile_tokens = 0;
  config::AttentionChoice attention = config::AttentionChoice::automatic;
  std::optional<bool> cuda_graphs = {};
  int num_experts = 0;  ///< of each layer, two of which a token goes through; 0: none
  comm::Transport::Way way = comm::Transport::Way::direct;
  std::int64_t first_step = 0, num_steps = 2;    ///< steps [first_step, num_steps) of those that the data has
  std::string resumes_from = {}, saves_to = {};  ///< folders of checkpoints: before the first step, behind the last
  bool evaluates = true;
  std::int64_t max_length = 24;  ///< cuts into the chunks of 4 ranks
  bool lengths_vary = false;     ///< every other step has rows that are a token shorter
  bool fills_rows = false;       ///< what is left behind the documents of a row is one more

  [[nodiscard]] mesh::Layout mesh() const;
  [[nodiscard]] std::string name() const;
};

/// What it leaves. Bits of a rank's shards are its own; the rest is the same on all ranks.
struct TinyOutcome {
  std::vector<double> losses, grad_norms;
  double evaluation = 0.0;                    ///< sum of the weighted negative log-likelihoods of this rank's last rows
  std::vector<std::vector<std::byte>> state;  ///< weights and moments
  device::LaunchTape::Counts launches = {};   ///< of the passes; none where they are not put off
  ops::LibraryCalls library_calls = {};       ///< of this rank
};

/// Ranks take the GPUs of their node in turn. Where these are fewer they share them, and all tensors go through the
/// host. Collective over the world.
[[nodiscard]] TinyOutcome run(const TinyRun& tiny, device::Kind kind, const comm::Session& session);

}  // namespace sft::test
