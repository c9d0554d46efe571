// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/memory.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdint>
#include <span>

#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/products.hpp"
#include "sft/rank/rank_plan.hpp"

namespace sft::rank {

namespace {

/// Rank 0's answer, as the beginning of what to do. Collective.
std::string ask(const std::function<std::string()>& advice, const comm::Group& world) {
  std::string answer;
  if (advice && world.rank() == 0) answer = advice();
  world.broadcast(answer, 0);
  return answer.empty() ? answer : fmt::format("set {}, which fits; or ", answer);
}

}  // namespace

device::Ledger plan_fixed_ledger(RankPlan& plan, std::size_t process_bytes) {
  using device::Label;
  using device::Space;
  device::Ledger ledger;
  RankPlan::Arenas sizes = plan.measure();
  for_each_arena(sizes, [&](Label label, Space space, const device::Arena& arena) {
    ledger.add(label, space, arena.used_bytes());
  });
  ledger.add(Label::process, Space::host, process_bytes + plan.later_process_bytes());
  ledger.add(Label::process, Space::device, plan.machine.gpu_process_bytes);
  ledger.add(Label::communication, Space::host, plan.machine.first_rank_bytes());
  return ledger;
}

device::Ledger plan_ledger(const config::ValidConfig& config, const Datasets& datasets, const mesh::Place& place,
                           const Machine& machine, std::size_t process_bytes) {
  RankPlan plan(config, datasets.limits(config), place, machine);
  return plan_ledger(plan, config, datasets, process_bytes);
}

device::Ledger plan_ledger(RankPlan& plan, const config::ValidConfig& config, const Datasets& datasets,
                           std::size_t process_bytes) {
  device::Ledger ledger = plan_fixed_ledger(plan, process_bytes);
  ledger.add(device::Label::process, device::Space::host, plan_products(config, plan));
  ledger.add(device::Label::batches, device::Space::host, batches_bytes(config, plan.place, datasets));
  return ledger;
}

device::Ledger plan_ledger(const config::ValidConfig& config, const rows::MicroBatchLimits& limits,
                           const mesh::Place& place, const Machine& machine, std::size_t process_bytes) {
  RankPlan plan(config, limits, place, machine);
  device::Ledger ledger = plan_fixed_ledger(plan, process_bytes);
  ledger.add(device::Label::process, device::Space::host, plan_products(config, plan));
  return ledger;
}

namespace {

/// Of the ranks of this node. Collective over it.
std::size_t needed_of_node(const device::Ledger& planned, device::Kind kind, const comm::Group& node) {
  std::array<std::int64_t, 1> needed{static_cast<std::int64_t>(planned.node_bytes(kind))};
  node.sum(std::span<std::int64_t>(needed));
  return needed[0];
}

std::size_t needed_of_gpu(const device::Ledger& planned) {
  return planned.total_bytes() - planned.node_bytes(device::Kind::cuda);
}

bool fit_everywhere(bool fits, const comm::Group& world) {
  std::array<std::int64_t, 1> refused{fits ? 0 : 1};
  world.max(std::span<std::int64_t>(refused));
  return refused[0] == 0;
}

}  // namespace

bool fits_memory(const device::Ledger& planned, device::Kind kind, std::optional<std::size_t> node_bytes,
                 const std::optional<device::OwnMemory>& own, const comm::Session& session) {
  const std::size_t on_node = needed_of_node(planned, kind, session.node());
  const bool fits_node = !node_bytes || on_node <= *node_bytes;
  return fit_everywhere(fits_node && (!own || needed_of_gpu(planned) <= own->total_bytes), session.world());
}

void require_node_memory(const device::Ledger& planned, device::Kind kind, std::optional<std::size_t> node_bytes,
                         const comm::Session& session, const std::function<std::string()>& advice) {
  const comm::Group& world = session.world();
  const std::size_t needed_bytes = needed_of_node(planned, kind, session.node());
  const bool fits = !node_bytes || needed_bytes <= *node_bytes;
  if (fit_everywhere(fits, world)) return;
  log_info(format_memory(gather_memory(planned, kind, world)));
  const std::string instead = ask(advice, world);
  world.agree([&] {
    if (fits) return;
    const int num_ranks = session.node().size();
    throw_config_error(
        fmt::format("the run does not fit in memory: {} {} {} on this node", num_ranks,
                    num_ranks == 1 ? "rank needs" : "ranks need", format_bytes(needed_bytes)),
        fmt::format("it has {}, its RAM or the limit of its control group", format_bytes(*node_bytes)),
        instead +
            "use more nodes with a larger dp_shard_size, sp_size or tp_size, or lower "
            "train.per_device_train_batch_size or the max_length of the data; `sft INPUT.ini --dry-run --num_ranks "
            "N` shows what another mesh needs");
  });
}

void require_gpu_memory(const device::Ledger& planned, const std::optional<device::OwnMemory>& own,
                        const comm::Group& world, const std::function<std::string()>& advice) {
  const std::size_t needed_bytes = needed_of_gpu(planned);
  const bool fits = !own || needed_bytes <= own->total_bytes;
  if (fit_everywhere(fits, world)) return;
  log_info(format_memory(gather_memory(planned, device::Kind::cuda, world)));
  const std::string instead = ask(advice, world);
  world.agree([&] {
    if (fits) return;
    throw_config_error(
        fmt::format("the run does not fit in the memory of a GPU: it needs {}", format_bytes(needed_bytes)),
        fmt::format("this rank's part of its GPU is {}, of which CUDA, its libraries and other programs hold {}",
                    format_bytes(own->total_bytes),
                    format_bytes(planned.bytes(device::Label::process, device::Space::device))),
        instead +
            "use more GPUs with a larger dp_shard_size, sp_size or tp_size, lower "
            "train.per_device_train_batch_size or the max_length of the data, or set train.activation_checkpointing "
            "= full or offload_optimizer and offload_parameters = host");
  });
}

}  // namespace sft::rank
