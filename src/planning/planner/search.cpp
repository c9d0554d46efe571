// SPDX-License-Identifier: Apache-2.0
#include "sft/planner/search.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/attention_rates.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/error.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/flops.hpp"
#include "sft/planner/row_lengths.hpp"
#include "sft/rank/memory.hpp"
#include "sft/rank/pieces.hpp"
#include "sft/rank/products.hpp"
#include "sft/rank/rank_plan.hpp"

namespace sft::planner {

namespace {

/// Ranks whose memory a search looks at, and that of a plan which is told of.
constexpr int ranks_of_search = 1, ranks_of_result = 128;

rows::MicroBatchLimits limits_of(const PlanTask& task, const config::ValidConfig& config) {
  if (task.measured_limits) return task.measured_limits(config);
  rows::MicroBatchLimits limits = rows::limits_of_full_rows(config->train.per_device_train_batch_size, task.max_length);
  if (task.document_tokens > 0) limits.document_tokens = std::min(limits.document_tokens, task.document_tokens);
  return limits;
}

rank::Machine machine_of(const PlanTask& task, const config::ValidConfig& config) {
  rank::Machine machine{
      .kind = task.hardware.kind, .num_threads = task.num_threads, .huge_page_bytes = task.huge_page_bytes};
  if (machine.kind == device::Kind::cpu) return machine;
  machine.gpu_process_bytes = rank::assumed_gpu_process_bytes(config);
  return machine;
}

/// What of a task is the same on fewer or more nodes.
bool fits_anyhow(const PlanTask& task) {
  bool fits = false;
  for_each_candidate(task, [&](const config::ValidConfig& config) {
    if (fits) return false;
    fits = fitting_candidate(task, config, ranks_of_search).has_value();
    return false;  // larger micro-batches need more
  });
  return fits;
}

/// Candidates of one of these differ by how they save memory alone, and have pieces (choose_pieces) or not, which the
/// estimate does not know.
using MeshAndStage = std::tuple<std::string, int, config::Reshard, bool>;
MeshAndStage mesh_of(const config::ValidConfig& config) {
  const config::Parallel& parallel = config->parallel;
  const config::Train& train = config->train;
  const bool has_pieces = train.mlp_tile_tokens.value_or(0) > 0 || train.attention_head_groups.value_or(1) > 1;
  return {mesh::layout_of(parallel).describe(), parallel.zero_stage, parallel.reshard_after_forward, has_pieces};
}

/// Leaves those that can be among the fastest: some of each mesh and stage, and of these the best by estimate.
void keep_promising(const PlanTask& task, std::vector<Candidate>& candidates) {
  constexpr std::size_t most_rehearsed = 64;
  constexpr int most_of_mesh = 3;
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    order.emplace_back(estimated_step_s(task, candidates[i].config), i);
  std::ranges::sort(order);
  std::map<MeshAndStage, int> num_of_mesh;
  std::vector<Candidate> kept;
  for (const auto& [time_s, i] : order) {
    if (kept.size() == most_rehearsed) break;
    if (++num_of_mesh[mesh_of(candidates[i].config)] <= most_of_mesh) kept.push_back(std::move(candidates[i]));
  }
  candidates = std::move(kept);
}

/// The largest n in [1, most] for which fits(n), which holds up to some n; 0: for none.
std::int64_t largest(std::int64_t most, const std::function<bool(std::int64_t)>& fits) {
  std::int64_t good = 0, bad = most + 1;
  for (std::int64_t n = 1; bad - good > 1; n = good > 0 && 2 * good < bad ? 2 * good : (good + bad) / 2) {
    (fits(n) ? good : bad) = n;
  }
  return good;
}

bool fits_with(const PlanTask& task, const config::ValidConfig& config) {
  try {
    config::validate_data(config, task.max_length, config->model.vocab_size, "the rows");
  } catch (const Error&) {
    return false;
  }
  return fitting_candidate(task, config, ranks_of_search).has_value();
}

/// Adds what the rank at `place` takes to `memory`. Returns false, and leaves what its products take out, where they
/// make no difference: with `ends_early`, where it does not fit without them.
bool add_rank(const PlanTask& task, const config::ValidConfig& config, const mesh::Place& place, bool ends_early,
              PlannedMemory& memory) {
  rank::RankPlan plan(config, limits_of(task, config), place, machine_of(task, config));
  device::Ledger ledger = plan_fixed_ledger(plan, task.process_bytes);
  const int num_on_node = std::min(task.hardware.ranks_per_node, place.layout().size());
  const auto add = [&] {
    const std::size_t on_node = ledger.node_bytes(plan.machine.kind), on_device = ledger.total_bytes() - on_node;
    memory.device_bytes = std::max(memory.device_bytes, on_device);
    memory.node_bytes = std::max(memory.node_bytes, on_node * num_on_node);
    if (ledger.total_bytes() > memory.fullest.total_bytes()) memory.fullest = ledger;
  };
  if (ends_early) {
    add();
    if (memory.missing_bytes(task.hardware) > 0) return false;
  }
  ledger.add(device::Label::process, device::Space::host, rank::plan_products(config, plan));
  add();
  return true;
}

/// The memory of ranks until add_rank() says that it has seen enough.
PlannedMemory memory_of_ranks(const PlanTask& task, const config::ValidConfig& config, int most_ranks,
                              bool ends_early) {
  const mesh::Place first(config, 0);
  const int num_ranks = first.layout().size(), num_looked_at = std::min(num_ranks, most_ranks);
  PlannedMemory memory;
  for (int i = 0; i < num_looked_at; ++i) {
    // The first and the last, and evenly between them.
    const int number =
        num_looked_at == 1 ? 0 : static_cast<int>(std::int64_t{i} * (num_ranks - 1) / (num_looked_at - 1));
    if (!add_rank(task, config, first.peer(WorldRank::from(number)), ends_early, memory)) break;
  }
  return memory;
}

constexpr std::int64_t most_tokens = std::int64_t{1} << 24;

}  // namespace

double estimated_step_s(const PlanTask& task, const config::ValidConfig& config) {
  const config::Config& c = *config;
  const config::Parallel& mesh = c.parallel;
  const simulator::Hardware& hardware = task.hardware;
  const auto micro_batches = static_cast<double>(c.train.gradient_accumulation_steps);
  const RowLengths lengths = task.lengths.value_or(RowLengths::of_full_rows(task.max_length));
  const double row_tokens = lengths.row_tokens / mesh.sp_size;
  const double tokens = static_cast<double>(c.train.per_device_train_batch_size) * row_tokens;
  const model::WeightCounts counts = model::weight_counts(c.model);
  const double weights = static_cast<double>(counts.all) / mesh.tp_size;
  const bool computes_again = c.train.activation_checkpointing == config::ActivationCheckpointing::full;
  const auto width = static_cast<double>(c.model.hidden_size), layers = static_cast<double>(c.model.num_hidden_layers);
  const double matmul = static_cast<double>(counts.of_token) / mesh.tp_size;
  const double heads = static_cast<double>(c.model.num_attention_heads * c.model.head_dim) / mesh.tp_size;
  const double pairs = tokens * lengths.document_tokens / 2;
  const double rate =
      hardware.rates.product_flops_per_s(static_cast<std::int64_t>(tokens), c.model.hidden_size,
                                         std::max<std::int64_t>(1, c.model.intermediate_size / mesh.tp_size));
  const simulator::Rates rates = with_attention_of(hardware.rates, c);
  const double head_pairs = layers * heads * pairs, keys = lengths.document_tokens / 2;
  const double attention_s = rates.attention_forward_s((computes_again ? 8 : 4) * head_pairs, keys, /*num_bytes=*/0) +
                             rates.attention_backward_s(10 * head_pairs, keys, /*num_bytes=*/0);
  const double ops_s = (computes_again ? 8 : 6) * matmul * tokens / rate + attention_s;
  const int shards = mesh.zero_stage == 0 ? 1 : mesh.dp_shard_size * mesh.sp_size;
  const bool is_in_node = shards * mesh.tp_size <= hardware.ranks_per_node;
  const double links = std::max(1, hardware.ranks_per_node / mesh.tp_size);
  const double shard_rate =
      is_in_node ? hardware.network.within.bytes_per_s
                 : std::min(hardware.network.within.bytes_per_s, links * hardware.network.between.bytes_per_s);
  // Gradients take four, a gather of the weights takes two, or one in fp8; that of neighbours goes over their links.
  const double gathers = mesh.zero_stage < 3 ? 0 : mesh.reshard_after_forward == config::Reshard::always ? 2 : 1;
  const double shared_bytes =
      shards > 1 && mesh.zero_stage >= 2 ? weights * (4 + (model::sends_fp8(config) ? 1 : 2) * gathers) : 0;
  const double tp_s = mesh.tp_size == 1 ? 0 : layers * 6 * tokens * width * 4 / hardware.network.within.bytes_per_s;
  const double link_s = mesh.sp_size * mesh.tp_size > hardware.ranks_per_node
                            ? layers * 8 * tokens * width / hardware.network.between.bytes_per_s
                            : 0;
  const double moved_bytes =
      c.train.offload_optimizer == config::Offload::none ? 0 : 16 * weights / std::max(shards, 1);
  return micro_batches * (std::max(ops_s, shared_bytes / shard_rate) + tp_s + link_s) +
         moved_bytes / hardware.rates.host_bytes_per_s;
}

StepTime plan_candidate_time(const PlanTask& task, const config::ValidConfig& config) {
  const RowLengths lengths = task.lengths.value_or(RowLengths::of_full_rows(task.max_length));
  const std::vector<std::int32_t> documents = mean_documents(lengths, config->train.per_device_train_batch_size);
  return plan_step_time(config, documents, mesh::Place(config, 0), machine_of(task, config), task.hardware);
}

std::size_t PlannedMemory::missing_bytes(const simulator::Hardware& hardware) const {
  const auto usable = static_cast<std::size_t>((1 - reserved_share) * static_cast<double>(hardware.device_bytes));
  const std::size_t on_device = device_bytes > usable ? device_bytes - usable : 0;
  const std::size_t on_node = node_bytes > hardware.node_bytes ? node_bytes - hardware.node_bytes : 0;
  return std::max(on_device, on_node);
}

PlannedMemory plan_candidate_memory(const PlanTask& task, const config::ValidConfig& config, int most_ranks) {
  return memory_of_ranks(task, config, most_ranks, /*ends_early=*/false);
}

std::optional<Candidate> fitting_candidate(const PlanTask& task, const config::ValidConfig& config, int most_ranks) {
  std::optional<Candidate> fitting;
  const auto fits = [&](const config::ValidConfig& of) {
    const PlannedMemory memory = memory_of_ranks(task, of, most_ranks, /*ends_early=*/true);
    if (memory.missing_bytes(task.hardware) == 0) fitting = Candidate{of, memory};
    return fitting.has_value();
  };
  const bool may_have_pieces = limits_of(task, config).tokens > rank::auto_mlp_tile_tokens * config->parallel.sp_size;
  if (!may_have_pieces) {
    fits(config);
    return fitting;
  }
  const std::optional<rank::ChosenPieces> chosen = rank::fit_in_pieces(config, fits);
  if (chosen && chosen->why.empty()) fitting->config = config;
  return fitting;
}

rank::SaveTime plan_candidate_save(const PlanTask& task, const config::ValidConfig& config) {
  rank::RankPlan first(config, limits_of(task, config), mesh::Place(config, 0), machine_of(task, config));
  static_cast<void>(first.measure());
  return rank::save_time(first.saved_entries());
}

SearchResult search_plans(const PlanTask& task) {
  if (task.hardware.compute_capability != 0) {
    config::require_fp8_of_gpu(task.base.train, task.hardware.compute_capability);
    config::require_attention_of_gpu(task.base.device, task.hardware.compute_capability);
  }
  SearchResult result;
  std::vector<Candidate> fitting;
  for_each_candidate(task, [&](const config::ValidConfig& config) {
    ++result.counts.legal;
    std::optional<Candidate> candidate = fitting_candidate(task, config, ranks_of_search);
    if (!candidate) return false;
    ++result.counts.fitting;
    fitting.push_back(std::move(*candidate));
    return true;
  });
  keep_promising(task, fitting);
  for (Candidate& candidate : fitting) {
    candidate.time = plan_candidate_time(task, candidate.config);
    ++result.counts.rehearsed;
  }
  std::ranges::stable_sort(fitting, {}, [](const Candidate& candidate) { return candidate.time.step_s; });
  std::set<std::string> meshes;
  constexpr std::size_t num_told = 3;
  for (Candidate& candidate : fitting) {
    if (result.best.size() == num_told) break;
    const std::string mesh = mesh::layout_of(candidate.config->parallel).describe();
    if (meshes.contains(mesh)) continue;
    std::optional<Candidate> of_ranks = fitting_candidate(task, candidate.config, ranks_of_result);
    if (!of_ranks) continue;
    candidate.memory = of_ranks->memory;
    meshes.insert(mesh);
    result.best.push_back(std::move(candidate));
  }
  return result;
}

std::optional<Candidate> obvious_plan(const PlanTask& task) {
  config::Config config = task.base;
  const int num_ranks = task.hardware.num_ranks();
  config.parallel = {};
  config.parallel.dp_shard_size = num_ranks;
  config.train.per_device_train_batch_size = 1;
  config.train.gradient_accumulation_steps = std::max<std::int64_t>(1, task.rows_per_step / num_ranks);
  config.train.activation_checkpointing = config::ActivationCheckpointing::none;
  config.train.activation_offload = false;
  config.train.offload_optimizer = config.train.offload_parameters = config::Offload::none;
  try {
    const config::ValidConfig valid = config::validate(config, num_ranks);
    std::optional<Candidate> fitting = fitting_candidate(task, valid, ranks_of_search);
    if (!fitting) return Candidate{valid, plan_candidate_memory(task, valid, ranks_of_search)};
    fitting->time = plan_candidate_time(task, fitting->config);
    return fitting;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<simulator::Hardware> smallest_machine(const PlanTask& task) {
  constexpr int most_nodes = 64;
  PlanTask smaller = task;
  const auto fits_on = [&](int num_nodes, int ranks_per_node) {
    smaller.hardware = simulator::with_ranks_per_node(task.hardware, ranks_per_node);
    smaller.hardware.num_nodes = num_nodes;
    // A step has as many rows on fewer ranks; more ranks than rows need sp or tp.
    return fits_anyhow(smaller);
  };
  for (int ranks = 1; ranks < task.hardware.ranks_per_node; ranks *= 2) {
    if (fits_on(1, ranks)) return smaller.hardware;
  }
  for (int nodes = 1; nodes <= most_nodes; nodes *= 2) {
    if (fits_on(nodes, task.hardware.ranks_per_node)) return smaller.hardware;
  }
  return std::nullopt;
}

std::int64_t longest_row(const PlanTask& task, const config::ValidConfig& config, std::int64_t step) {
  PlanTask longer = task;
  longer.measured_limits = {};
  return step * largest(most_tokens / step / config->train.per_device_train_batch_size, [&](std::int64_t n) {
           longer.max_length = n * step;
           if (task.document_tokens == 0 || task.document_tokens == task.max_length) longer.document_tokens = 0;
           return fits_with(longer, config);
         });
}

std::int64_t largest_micro_batch(const PlanTask& task, const config::ValidConfig& config) {
  return largest(most_tokens / task.max_length, [&](std::int64_t rows) {
    return fits_with(task, config.with([&](config::Config& c) { c.train.per_device_train_batch_size = rows; }));
  });
}

}  // namespace sft::planner
