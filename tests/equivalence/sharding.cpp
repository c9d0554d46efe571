// SPDX-License-Identifier: Apache-2.0
// What is sharded, and which parameters are gathered together, changes memory and traffic, and no number: with ZeRO
// stages, resharding to neighbours and units of every size adapters train like one rank in float32, and all weights in
// bf16, with the same bits every time. All weights in float32 are in splits.cpp.

#include <string>

#include "equivalence/baselines.hpp"
#include "equivalence/trajectory.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(sharding)

namespace {

using namespace sft;
using test::Family;
using test::session;

struct Sharding {
  int zero_stage = 3;
  int reshard_size = 1;     ///< reshard_after_forward = N; 1: as `reshard` says
  int blocks_per_unit = 1;  ///< 0: parts
  config::Reshard reshard = config::Reshard::always;
};

struct Case {
  test::Layout layout;  ///< dp_replicate x dp_shard x sp x tp
  Family family;
  Sharding sharding;
  std::int64_t num_hidden_layers = 0;
  bool use_peft = false;

  [[nodiscard]] test::Task task() const { return {family, test::rows_per_step(layout), num_hidden_layers, use_peft}; }
  [[nodiscard]] config::Parallel parallel() const {
    config::Parallel result;
    result.zero_stage = sharding.zero_stage;
    result.reshard_size = sharding.reshard_size;
    result.blocks_per_unit = sharding.blocks_per_unit;
    result.reshard_after_forward = sharding.reshard_size > 1 ? config::Reshard::to_groups : sharding.reshard;
    return result;
  }
  [[nodiscard]] std::string name() const {
    return layout.describe() + ", stage " + std::to_string(sharding.zero_stage) + ", reshard to " +
           std::to_string(sharding.reshard_size) + ", " + std::to_string(sharding.blocks_per_unit) +
           " blocks a unit, family " + std::to_string(static_cast<int>(family)) + (use_peft ? ", adapters" : "");
  }
};

constexpr Sharding stage0{.zero_stage = 0}, stage1{.zero_stage = 1}, stage2{.zero_stage = 2}, stage3{};
constexpr Sharding parts{.blocks_per_unit = 0}, two_blocks{.blocks_per_unit = 2}, all_blocks{.blocks_per_unit = 9};
constexpr bool adapters = true;

const std::vector<Case> cases{
    // 2 ranks
    {{1, 2, 1, 1}, Family::qwen2, stage0},
    {{1, 1, 2, 1}, Family::qwen3, stage1},
    {{1, 1, 2, 1}, Family::qwen2, parts},
    {{1, 2, 1, 1}, Family::llama, two_blocks, 5},
    {{1, 2, 1, 1}, Family::qwen2, stage1, 0, adapters},
    {{1, 1, 2, 1}, Family::llama, stage3, 3, adapters},
    // 3 ranks
    {{1, 3, 1, 1}, Family::llama, stage1},
    {{1, 1, 3, 1}, Family::qwen2, stage2},
    {{1, 3, 1, 1}, Family::qwen3, stage0, 0, adapters},
    {{1, 3, 1, 1}, Family::qwen2, all_blocks, 3},
    // 4 ranks
    {{1, 2, 2, 1}, Family::llama, stage0},
    {{2, 2, 1, 1}, Family::qwen2, stage1},
    {{1, 2, 1, 2}, Family::qwen3, stage2},
    {{1, 1, 2, 2}, Family::qwen2, stage0},
    {{1, 4, 1, 1}, Family::qwen2, {.reshard_size = 2}, 5},
    {{1, 2, 2, 1}, Family::qwen3, {.reshard_size = 2, .blocks_per_unit = 0}, 5},
    {{1, 4, 1, 1}, Family::llama, {.reshard_size = 2}, 5, adapters},
    {{1, 2, 1, 2}, Family::llama, stage2, 0, adapters},
    {{2, 2, 1, 1}, Family::qwen3, {.blocks_per_unit = 0, .reshard = config::Reshard::never}},
    // 6 ranks
    {{1, 1, 3, 2}, Family::llama, stage0},
    {{1, 3, 1, 2}, Family::qwen2, stage2},
    {{1, 6, 1, 1}, Family::llama, {.reshard_size = 3, .blocks_per_unit = 2}, 7},
    {{1, 2, 3, 1}, Family::qwen3, {.reshard_size = 2}, 5},
    // 8 ranks
    {{2, 2, 2, 1}, Family::llama, stage1},
    {{1, 2, 2, 2}, Family::qwen2, stage2},
    {{2, 4, 1, 1}, Family::qwen3, {.reshard_size = 2}, 6},
    {{1, 2, 1, 4}, Family::qwen3, stage1, 0, adapters},
    // 12 ranks
    {{3, 2, 2, 1}, Family::llama, stage2},
    {{1, 12, 1, 1}, Family::qwen3, {.reshard_size = 6, .blocks_per_unit = 0}, 4},
    // 16 ranks
    {{2, 2, 2, 2}, Family::qwen2, stage1},
    {{1, 4, 4, 1}, Family::llama, {.reshard_size = 8}, 5},
    {{1, 4, 2, 2}, Family::qwen3, {.reshard_size = 4, .blocks_per_unit = 2}, 5, adapters},
};

std::vector<Case> own_cases() {
  std::vector<Case> result;
  for (const Case& c : cases) {
    if (c.layout.size() == session().world().size()) result.push_back(c);
  }
  return result;
}

const test::Baselines& baselines() {
  static const test::Baselines all = [] {
    std::vector<test::Task> tasks;
    for (const Case& c : own_cases()) tasks.push_back(c.task());
    return test::Baselines(tasks, session());
  }();
  return all;
}

test::Trajectory run(const Case& c, int accumulation, config::Precision precision) {
  const config::Parallel parallel = c.parallel();
  const test::Mesh mesh(session().world(), c.layout, c.task().model(), parallel);
  return test::train(c.task(), parallel, accumulation, precision, mesh, session());
}

}  // namespace

