// SPDX-License-Identifier: Apache-2.0
#include "planned_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "apps/common/check_weights.hpp"
#include "apps/common/machines.hpp"
#include "apps/common/model_folder.hpp"
#include "apps/common/open_datasets.hpp"
#include "machine_of_run.hpp"
#include "planning.hpp"
#include "save_model_folder.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/machine/gpus.hpp"
#include "sft/machine/node.hpp"
#include "sft/mesh/layout.hpp"
#include "sft/ops/factory.hpp"
#include "sft/planner/dry_run.hpp"
#include "sft/planner/rank_ledgers.hpp"
#include "sft/planner/search.hpp"
#include "sft/rank/settle.hpp"
#include "sft/rank/sp_method.hpp"
#include "sft/rank/start_table.hpp"
#include "sft/train/choose_device.hpp"

namespace sft::apps {

namespace {

/// The machine that --dry-run plans for: of `kind`; else ranks like this one, with GPUs where they are asked for, or
/// where this process sees one.
rank::Machine planned_machine(const config::ValidConfig& config, std::optional<device::Kind> kind, int ranks_per_node) {
  using Choice = config::BackendChoice;
  const int num_ranks = std::min(ranks_per_node, mesh::layout_of(config->parallel).size());
  rank::Machine machine{.kind = device::Kind::cpu,
                        .num_threads = machine::num_threads_of_rank(machine::cores_of_this_process(), num_ranks),
                        .huge_page_bytes = machine::unasked_huge_page_bytes(),
                        .node_shared_bytes = ModelFolder::shared_bytes(*config)};
  const bool sees_gpu = ops::is_built(device::Kind::cuda) && !machine::visible_gpus().gpus.empty();
  const bool asks_for_gpu =
      config->device.backend == Choice::cuda || (config->device.backend == Choice::automatic && sees_gpu);
  if (kind ? *kind == device::Kind::cuda : asks_for_gpu) {
    machine.kind = device::Kind::cuda;
    machine.gpu_process_bytes = rank::assumed_gpu_process_bytes(config);
  }
  return machine;
}

/// Each rank is planned on its own, which takes a millisecond or so.
void require_few_ranks(int num_ranks) {
  constexpr int most = 65536;
  if (num_ranks <= most) return;
  throw_config_error(fmt::format("cannot plan for {} ranks", num_ranks),
                     fmt::format("--dry-run plans for {} at most, each on its own", most),
                     "give a smaller --num_ranks, or smaller sizes in [parallel]");
}

/// The memory that a dry run is held against: what is given, else that of the machine it is for, else of nodes like
/// this one, as many as it takes.
planner::Room room_for(const rank::Machine& machine, const std::optional<simulator::Hardware>& hardware,
                       int ranks_per_node, std::uint64_t given_bytes, bool is_async_given) {
  const bool is_gpu = machine.kind == device::Kind::cuda;
  planner::Room room =
      hardware ? planner::room_of(*hardware) : planner::Room{.ranks_per_node = ranks_per_node, .whose = "as this node"};
  if (!hardware) room.node_bytes = machine::node_memory_bytes().value_or(0);
  room.takes_more_nodes = !hardware;
  room.may_skip_copies = !is_async_given;
  if (!hardware && is_gpu) {
    for (const machine::Gpu& gpu : machine::visible_gpus().gpus) {
      room.gpu_bytes = room.gpu_bytes == 0 ? gpu.memory_bytes : std::min(room.gpu_bytes, gpu.memory_bytes);
    }
  }
  if (given_bytes == 0) return room;
  (is_gpu ? room.gpu_bytes : room.node_bytes) = given_bytes;
  room.whose = "--memory";
  return room;
}

/// Ranks of a node of a dry run: what is asked for, else those of the machine, else all.
int planned_ranks_per_node(const SftOptions& command, const std::optional<simulator::Hardware>& hardware,
                           int num_ranks) {
  if (command.ranks_per_node > 0) return command.ranks_per_node;
  return hardware ? hardware->ranks_per_node : num_ranks;
}

}  // namespace

void require_planner(const SftOptions& /*command*/) {}

PlannedRun plan_run(const config::ValidConfig& given, const SftOptions& command) {
  const int num_ranks = mesh::layout_of(given->parallel).size();
  require_few_ranks(num_ranks);
  rank::Datasets datasets =
      command.max_length > 0 ? planned_datasets(given, command.max_length, command.num_rows) : open_datasets(given);
  std::optional<simulator::Hardware> hardware;
  if (!command.machine.empty()) hardware = machine_named(command.machine);
  const int ranks_per_node = planned_ranks_per_node(command, hardware, num_ranks);
  if (hardware) hardware = simulator::with_ranks_per_node(*hardware, ranks_per_node);
  const rank::Machine machine =
      planned_machine(given, hardware ? std::optional(hardware->kind) : std::nullopt, ranks_per_node);
  train::require_fitting_device(given, machine.kind, hardware ? hardware->compute_capability : 0);
  const planner::Room room = room_for(machine, hardware, std::min(ranks_per_node, num_ranks), command.memory_bytes,
                                      given->checkpoint.async.has_value());
  const std::size_t process_bytes = own_bytes(datasets);
  const rank::Fits fits = [&](const config::ValidConfig& of) {
    const planner::Verdict verdict =
        planner::judge(planner::plan_memory(of, datasets, machine, process_bytes, ranks_per_node), machine.kind, room);
    return !verdict.is_known || verdict.fits();
  };
  const rank::Settled settled = rank::settle(
      given, {.sp = rank::SpFacts::of(given, datasets, std::min(ranks_per_node, num_ranks)), .fits = fits});
  return {.datasets = std::move(datasets),
          .hardware = hardware,
          .ranks_per_node = ranks_per_node,
          .machine = machine,
          .config = settled.config,
          .sp_choice = settled.why_sp,
          .choice_of_pieces = settled.why_pieces,
          .room = room,
          .process_bytes = process_bytes};
}

void print_dry_run(const config::ValidConfig& given, const SftOptions& command) {
  const PlannedRun run = plan_run(given, command);
  if (!run.choice_of_pieces.empty() && !command.json) log_info(run.choice_of_pieces);
  log_info(planner::dry_run({.config = run.config,
                             .datasets = run.datasets,
                             .machine = run.machine,
                             .process_bytes = run.process_bytes,
                             .sp_choice = run.sp_choice,
                             .weights = look_at_weights(run.config->model),
                             .hardware = run.hardware,
                             .ranks_per_node = run.ranks_per_node,
                             .room = run.room},
                            command.json));
  if (const std::string warning = rank::warning_of_mesh(run.config->parallel); !warning.empty()) log_warning(warning);
}

}  // namespace sft::apps
