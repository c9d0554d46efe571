// SPDX-License-Identifier: Apache-2.0
#include "equivalence/split_table.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <set>

namespace sft::test {
namespace {

using config::ActivationCheckpointing;
using config::SpMethod;

constexpr std::array methods{SpMethod::ring, SpMethod::all_gather, SpMethod::ulysses, SpMethod::hybrid};
constexpr std::array checkpointings{ActivationCheckpointing::none, ActivationCheckpointing::selective,
                                    ActivationCheckpointing::full};
constexpr std::array factor_names{"stage",   "reshard",   "units", "method",       "recomputation",
                                  "offload", "optimizer", "tile",  "accumulation", "tokens"};
enum Reshard { after_forward, never, to_neighbours };
enum Units { block, two_blocks, parts };

struct Heads {
  Family family;
  std::int64_t count;
};
/// Between them heads for every tp and every number of ranks that exchange heads.
constexpr std::array heads_of_models{Heads{Family::llama, 4},  Heads{Family::qwen2, 6},  Heads{Family::qwen3, 4},
                                     Heads{Family::llama, 16}, Heads{Family::qwen2, 12}, Heads{Family::qwen3, 12}};

/// The least divisor of `size` above 1 and below `size` that also divides `other`; 0: none.
int least_divisor(std::int64_t size, std::int64_t other) {
  for (int n = 2; n < size; ++n) {
    if (size % n == 0 && other % n == 0) return n;
  }
  return 0;
}

int sharding_ranks(const mesh::Layout& layout) { return layout[Axis::dp_shard] * layout[Axis::sp]; }

/// Two choices, or three, in the order of their factors. A choice is factor * choices_per_factor + level.
using Combination = std::array<int, 3>;
constexpr int choices_per_factor = 10, no_choice = -1;

std::string name_of(const Combination& combination) {
  std::string name;
  for (const int choice : combination) {
    if (choice == no_choice) continue;
    name += std::string(name.empty() ? "" : ", ") +
            factor_names[static_cast<std::size_t>(choice / choices_per_factor)] + " " +
            std::to_string(choice % choices_per_factor);
  }
  return name;
}

int choice(std::size_t factor, int level) { return static_cast<int>(factor) * choices_per_factor + level; }
int choice(Factor factor, int level) { return choice(static_cast<std::size_t>(factor), level); }

std::vector<Combination> combinations_of(const SplitCase& of) {
  std::vector<Combination> result;
  const auto is_effective = [&](std::size_t f) { return of.is_effective(static_cast<Factor>(f)); };
  for (std::size_t a = 0; a < num_factors; ++a) {
    for (std::size_t b = a + 1; b < num_factors; ++b) {
      if (is_effective(a) && is_effective(b)) {
        result.push_back({choice(a, of.levels[a]), choice(b, of.levels[b]), no_choice});
      }
    }
  }
  if (of.is_effective(Factor::sp_method)) {
    Combination triple{};
    std::ranges::transform(std::array{Factor::zero_stage, Factor::sp_method, Factor::activation_checkpointing},
                           triple.begin(), [&](Factor factor) { return choice(factor, of.level(factor)); });
    result.push_back(triple);
  }
  return result;
}

std::set<Combination> all_combinations() {
  std::set<Combination> all;
  for (std::size_t a = 0; a < num_factors; ++a) {
    for (std::size_t b = a + 1; b < num_factors; ++b) {
      for (int i = 0; i < num_levels[a]; ++i) {
        for (int j = 0; j < num_levels[b]; ++j) all.insert({choice(a, i), choice(b, j), no_choice});
      }
    }
  }
  // What stays whole is not given up after the forward pass.
  for (int stage = 0; stage < 3; ++stage) {
    for (const Reshard reshard : {never, to_neighbours}) {
      all.erase({choice(Factor::zero_stage, stage), choice(Factor::reshard_after_forward, reshard), no_choice});
    }
  }
  for (int stage = 0; stage < 4; ++stage) {
    for (int method = 0; method < std::ssize(methods); ++method) {
      for (int recomputed = 0; recomputed < std::ssize(checkpointings); ++recomputed) {
        all.insert({choice(Factor::zero_stage, stage), choice(Factor::sp_method, method),
                    choice(Factor::activation_checkpointing, recomputed)});
      }
    }
  }
  return all;
}

std::vector<test::Layout> layouts_of_table() {
  std::vector<test::Layout> layouts;
  int num_large = 0;
  for (const int size : {2, 3, 4, 6, 8, 12, 16}) {
    for (int dp_replicate = 1; dp_replicate <= size; ++dp_replicate) {
      for (int dp_shard = 1; dp_replicate * dp_shard <= size; ++dp_shard) {
        for (int sp = 1; dp_replicate * dp_shard * sp <= size; ++sp) {
          const test::Layout layout{dp_replicate, dp_shard, sp, size / (dp_replicate * dp_shard * sp)};
          if (layout.size() != size || (size >= 12 && ++num_large % 2 == 0)) continue;
          layouts.push_back(layout);
        }
      }
    }
  }
  return layouts;
}

/// The legal case with the most combinations that are still missing, of some hundred at random; none when no head count
/// fits tp, or fewer than `least_new` are missing.
std::optional<SplitCase> draw_case(const test::Layout& layout, const std::set<Combination>& missing,
                                   std::ptrdiff_t least_new, std::mt19937_64& random) {
  constexpr int num_draws = 400;
  const auto below = [&](auto bound) { return random() % static_cast<std::uint64_t>(bound); };
  std::optional<SplitCase> best;
  for (int draw = 0; draw < num_draws; ++draw) {
    const Heads& heads = heads_of_models[below(heads_of_models.size())];
    SplitCase drawn{layout, heads.family, heads.count, {}};
    for (std::size_t f = 0; f < num_factors; ++f) drawn.levels[f] = static_cast<int>(below(num_levels[f]));
    if (!drawn.is_legal()) continue;
    const std::ptrdiff_t num_new = std::ranges::count_if(
        combinations_of(drawn), [&](const Combination& combination) { return missing.contains(combination); });
    if (num_new < least_new) continue;
    best = drawn;
    least_new = num_new + 1;
  }
  return best;
}

}  // namespace

bool SplitCase::is_effective(Factor factor) const {
  switch (factor) {
    case Factor::zero_stage:
    case Factor::reshard_after_forward:
    case Factor::fsdp_units:
      return sharding_ranks(layout) > 1;
    case Factor::sp_method:
      return layout[Axis::sp] > 1;
    case Factor::tp_sequence_parallel:
      return layout[Axis::tp] > 1;
    default:
      return true;
  }
}

bool SplitCase::is_legal() const {
  const std::int64_t num_kv_heads = model_of(family).num_key_value_heads;
  if (num_attention_heads % layout[Axis::tp] != 0) return false;
  if (num_kv_heads % layout[Axis::tp] != 0 && layout[Axis::tp] % num_kv_heads != 0) return false;
  const int reshard = level(Factor::reshard_after_forward);
  if (reshard != after_forward && level(Factor::zero_stage) < 3) return false;
  if (reshard == to_neighbours && least_divisor(sharding_ranks(layout), 0) == 0) return false;
  const std::int64_t heads_of_rank = num_attention_heads / layout[Axis::tp];
  switch (methods[static_cast<std::size_t>(level(Factor::sp_method))]) {
    case SpMethod::all_gather:
      return layout[Axis::sp] > 1;
    case SpMethod::ulysses:
      return layout[Axis::sp] > 1 && heads_of_rank % layout[Axis::sp] == 0;
    case SpMethod::hybrid:
      return least_divisor(layout[Axis::sp], heads_of_rank) > 0;
    default:
      return true;
  }
}

Task SplitCase::task() const {
  // Deep enough for units to be given up and gathered again where that is what the case is about.
  const bool is_deep = level(Factor::reshard_after_forward) != after_forward || level(Factor::fsdp_units) == two_blocks;
  const int data_size = layout[Axis::dp_replicate] * layout[Axis::dp_shard];
  return {.family = family,
          .global_rows = std::max(4, 2 * data_size),
          .num_hidden_layers = is_deep ? 4 : 2,
          .num_attention_heads = num_attention_heads};
}

config::Config SplitCase::config(const std::string& folder) const {
  config::Config result;
  config::Parallel& parallel = result.parallel;
  parallel.zero_stage = level(Factor::zero_stage);
  const int reshard = level(Factor::reshard_after_forward);
  if (reshard == never) parallel.reshard_after_forward = config::Reshard::never;
  if (reshard == to_neighbours) {
    parallel.reshard_after_forward = config::Reshard::to_groups;
    parallel.reshard_size = least_divisor(sharding_ranks(layout), 0);
  }
  parallel.blocks_per_unit = std::array{1, 2, 0}[static_cast<std::size_t>(level(Factor::fsdp_units))];
  parallel.sp_method = methods[static_cast<std::size_t>(level(Factor::sp_method))];
  if (parallel.sp_method == SpMethod::hybrid) {
    parallel.ulysses_size = least_divisor(layout[Axis::sp], num_attention_heads / layout[Axis::tp]);
  }
  parallel.tp_sequence_parallel = level(Factor::tp_sequence_parallel) == 1;
  config::Train& train = result.train;
  train.activation_checkpointing = checkpointings[static_cast<std::size_t>(level(Factor::activation_checkpointing))];
  train.activation_offload = level(Factor::activation_offload) == 1;
  if (level(Factor::offload_optimizer) == 1) train.offload_optimizer = config::Offload::nvme;
  train.offload_folder = folder;
  train.mlp_tile_tokens = level(Factor::mlp_tile_tokens) == 1 ? 7 : 0;
  train.gradient_accumulation_steps = 1 + level(Factor::accumulation);
  train.precision = config::Precision::fp32;
  return result;
}

std::string SplitCase::name() const {
  std::string result = layout.describe() + ", family " + std::to_string(static_cast<int>(family)) + " with " +
                       std::to_string(num_attention_heads) + " heads";
  for (std::size_t f = 0; f < num_factors; ++f) result += ", " + name_of({choice(f, levels[f]), no_choice, no_choice});
  return result;
}

std::vector<SplitCase> split_table() {
  std::mt19937_64 random(1);  // its numbers are the same with every standard library
  std::set<Combination> missing = all_combinations();
  std::vector<SplitCase> table;
  const std::vector<test::Layout> layouts = layouts_of_table();
  const auto add = [&](const test::Layout& layout, std::ptrdiff_t least_new) {
    const std::optional<SplitCase> best = draw_case(layout, missing, least_new, random);
    if (!best) return;
    for (const Combination& combination : combinations_of(*best)) missing.erase(combination);
    table.push_back(*best);
  };
  for (const test::Layout& layout : layouts) add(layout, 0);
  for (const test::Layout& layout : layouts) add(layout, 1);
  return table;
}

std::vector<std::string> missing_combinations(const std::vector<SplitCase>& cases) {
  std::set<Combination> missing = all_combinations();
  for (const SplitCase& of : cases) {
    for (const Combination& combination : combinations_of(of)) missing.erase(combination);
  }
  std::vector<std::string> names;
  std::ranges::transform(missing, std::back_inserter(names), name_of);
  return names;
}

}  // namespace sft::test
