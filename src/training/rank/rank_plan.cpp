// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/rank_plan.hpp"

#include <algorithm>
#include <map>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/save.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/model/head_split.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/model/linear/adapter_names.hpp"
#include "sft/model/linear/weight_factors.hpp"
#include "sft/ops/factory.hpp"
#include "sft/parallel/sharded_units.hpp"
#include "sft/rank/launches.hpp"
#include "sft/sequence/row_cut.hpp"

namespace sft::rank {

namespace {

/// On CPUs products of few different sizes are made, whose machine code is kept.
std::int64_t expert_alignment(device::Kind kind) { return kind == device::Kind::cpu ? 16 : 1; }

model::Sizes local_sizes(const config::ValidConfig& config, std::int64_t max_tokens, const mesh::Place& place,
                         device::Kind kind) {
  const config::Model& m = config->model;
  const int tp = place.size(Axis::tp), sp = place.size(Axis::sp), token_slices = config->parallel.token_slices();
  const parallel::VocabSplit vocab = parallel::split_vocab(m.vocab_size, tp, place.tp_rank());
  const DType compute = config->train.precision == config::Precision::fp32 ? DType::float32 : DType::bf16;
  const std::int64_t tokens = sequence::padded_row_length(max_tokens, sp, token_slices) / sp;
  return {.tokens = tokens,
          .hidden = m.hidden_size,
          .vocab = vocab.count,
          .vocab_begin = vocab.begin,
          .max_vocab = vocab.max_count,
          .compute = compute,
          .partial = tp > 1 ? DType::float32 : compute,
          .token_slices = token_slices,
          .tp_size = tp,
          .experts = {.tokens = tokens,
                      .count = m.num_experts,
                      .choices = m.num_experts_per_tok,
                      .columns = m.moe_intermediate_size / tp,
                      .alignment = expert_alignment(kind),
                      .ep_size = place.size(Axis::ep),
                      .adapter_rank = config->lora.adapts_experts() ? config->lora.max_rank() : 0,
                      .keeps_codes = config->train.fp8 != config::Fp8::none && !config->lora.use_peft}};
}

parallel::SequenceShape sequence_shape(const config::Config& config, const mesh::Place& place,
                                       const model::Sizes& sizes, std::int64_t document_tokens) {
  const config::Model& m = config.model;
  const model::HeadSplit heads = model::split_heads(m, place.size(Axis::tp), place.tp_rank());
  // Calls of groups of heads follow each other.
  const std::int64_t num_groups = config.train.attention_head_groups.value_or(1);
  return {.tokens = sizes.tokens,
          .document_tokens = document_tokens,
          .q_heads = heads.q_heads / num_groups,
          .kv_heads = heads.kv_heads / num_groups,
          .head_dim = m.head_dim,
          .compute = sizes.compute,
          .gradient_row = (heads.q_heads + 2 * heads.kv_heads) * m.head_dim,
          .multiplier = static_cast<float>(m.attention_multiplier),
          .softcap = static_cast<float>(m.attn_logit_softcapping),
          .num_kinds = model::attention_windows(m).size(),
          .kernels = attention_kernels(config.device, m)};
}

parallel::MasterWeights master_weights(const config::Train& train) {
  if (train.precision == config::Precision::pure_bf16) return parallel::MasterWeights::none;
  return train.offload_parameters == config::Offload::nvme ? parallel::MasterWeights::in_file
                                                           : parallel::MasterWeights::in_memory;
}

/// That of a part that is always kept in float32, where the gathers read it.
optim::StateForm form_of(const parallel::Part& part, const parallel::ShardingPolicy& policy,
                         const optim::StateForm& form) {
  if (!part.in_float32) return form;
  optim::StateForm exact = form;
  exact.rounds_parameters = false;
  exact.master_location = policy.parameters_on_host ? optim::StateLocation::host : optim::StateLocation::device;
  return exact;
}

std::vector<TrainedPart> trained_parts(parallel::StoredParts& parts, const mesh::Place& place,
                                       const parallel::ShardingPolicy& policy, const config::Optimizer& keys,
                                       const optim::StateForm& form) {
  std::vector<TrainedPart> trained;
  for (parallel::UnitStorage& storage : parts) {
    if (!storage.part().has_gradient) continue;
    const parallel::ShardMap& shard_map = storage.shard_map();
    std::unique_ptr<optim::Optimizer> optimizer =
        optim::make_optimizer(keys, shard_map, form_of(storage.part(), policy, form));
    parallel::MatrixAssignment matrices(shard_map, place, [&](parallel::UnitIndex unit, const parallel::Parameter& p) {
      return p.local_elements() > 0 && optimizer->needs_whole(unit, p);
    });
    trained.push_back({storage, std::move(optimizer), std::move(matrices)});
  }
  SFT_ENSURE(!trained.empty(), "something is trained");
  return trained;
}

/// What a rank takes while it finds an adapter of the weight that takes most (train::AdapterStart): the weight beside
/// what finds its factors, or, while it is collected, beside what was sent, what of it came, and the rank's own.
std::size_t start_bytes_of(const std::vector<TrainedPart>& trained, const config::Lora& lora) {
  std::map<std::string, std::int64_t> rows;
  const auto for_each_parameter = [&](const auto& visit) {
    for (const TrainedPart& part : trained) {
      for (const parallel::Unit& unit : part.shard_map().units()) std::ranges::for_each(unit.parameters, visit);
    }
  };
  for_each_parameter([&](const parallel::Parameter& parameter) { rows[parameter.name] = parameter.rows; });
  std::size_t most = 0;
  for_each_parameter([&](const parallel::Parameter& parameter) {
    const auto names = model::adapter_of_a(parameter.name);
    if (!names) return;
    const model::WeightShape shape{rows.at(names->b), parameter.columns};
    const auto weight_bytes = static_cast<std::size_t>(shape.rows * shape.columns) * sizeof(float);
    const std::size_t finding = model::weight_factors_bytes(lora.init_lora_weights, shape, parameter.rows);
    most = std::max(most, weight_bytes + std::max(finding, 3 * weight_bytes));
  });
  return most;
}

bool may_step_early(const config::Config& config, const mesh::Place& place, const std::vector<TrainedPart>& trained) {
  return config.optimizer.max_grad_norm == 0 && config.train.nan_policy == config::NanPolicy::stop &&
         place.size(Axis::tp) == 1 && std::ranges::all_of(trained, [](const TrainedPart& part) {
           return part.matrices.rounds().empty() && part.optimizer->max_shared_bytes() == 0;
         });
}

/// Master weights in a file need the memory of all gradients, to be written there at the start.
bool gradients_may_leave(const config::Config& config, const std::vector<TrainedPart>& trained) {
  return config.train.gradient_accumulation_steps == 1 && std::ranges::none_of(trained, [](const TrainedPart& part) {
           return part.optimizer->master_location() == optim::StateLocation::file;
         });
}

/// To the memory of the node, where that is not the device's.
bool offloads_parameters(const config::ValidConfig& config, const Machine& machine) {
  return machine.kind == device::Kind::cuda && config->train.offload_parameters == config::Offload::host;
}

}  // namespace

RankPlan::RankPlan(const config::ValidConfig& config, const rows::MicroBatchLimits& limits_in,
                   const mesh::Place& place_in, const Machine& machine_in)
    : place(place_in),
      machine(machine_in),
      way(way_of(config->device.comm, machine.kind)),
      limits(limits_in),
      sizes(local_sizes(config, limits.tokens, place, machine.kind)),
      architecture(model::shared_architecture(config)),
      policy(parallel::sharding_policy(config->parallel, offloads_parameters(config, machine))),
      parts(parallel::storage_of(
          parallel::make_parts(architecture->parts, place, policy, sizes.compute, master_weights(config->train)))),
      slots(parts.front().shard_map().num_units(), policy, config->model.tie_word_embeddings),
      unit_buffers(parts, policy, slots),
      decoder(config->model, config->lora, architecture->parameters, sizes, machine.kind,
              model::activation_policy(config->train, machine.kind), model::Objective(*config), config->train.fp8),
      attention(parallel::make_sequence_buffers(sequence_shape(config, place, sizes, limits.document_tokens),
                                                place.size(Axis::sp), config->parallel.attention_method())),
      trained(trained_parts(parts, place, policy, config->optimizer, optim::state_form(config, machine.kind))),
      steps_early(may_step_early(*config, place, trained)),
      gradients_leave(steps_early && gradients_may_leave(*config, trained)),
      repeats_launches(rank::repeats_launches(*config, architecture->parameters, sizes, machine.kind)),
      is_lora_(config->lora.use_peft),
      has_dropout_(is_lora_ && config->lora.lora_dropout > 0.0),
      has_snapshot_(config->checkpoint.has_snapshot()),
      tp_reduce_(config->parallel.tp_reduce) {
  note_starts(config->lora);
}

void RankPlan::note_starts(const config::Lora& lora) {
  if (!lora.use_peft || !lora.init_lora_weights.splits_weights()) return;
  for (TrainedPart& part : trained) {
    auto layout = parallel::make_renamed_layout(part.shard_map(), [](const parallel::Parameter& parameter) {
      return model::is_factor_of_adapter(parameter.name) ? parameter.name : "";
    });
    if (!layout->tensors(part.shard_map()).empty()) part.start_layout = std::move(layout);
  }
  start_bytes_ = start_bytes_of(trained, lora);
}

void RankPlan::lay_out(Arenas& arenas) {
  const bool moves_master = trained.front().optimizer->master_location() == optim::StateLocation::host;
  for (parallel::UnitStorage& part : parts) {
    part.lay_out(moves_master ? arenas.host_parameters : arenas.parameters,
                 policy.parameters_on_host ? arenas.host_parameters : arenas.parameters,
                 part.part().of_experts ? arenas.expert_gradients : arenas.gradients,
                 gradients_leave ? &slots.gradients : nullptr);
    part.lay_out_nested_scales(arenas.parameters);
  }
  for (TrainedPart& part : trained) {
    part.optimizer->lay_out(arenas.optimizer, arenas.host_optimizer);
    part.matrices.lay_out(arenas.optimizer);
    if (part.start_layout == nullptr) continue;
    part.start =
        take(arenas.host_parameters, part.storage.part().stored, {part.start_layout->num_elements(part.shard_map())});
  }
  unit_buffers.lay_out(
      {arenas.parameters, arenas.gradients, arenas.gathered_units, arenas.reduced_units, arenas.unit_buffers},
      {arenas.parameters, arenas.expert_gradients, arenas.gathered_experts, arenas.reduced_experts,
       arenas.unit_buffers});
  decoder.lay_out(arenas.activations, arenas.workspace, arenas.tp_sums, arenas.offloaded);
  attention->lay_out(arenas.workspace);
  upload = take_upload_buffers(arenas.workspace, arenas.pinned, sizes.tokens, has_dropout_);
  results = take(arenas.workspace, DType::float64, {model::Metric::count + 1});
  downloaded_results = take(arenas.pinned, DType::float64, {model::Metric::count + 1});
  ops::AttentionNeeds needs = attention->attention_needs();
  needs.repeats = repeats_launches;
  const std::size_t workspace_bytes =
      ops::workspace_bytes(machine.kind, machine.num_threads, model::op_shapes(architecture->parameters, sizes), needs);
  ops_workspace =
      take(arenas.workspace, DType::bf16, {static_cast<std::int64_t>(workspace_bytes / size_of(DType::bf16))});
  if (ends_beside()) step_workspace = take(arenas.workspace, DType::uint8, {ops::step_workspace_bytes});
  comm::StagingPlan plan = parallel::ShardedUnits::staging(parts, policy);
  if (place.size(Axis::tp) > 1) {
    const auto activations_bytes = sizes.tokens * sizes.hidden * sizeof(float);
    plan.max_all_reduce_bytes = std::max(plan.max_all_reduce_bytes, activations_bytes);
    if (tp_reduce_ == DType::bf16) tp_wire = take(arenas.workspace, tp_reduce_, {sizes.tokens * sizes.hidden});
  }
  for (const TrainedPart& part : trained) {
    if (place.size(part.shard_map().shard_axes()) * place.size(Axis::tp) == 1) continue;
    plan.max_all_reduce_bytes = std::max(plan.max_all_reduce_bytes, part.optimizer->max_shared_bytes());
  }
  staging = comm::take_staging(machine.kind, way, arenas.communication, arenas.host_copies, plan);
  if (!has_snapshot_) return;
  const std::size_t snapshot_bytes = checkpoint::WritePlan(saved_entries()).snapshot_bytes();
  snapshot = take(arenas.snapshot, DType::uint8, {checked_cast<std::int64_t>(snapshot_bytes)});
}

std::vector<checkpoint::Entry> RankPlan::saved_entries() const {
  std::vector<checkpoint::Entry> entries;
  for (const TrainedPart& part : trained) {
    entries.push_back({is_lora_ ? "adapter" : "model", &part.shard_map(), part.storage.parameters(),
                       part.optimizer->master_in_file()});
  }
  for (const TrainedPart& part : trained) {
    if (part.start_layout == nullptr) continue;
    entries.push_back({std::string("adapter") + checkpoint::start_suffix, &part.shard_map(), part.start, nullptr,
                       part.start_layout.get()});
  }
  for (const parallel::UnitStorage& stored : parts) {  // constants of a model that is trained whole
    if (is_lora_ || stored.part().has_gradient) continue;
    entries.push_back({"model", &stored.shard_map(), stored.parameters()});
  }
  for (const TrainedPart& part : trained) {
    for (const optim::StateEntry& kept : part.optimizer->state()) {
      const auto same = std::ranges::find(entries.rbegin(), entries.rend(), kept.name, &checkpoint::Entry::name);
      const auto place_of_entry = same == entries.rend() ? entries.end() : same.base();  // entries of a name together
      entries.insert(place_of_entry,
                     checkpoint::Entry{kept.name, &part.shard_map(), kept.tensor, kept.in_file, kept.layout});
    }
  }
  return entries;
}

bool RankPlan::updates_early() const {
  const auto has_file = [](const TrainedPart& part) { return part.optimizer->file_bytes() > 0; };
  return gradients_leave || (steps_early && std::ranges::all_of(trained, has_file));
}

bool RankPlan::updates_beside() const {
  return ends_beside() && !updates_early() && std::ranges::all_of(trained, [](const TrainedPart& part) {
           return part.matrices.rounds().empty() && part.optimizer->file_bytes() == 0;
         });
}

std::size_t RankPlan::later_process_bytes() const {
  const std::size_t tp_size = place.size(Axis::tp), tp_bytes = tp_size > 1 ? tp_size * later_bytes_of_tp_rank : 0;
  return start_bytes_ + rank::later_process_bytes + most_huge_pages * machine.huge_page_bytes + tp_bytes +
         checkpoint::index_memory_bytes(place) +
         ops::product_copies_bytes(machine.kind, machine.num_threads,
                                   model::op_shapes(architecture->parameters, sizes));
}

RankPlan::Arenas RankPlan::measure() {
  Arenas sizing;
  lay_out(sizing);
  return sizing;
}

}  // namespace sft::rank
