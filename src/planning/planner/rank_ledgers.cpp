// SPDX-License-Identifier: Apache-2.0
#include "sft/planner/rank_ledgers.hpp"

#include <set>
#include <tuple>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/device/arena.hpp"
#include "sft/model/architecture.hpp"
#include "sft/parallel/sharding_policy.hpp"
#include "sft/rank/memory.hpp"
#include "sft/rank/rank_plan.hpp"

namespace sft::planner {

namespace {

/// The units of each shape once, without names: cut over ranks, those of a shape are cut alike.
std::vector<parallel::Unit> shapes_of(const std::vector<parallel::Unit>& units) {
  using Shape = std::tuple<std::int64_t, std::int64_t, parallel::TpSplit, std::int64_t, int, int, bool>;
  std::set<std::vector<Shape>> seen;
  std::vector<parallel::Unit> shapes;
  for (const parallel::Unit& unit : units) {
    std::vector<Shape> shape;
    parallel::Unit nameless;
    for (const parallel::Parameter& p : unit.parameters) {
      shape.emplace_back(p.rows, p.columns, p.split, p.num_kv_heads, p.num_experts, p.expert, p.joins_previous);
      nameless.parameters.push_back(p);
      nameless.parameters.back().name.clear();
      nameless.parameters.back().copy_of.clear();
    }
    if (!shape.empty() && seen.insert(std::move(shape)).second) shapes.push_back(std::move(nameless));
  }
  return shapes;
}

/// Whether the size of the optimizer's state follows from the number of parameters in a shard, whichever they are.
bool is_elementwise(config::OptimizerKind optim) {
  switch (optim) {
    case config::OptimizerKind::adamw_torch:
    case config::OptimizerKind::lion:
    case config::OptimizerKind::sgd:
      return true;
    case config::OptimizerKind::adafactor:
    case config::OptimizerKind::adamw_8bit:
    case config::OptimizerKind::muon:
      break;
  }
  return false;
}

/// What a snapshot takes of an arena of its own.
std::size_t arena_bytes(std::size_t snapshot_bytes) {
  device::Arena arena;
  static_cast<void>(take(arena, DType::uint8, {checked_cast<std::int64_t>(snapshot_bytes)}));
  return arena.used_bytes();
}

}  // namespace

RankLedgers::RankLedgers(const config::ValidConfig& config, const rank::Datasets& datasets,
                         const rank::Machine& machine, std::size_t process_bytes)
    : config_(config), datasets_(datasets), machine_(machine), process_bytes_(process_bytes) {
  const parallel::ShardingPolicy policy = parallel::sharding_policy(config->parallel, /*offloads_parameters=*/false);
  for (const parallel::PartUnits& part : model::make_architecture(config).parts) {
    if (!part.has_gradient) continue;
    trained_.push_back({shapes_of(part.units), policy.shard_axes(part.has_gradient, part.of_experts)});
  }
}

std::vector<std::int64_t> RankLedgers::key_of(const mesh::Place& place, bool is_first_of_node) const {
  std::vector<std::int64_t> key{static_cast<std::int64_t>(place.rank() == 0),
                                static_cast<std::int64_t>(is_first_of_node),
                                static_cast<std::int64_t>(rank::batches_bytes(config_, place, datasets_)),
                                place.rank(Axis::ep), place.rank(Axis::tp)};
  for (const TrainedUnits& part : trained_) {
    if (!is_elementwise(config_->optimizer.optim)) {
      key.push_back(place.rank(part.shard_axes));
      continue;
    }
    const parallel::ShardMap map(part.shapes, place, part.shard_axes);
    for (const parallel::Piece& piece : map.pieces()) {
      for (const std::int64_t number : {piece.parameter->unit_offset, piece.shard_offset, piece.count}) {
        key.push_back(number);
      }
    }
  }
  return key;
}

RankLedgers::Kind RankLedgers::plan(const mesh::Place& place, bool is_first_of_node) const {
  rank::Machine machine = machine_;
  machine.is_first_of_node = is_first_of_node;
  rank::RankPlan plan(config_, datasets_.limits(config_), place, machine);
  Kind kind{.ledger = plan_ledger(plan, config_, datasets_, process_bytes_), .writes = {}};
  if (!config_->checkpoint.has_snapshot()) return kind;
  kind.writes.emplace(plan.saved_entries());
  kind.ledger.remove(device::Label::snapshot, device::Space::pinned, arena_bytes(kind.writes->snapshot_bytes()));
  return kind;
}

device::Ledger RankLedgers::of(const mesh::Place& place, bool is_first_of_node) {
  std::vector<std::int64_t> key = key_of(place, is_first_of_node);
  auto found = kinds_.find(key);
  if (found == kinds_.end()) found = kinds_.emplace(std::move(key), plan(place, is_first_of_node)).first;
  const Kind& kind = found->second;
  device::Ledger ledger = kind.ledger;
  if (kind.writes) {
    ledger.add(device::Label::snapshot, device::Space::pinned, arena_bytes(kind.writes->snapshot_bytes_of(place)));
  }
  return ledger;
}

rank::MemoryTable plan_memory(const config::ValidConfig& config, const rank::Datasets& datasets,
                              const rank::Machine& machine, std::size_t process_bytes) {
  return plan_memory(config, datasets, machine, process_bytes, mesh::layout_of(config->parallel).size());
}

rank::MemoryTable plan_memory(const config::ValidConfig& config, const rank::Datasets& datasets,
                              const rank::Machine& machine, std::size_t process_bytes, int ranks_per_node) {
  rank::MemoryTable table;
  const mesh::Place first(config, 0);
  std::size_t of_node = 0;
  RankLedgers ledgers(config, datasets, machine, process_bytes);
  for (const WorldRank rank : first.layout().ranks()) {
    const int number = static_cast<int>(rank);
    const auto rows = rank::memory_rows(ledgers.of(first.peer(rank), number % ranks_per_node == 0), machine.kind);
    of_node = (number % ranks_per_node == 0 ? 0 : of_node) + rows[rank::num_memory_rows - 1];
    if (number % ranks_per_node == ranks_per_node - 1 || number == first.layout().size() - 1) {
      rank::MemoryRange& nodes = table.nodes;
      const int first_rank = number / ranks_per_node * ranks_per_node;
      nodes.least_bytes = first_rank == 0 ? of_node : std::min(nodes.least_bytes, of_node);
      if (of_node > nodes.most_bytes) nodes = {nodes.least_bytes, of_node, WorldRank::from(first_rank)};
    }
    for (std::size_t i = 0; i < rank::num_memory_rows; ++i) {
      rank::MemoryRange& range = range_of(table, i);
      range.least_bytes = rank == 0 ? rows[i] : std::min(range.least_bytes, rows[i]);
      if (rank == 0 || rows[i] > range.most_bytes) range = {range.least_bytes, rows[i], rank};
    }
  }
  return table;
}

}  // namespace sft::planner
