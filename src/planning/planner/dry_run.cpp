// SPDX-License-Identifier: Apache-2.0
#include "sft/planner/dry_run.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "sft/core/format.hpp"
#include "sft/optim/schedule.hpp"
#include "sft/planner/rank_ledgers.hpp"
#include "sft/planner/row_lengths.hpp"
#include "sft/planner/step_time.hpp"
#include "sft/rank/nodes.hpp"
#include "sft/rank/rank_plan.hpp"
#include "sft/rank/run_length.hpp"
#include "sft/rank/save_time.hpp"
#include "sft/rank/start_table.hpp"
#include "sft/rank/traffic.hpp"

namespace sft::planner {

namespace {

nlohmann::ordered_json to_json(const rank::MemoryRange& range) {
  return {{"least_bytes", range.least_bytes},
          {"most_bytes", range.most_bytes},
          {"most_rank", static_cast<int>(range.most_rank)}};
}

/// The node of each rank, by its first rank, where nodes are filled in order.
IndexedVector<WorldRank, int> planned_nodes(int num_ranks, int ranks_per_node) {
  std::vector<int> nodes(static_cast<std::size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) nodes[rank] = rank / ranks_per_node * ranks_per_node;
  return IndexedVector<WorldRank, int>(std::move(nodes));
}

/// What the plan assumes of a GPU that need not be there.
std::string describe_planned(const rank::Machine& machine) {
  if (machine.kind == device::Kind::cpu) return "";
  return fmt::format("a GPU for each rank, of which CUDA, cuBLAS and NCCL are assumed to take {}",
                     format_bytes(machine.gpu_process_bytes));
}

}  // namespace

std::string dry_run(const DryRun& of, bool json) {
  const config::ValidConfig& config = of.config;
  const rank::Datasets& datasets = of.datasets;
  const rank::Machine& machine = of.machine;
  const std::optional<simulator::Hardware>& hardware = of.hardware;
  const mesh::Layout layout = mesh::layout_of(config->parallel);
  rank::RankPlan first(config, datasets.limits(config), mesh::Place(config, 0), machine);
  static_cast<void>(first.measure());  // what is moved to files follows from it
  const parallel::ParameterCounts num_parameters = first.num_parameters();
  const std::int64_t steps = rank::num_steps(config, datasets.train.num_rows(), datasets.origin);
  const rank::MemoryTable memory = plan_memory(config, datasets, machine, of.process_bytes, of.ranks_per_node);
  const std::vector<comm::SentBytes> traffic =
      rank::plan_traffic(config, datasets.limits(config), mesh::Place(config, 0), machine);
  const rank::SaveTime save = rank::plan_save(config, datasets, machine);
  const Verdict verdict = judge(memory, machine.kind, of.room);
  std::optional<StepTime> time;
  if (hardware) {
    const auto documents = mean_documents(RowLengths::of(datasets.train), config->train.per_device_train_batch_size);
    time = plan_step_time(config, documents, mesh::Place(config, 0), machine, *hardware);
  }
  const IndexedVector<WorldRank, int> nodes = planned_nodes(layout.size(), of.ranks_per_node);
  if (!json) {
    return rank::start_table({.config = config,
                              .kind = machine.kind,
                              .datasets = datasets,
                              .num_parameters = num_parameters,
                              .nodes = of.ranks_per_node < layout.size() ? rank::describe_nodes(layout, nodes) : "",
                              .device = describe_planned(machine),
                              .origin = of.weights,
                              .sp_choice = of.sp_choice,
                              .num_steps = steps,
                              .memory = memory,
                              .traffic = traffic,
                              .repeats_launches = first.repeats_launches,
                              .offloaded_bytes = first.offloaded_bytes(),
                              .activation_file_bytes = first.decoder.offloaded_file_bytes(),
                              .save = describe(save),
                              .save_choice = "",
                              .step_time = time ? describe(*time, *hardware) : "",
                              .ops = time ? describe_ops(*time) : "",
                              .duration = time ? describe_duration(steps, *time, *hardware) : "",
                              .verdict = describe(verdict, memory, of.room)});
  }
  nlohmann::ordered_json memory_json;
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    memory_json[device::name_of(static_cast<device::Label>(i))] = to_json(memory.labels[i]);
  }
  memory_json["total"] = to_json(memory.total);
  if (machine.kind == device::Kind::cuda) {
    memory_json["on the GPU"] = to_json(memory.on_gpu);
    memory_json["on the node"] = to_json(memory.on_node);
  }
  nlohmann::ordered_json mesh_json;
  for (const Axis axis : layout.named_axes()) mesh_json[std::string(name_of(axis))] = layout[axis];
  nlohmann::ordered_json result{{"mesh", mesh_json},
                                {"num_ranks", layout.size()},
                                {"num_parameters", num_parameters.all},
                                {"num_trainable_parameters", num_parameters.trainable},
                                {"num_rows", datasets.train.num_rows()},
                                {"max_length", datasets.train.max_length()},
                                {"effective_batch_rows", config->effective_batch_rows()},
                                {"num_steps", steps},
                                {"num_warmup_steps", optim::num_warmup_steps(config->optimizer, steps)},
                                {"memory_per_rank", memory_json}};
  result["memory_of_node"] = {{"least", memory.nodes.least_bytes}, {"most", memory.nodes.most_bytes}};
  result["files_of_rank_0"] = {{"state_bytes", first.offloaded_bytes()},
                               {"activation_bytes", first.decoder.offloaded_file_bytes()}};
  result["ranks_per_node"] = std::min(of.ranks_per_node, layout.size());
  result["save"] = {{"checkpoint_bytes", save.bytes},
                    {"bytes_of_rank", save.bytes_of_rank},
                    {"assumed_bytes_per_s", rank::assumed_write_bytes_per_s},
                    {"save_s", save.seconds()}};
  nlohmann::ordered_json& sent = result["sent_bytes_per_step"] = nlohmann::ordered_json::object();
  for (const comm::SentBytes& group : traffic) sent[group.group] = group.bytes;
  if (time) {
    nlohmann::ordered_json& planned = result["planned_step"];
    planned = {{"machine", hardware->name}, {"step_s", time->step_s}, {"ops_s", time->ops_s}};
    planned["model_flops"] = time->model_flops;
    for (const auto& [name, seconds] : named_op_times(*time)) planned["op_s"][name] = seconds;
    for (const Exposed& wait : time->exposed) planned["exposed_s"][wait.what] = wait.seconds;
    result["run_s"] = run_s(steps, *time, *hardware);
  }
  if (verdict.is_known) {
    result["fits"] = {{"fits", verdict.fits()},
                      {"num_nodes", verdict.num_nodes},
                      {"of", verdict.is_of_gpu ? "GPU" : "node"},
                      {"needed_bytes", verdict.needed_bytes},
                      {"present_bytes", verdict.present_bytes}};
  }
  if (datasets.eval) result["num_eval_rows"] = datasets.eval->num_rows();
  return result.dump(2) + "\n";
}

}  // namespace sft::planner
