// SPDX-License-Identifier: Apache-2.0
#include "tiny_run.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/device/factory.hpp"
#include "sft/machine/gpus.hpp"
#include "sft/train/engine.hpp"
#include "support/engine_fixture.hpp"

namespace sft::test {

namespace {

constexpr double learning_rate = 1e-2;

config::Config config_of(const TinyRun& tiny, device::Kind kind, comm::Transport::Way way) {
  config::Config config;
  config.device.backend = kind == device::Kind::cuda ? config::BackendChoice::cuda : config::BackendChoice::cpu;
  if (way == comm::Transport::Way::host_copy) config.device.comm = config::CommChoice::host;
  if (way == comm::Transport::Way::cuda_mpi) config.device.comm = config::CommChoice::mpi;
  config.model = model_of(tiny.family);
  if (tiny.head_dim > 0) config.model.head_dim = tiny.head_dim;
  config.model.num_hidden_layers = tiny.num_layers > 0 ? tiny.num_layers : tiny.offloads_activations ? 4 : 2;
  if (tiny.optim == config::OptimizerKind::adamw_8bit) config.model.intermediate_size = 192;  // has blocks
  if (tiny.num_experts > 0) {
    config.model.num_experts = tiny.num_experts;
    config.model.num_experts_per_tok = 2;
    config.model.moe_intermediate_size = 16;
    config.model.norm_topk_prob = true;
    config.model.router_aux_loss_coef = 0.01;
  }
  config.lora.use_peft = tiny.has_adapters;
  config.lora.lora_r = 4;
  config.lora.lora_dropout = 0.2;
  config.lora.use_dora = tiny.has_adapters && tiny.family == Family::llama && tiny.fp8 == config::Fp8::none;
  if (tiny.has_adapters && tiny.num_experts > 0) {
    config.lora.lora_target_parameters = {"experts.gate_up_proj", "experts.down_proj"};
    config.lora.lora_r = 8;  // rows of whole loads, which products of groups of experts ask for
    config.lora.lora_dropout = 0.0;
    config.lora.init_lora_weights.kind = config::LoraInit::linear;
  }
  config.parallel.zero_stage = tiny.zero_stage;
  config.parallel.reduce_dtype = tiny.reduce_dtype;
  config.parallel.tp_reduce = tiny.tp_reduce;
  config.parallel.tp_sequence_parallel = tiny.tp_sequence_parallel;
  if (tiny.reshard_size > 1) config.parallel.reshard_after_forward = config::Reshard::to_groups;
  config.parallel.reshard_size = tiny.reshard_size;
  config.parallel.sp_method = tiny.sp_method;
  config.parallel.ulysses_size = tiny.ulysses_size;
  config.train.precision = tiny.precision;
  config.train.fp8 = tiny.fp8;
  config.train.activation_checkpointing = tiny.checkpointing;
  config.train.activation_offload = tiny.offloads_activations;
  if (tiny.activations_go_to_files) config.train.activation_offload_to = config::ActivationPlace::nvme;
  config.train.attention_head_groups = tiny.head_groups;
  config.train.offload_optimizer = tiny.offload_optimizer;
  config.train.offload_parameters = tiny.offload_parameters;
  config.train.offload_folder = tiny.offload_folder;
  config.train.mlp_tile_tokens = tiny.mlp_tile_tokens;
  config.device.attention = tiny.attention;
  config.device.cuda_graphs = tiny.cuda_graphs;
  config.train.per_device_train_batch_size = 1;
  config.train.gradient_accumulation_steps = tiny.accumulation;
  config.optimizer.optim = tiny.optim;
  config.optimizer.moments_dtype = tiny.moments_dtype;
  config.optimizer.weight_decay = 0.1;
  config.optimizer.adam_epsilon = 1e-6;  // as in tests/equivalence: an update must not hang on rounding alone
  config.optimizer.max_grad_norm = tiny.max_grad_norm;
  config.train.nan_policy = tiny.nan_policy;
  return config;
}

/// This rank's of the GPUs that all ranks of its node see.
machine::DealtGpu gpu_of_rank(const comm::Group& node) {
  const std::vector<machine::VisibleGpus> seen(static_cast<std::size_t>(node.size()), machine::visible_gpus());
  machine::DealtGpu gpu = machine::deal_gpus(seen, /*may_share=*/true)[static_cast<std::size_t>(node.rank())];
  if (gpu.refusal) throw Error(*gpu.refusal);
  return gpu;
}

/// What a run has on GPUs, or on CPUs: NCCL cannot work between ranks that share a GPU.
comm::Transport::Way way_of(const TinyRun& tiny, device::Kind kind, const comm::Group& node) {
  if (kind == device::Kind::cpu) return comm::Transport::Way::direct;
  const bool share = node.size() > std::ssize(machine::visible_gpus().gpus);
  return share && tiny.way == comm::Transport::Way::direct ? comm::Transport::Way::host_copy : tiny.way;
}

/// The bytes of an entry, wherever it lies.
std::vector<std::byte> bytes_of(const checkpoint::Entry& entry, device::Device& device, device::Stream& stream) {
  const std::int64_t num_elements = entry.layout->num_elements(*entry.shard_map);
  const std::size_t size = static_cast<std::size_t>(num_elements) * size_of(entry.dtype());
  const device::Device::Block pinned = device.allocate(size, device::Space::pinned);
  if (entry.in_file != nullptr) {
    entry.in_file->read(0, Tensor(pinned.get(), entry.dtype(), {num_elements}));
  } else {
    device.copy(pinned.get(), entry.tensor.data, size, stream);
    stream.synchronize();
  }
  const auto* begin = static_cast<const std::byte*>(pinned.get());
  return {begin, begin + size};
}

void fill(rows::Row& row) {
  std::int32_t left = static_cast<std::int32_t>(row.tokens.size());
  for (const std::int32_t length : row.document_lengths) left -= length;
  if (left > 0) row.document_lengths.push_back(left);
}

}  // namespace

mesh::Layout TinyRun::mesh() const {
  return {{Axis::dp_replicate, layout[Axis::dp_replicate]},
          {Axis::dp_shard, layout[Axis::dp_shard]},
          {Axis::ep, ep_size},
          {Axis::sp, layout[Axis::sp]},
          {Axis::tp, layout[Axis::tp]}};
}

std::string TinyRun::name() const {
  const auto number = [](auto value) { return std::to_string(static_cast<int>(value)); };
  return mesh().describe() + ", family " + number(family) + ", precision " + number(precision) + ", fp8 " +
         number(fp8) + ", optimizer " + number(optim) + ", clipped to " + number(max_grad_norm) + ", stage " +
         number(zero_stage) + (reduce_dtype == DType::bf16 ? ", sums of gradients in bf16" : "") +
         (tp_reduce == DType::bf16 ? ", sums over tp in bf16" : "") +
         (tp_sequence_parallel == false ? ", whole tokens" : "") +
         (moments_dtype == DType::bf16 ? ", moments in bf16" : "") + ", resharded over " + number(reshard_size) +
         ", sp method " + number(sp_method) + ", checkpointing " + number(checkpointing) +
         (offloads_activations ? ", offloaded" : "") + (activations_go_to_files ? " to files" : "") +
         ", groups of heads " + number(head_groups) + ", moments at " + number(offload_optimizer) + ", weights at " +
         number(offload_parameters) + (has_adapters ? ", adapters" : "") + ", accumulation " + number(accumulation) +
         (num_experts > 0 ? ", experts " + number(num_experts) : "") + ", attention " + number(attention) +
         (way == comm::Transport::Way::host_copy ? ", host copies" : "");
}

TinyOutcome run(const TinyRun& tiny, device::Kind kind, const comm::Session& session) {
  const comm::Group& node = session.node();
  const comm::Transport transport{.way = way_of(tiny, kind, node)};
  const config::Config config = config_of(tiny, kind, transport.way);
  const Mesh mesh(session.world(), tiny.mesh(), config.model, config.parallel);
  const machine::DealtGpu gpu = kind == device::Kind::cuda ? gpu_of_rank(node) : machine::DealtGpu{};
  std::unique_ptr<device::Device> own =
      device::make_device(kind, {.num_local_ranks = node.size(), .gpu = gpu.index, .num_sharing = gpu.num_sharing});
  device::Device& device = *own;
  EngineFixture fixture(config, tiny.max_length, mesh, session, std::move(own), transport);
  train::Engine& engine = fixture.engine();
  engine.initialize();
  TinyOutcome outcome;
  const std::int64_t num_rows = mesh.place.data_size() * tiny.accumulation;
  std::vector<rows::Row> rows;
  if (!tiny.resumes_from.empty()) {
    (void)checkpoint::load(checkpoint::path_of(tiny.resumes_from, tiny.first_step), mesh.groups.world, engine.state(),
                           device, engine.stream());
  }
  for (std::int64_t step = tiny.first_step; step < tiny.num_steps; ++step) {
    const std::int64_t length = tiny.max_length - (tiny.lengths_vary ? step % 2 : 0);
    rows = make_awkward_rows(num_rows, length, 2 * static_cast<std::uint64_t>(step));
    if (tiny.fills_rows) std::ranges::for_each(rows, fill);
    const train::StepResult result = fixture.step(rows, step, learning_rate);
    outcome.losses.push_back(result.loss);
    outcome.grad_norms.push_back(result.grad_norm);
  }
  if (tiny.evaluates) outcome.evaluation = engine.evaluate(fixture.deal(rows).front()).weighted_nll;
  outcome.library_calls = engine.backend().library_calls();
  if (const device::LaunchTape* tape = engine.stream().tape()) outcome.launches = tape->counts();
  const checkpoint::State state = engine.state();
  for (const checkpoint::Entry& entry : state.entries()) {
    outcome.state.push_back(bytes_of(entry, device, engine.stream()));
  }
  if (!tiny.saves_to.empty()) {
    checkpoint::save(tiny.saves_to, config, "byte", mesh.place, mesh.groups, state, {.step = tiny.num_steps}, device,
                     engine.stream());
  }
  return outcome;
}

}  // namespace sft::test