BOOST_AUTO_TEST_CASE(adapters_train_like_one_rank) {
  for (const Case& c : own_cases()) {
    if (!c.use_peft) continue;
    const test::Trajectory& baseline = baselines().of(c.task());
    for (const int accumulation : test::accumulations) {
      const test::Deviation worst = test::deviation(run(c, accumulation, config::Precision::fp32), baseline);
      BOOST_TEST_MESSAGE(c.name() << ": loss " << worst.loss << ", grad norm " << worst.grad_norm);
      BOOST_TEST(worst.loss <= 1e-5, c.name() << ": " << worst.loss);
      BOOST_TEST(worst.grad_norm <= 1e-4, c.name() << ": " << worst.grad_norm);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_neighbours_keep_is_what_all_would_gather) {
  for (const Case& c : own_cases()) {
    if (c.sharding.reshard_size == 1) continue;
    Case plain = c;
    plain.sharding.reshard_size = 1;
    const test::Trajectory found = run(c, 1, config::Precision::bf16),
                           expected = run(plain, 1, config::Precision::bf16);
    for (std::size_t step = 0; step < found.size(); ++step) {
      BOOST_TEST(found[step].loss == expected[step].loss, c.name());
      BOOST_TEST(found[step].grad_norm == expected[step].grad_norm, c.name());
    }
  }
}

// The bounds are those of equivalence.cpp.
BOOST_AUTO_TEST_CASE(bf16_is_near_and_twice_the_same_bits) {
  for (const Case& c : own_cases()) {
    const test::Trajectory first = run(c, 3, config::Precision::bf16), second = run(c, 3, config::Precision::bf16);
    const test::Deviation worst = test::deviation(first, baselines().of(c.task()));
    BOOST_TEST(worst.loss <= 3e-3, c.name() << ": " << worst.loss);
    BOOST_TEST(worst.grad_norm <= 3e-2, c.name() << ": " << worst.grad_norm);
    for (std::size_t step = 0; step < first.size(); ++step) {
      BOOST_TEST(first[step].loss == second[step].loss, c.name());
      BOOST_TEST(first[step].grad_norm == second[step].grad_norm, c.name());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
