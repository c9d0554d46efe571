// SPDX-License-Identifier: Apache-2.0
// Searches for plans: what they look at, keep and refuse.
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <tuple>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/planner/search.hpp"
#include "sft/rank/pieces.hpp"
#include "support/small_run.hpp"

namespace {

using namespace sft;
using namespace sft::planner;
using namespace sft::rank;
using namespace sft::simulator;

/// The small model on GPUs, `num_ranks` of them on a node.
struct Task : test::SmallRun {
  explicit Task(int num_ranks) {
    task.base = config;
    const auto known = read_machines(io::read_file(SFT_SOURCE_DIR "/share/machines.ini"), "machines.ini");
    task.hardware = find_machine("h100", known);
    task.hardware.ranks_per_node = num_ranks;
    task.max_length = 512;
    task.rows_per_step = 8;
  }

  PlanTask task;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(search)

BOOST_AUTO_TEST_CASE(candidates_fill_the_machine_and_keep_the_step) {
  const Task t(4);
  std::set<std::string> meshes;
  std::int64_t num_candidates = 0;
  for_each_candidate(t.task, [&](const config::ValidConfig& config) {
    ++num_candidates;
    BOOST_TEST(mesh::layout_of(config->parallel).size() == 4);
    BOOST_TEST(config->effective_batch_rows() == 8);
    meshes.insert(mesh::layout_of(config->parallel).describe());
    return true;
  });
  BOOST_TEST(meshes.size() == 10);  // 4 = 2 x 2 over replicas, shards, sp and tp
  BOOST_TEST(num_candidates > 50);
}

BOOST_AUTO_TEST_CASE(a_method_or_size_of_sp_that_is_auto_is_searched) {
  using config::SpMethod;
  const auto methods_of = [](SpMethod given) {
    Task t(4);
    t.task.base.parallel.sp_method = given;
    t.task.fixed = {"sp_method", "ulysses_size"};
    std::set<std::pair<SpMethod, int>> methods;
    for_each_candidate(t.task, [&](const config::ValidConfig& config) {
      const config::Parallel& parallel = config->parallel;
      if (parallel.sp_size == 4) methods.emplace(parallel.sp_method, parallel.attention_method().ulysses_size);
      return false;
    });
    return methods;
  };
  BOOST_TEST((methods_of(SpMethod::automatic) ==
              std::set<std::pair<SpMethod, int>>{
                  {SpMethod::ring, 1}, {SpMethod::all_gather, 1}, {SpMethod::ulysses, 4}, {SpMethod::hybrid, 2}}));
  BOOST_TEST((methods_of(SpMethod::hybrid) == std::set<std::pair<SpMethod, int>>{{SpMethod::hybrid, 2}}));
  BOOST_TEST((methods_of(SpMethod::ring) == std::set<std::pair<SpMethod, int>>{{SpMethod::ring, 1}}));
}

BOOST_AUTO_TEST_CASE(what_the_hardware_cannot_compute_is_refused) {
  using config::Fp8;
  for (const auto& [compute_capability, fp8, is_refused] : {std::tuple(80, Fp8::tensorwise, true),
                                                            {89, Fp8::blockwise, true},
                                                            {80, Fp8::none, false},
                                                            {90, Fp8::blockwise, false},
                                                            {0, Fp8::tensorwise, false}}) {
    Task t(1);
    t.task.base.parallel.zero_stage = 0;
    t.task.fixed = {"zero_stage"};
    t.task.hardware.compute_capability = compute_capability;
    t.task.base.train.fp8 = fp8;
    if (is_refused) {
      BOOST_CHECK_EXCEPTION(static_cast<void>(search_plans(t.task)), Error, [](const Error& error) {
        return std::string(error.what()).find("cannot be computed on this GPU") != std::string::npos;
      });
    } else {
      BOOST_TEST(search_plans(t.task).counts.legal > 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(attention_for_other_gpus_is_refused) {
  for (const auto& [compute_capability, is_refused] : {std::pair{80, true}, {100, true}, {90, false}, {0, false}}) {
    Task t(1);
    t.task.base.parallel.zero_stage = 0;
    t.task.fixed = {"zero_stage"};
    t.task.hardware.compute_capability = compute_capability;
    t.task.base.train.precision = config::Precision::bf16;
    t.task.base.device.attention = config::AttentionChoice::hopper;
    if (is_refused) {
      BOOST_CHECK_EXCEPTION(static_cast<void>(search_plans(t.task)), Error, [](const Error& error) {
        return std::string(error.what()).find("`device.attention = hopper` cannot be computed on this GPU") == 0;
      });
    } else {
      BOOST_TEST(search_plans(t.task).counts.legal > 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_given_key_is_a_constraint) {
  Task t(4);
  t.task.base.parallel.tp_size = 2;
  t.task.base.parallel.zero_stage = 2;
  t.task.fixed = {"tp_size", "zero_stage"};
  std::int64_t num_candidates = 0;
  for_each_candidate(t.task, [&](const config::ValidConfig& config) {
    ++num_candidates;
    BOOST_TEST(config->parallel.tp_size == 2);
    BOOST_TEST(config->parallel.zero_stage == 2);
    return true;
  });
  BOOST_TEST(num_candidates > 0);
}

BOOST_AUTO_TEST_CASE(units_may_stay_whole_or_in_the_node_from_the_forward_to_the_backward_pass) {
  using config::Reshard;
  const auto found = [](const PlanTask& task) {
    std::set<std::tuple<int, Reshard, int>> all;
    for_each_candidate(task, [&](const config::ValidConfig& config) {
      const config::Parallel& parallel = config->parallel;
      all.insert({parallel.zero_stage, parallel.reshard_after_forward, parallel.reshard_size});
      return true;
    });
    return all;
  };
  Task t(2);
  t.task.hardware.num_nodes = 2;
  t.task.base.parallel.dp_shard_size = 4;
  t.task.fixed = {"dp_shard_size"};
  const std::set<std::tuple<int, Reshard, int>> all{{0, Reshard::always, 1}, {1, Reshard::always, 1},
                                                    {2, Reshard::always, 1}, {3, Reshard::always, 1},
                                                    {3, Reshard::never, 1},  {3, Reshard::to_groups, 2}};
  BOOST_TEST((found(t.task) == all));
  t.task.fixed.insert("reshard_after_forward");
  t.task.base.parallel.reshard_after_forward = Reshard::never;
  t.task.fixed.insert("zero_stage");
  BOOST_TEST((found(t.task) == std::set<std::tuple<int, Reshard, int>>{{3, Reshard::never, 1}}));
}

BOOST_AUTO_TEST_CASE(plans_fit_and_the_fastest_comes_first) {
  const Task t(4);
  const SearchResult result = search_plans(t.task);
  BOOST_REQUIRE(!result.best.empty());
  BOOST_TEST(result.counts.fitting <= result.counts.legal);
  double before_s = 0;
  for (const Candidate& plan : result.best) {
    BOOST_TEST(plan.memory.missing_bytes(t.task.hardware) == 0);
    BOOST_TEST(plan.time.step_s >= before_s);
    before_s = plan.time.step_s;
  }
}

// Which plans are worth a rehearsal depends on the attention that the run names: where it is slow, not those that
// compute it again, and where it is fast, not those that move the optimizer's state.
BOOST_AUTO_TEST_CASE(plans_are_chosen_by_the_attention_that_the_run_names) {
  using config::AttentionChoice;
  Task t(1);
  t.task.base.train.precision = config::Precision::bf16;
  simulator::Rates& rates = t.task.hardware.rates;
  rates.attention = {};
  rates.attention_forward_flops_per_s = rates.attention_backward_flops_per_s = 1e15;
  rates.attention_cudnn = {.forward = {{1, 1e9}}, .backward = {{1, 1e9}}};
  rates.attention_hopper = {.forward = {{1, 1e15}}, .backward = {{1, 1e15}}};
  config::Config again = t.task.base, moves = t.task.base;
  again.train.activation_checkpointing = config::ActivationCheckpointing::full;
  moves.train.offload_optimizer = config::Offload::host;
  const auto computes_again_sooner = [&](AttentionChoice choice) {
    again.device.attention = moves.device.attention = choice;
    return estimated_step_s(t.task, config::validate(again, 1)) < estimated_step_s(t.task, config::validate(moves, 1));
  };
  BOOST_TEST(computes_again_sooner(AttentionChoice::own));
  BOOST_TEST(computes_again_sooner(AttentionChoice::hopper));
  BOOST_TEST(!computes_again_sooner(AttentionChoice::cudnn));
  // The forward pass, which is what is computed again, alone.
  BOOST_TEST(!computes_again_sooner(AttentionChoice::cudnn_forward));
  // Of a model with sinks it is this program's.
  again.model.attention_sinks = moves.model.attention_sinks = true;
  BOOST_TEST(computes_again_sooner(AttentionChoice::cudnn));
}

BOOST_AUTO_TEST_CASE(where_memory_is_scarce_only_what_fits_is_kept) {
  Task t(4);
  const SearchResult roomy = search_plans(t.task);
  BOOST_REQUIRE(!roomy.best.empty());
  t.task.hardware.device_bytes = roomy.best.front().memory.device_bytes;  // less what is reserved
  const SearchResult tight = search_plans(t.task);
  BOOST_TEST(tight.counts.fitting < roomy.counts.fitting);
  for (const Candidate& plan : tight.best) BOOST_TEST(plan.memory.missing_bytes(t.task.hardware) == 0);
  t.task.hardware.device_bytes = 1 << 20;
  BOOST_TEST(search_plans(t.task).best.empty());
  BOOST_TEST(!smallest_machine(t.task));
  const auto obvious = obvious_plan(t.task);
  BOOST_REQUIRE(obvious);
  BOOST_TEST(obvious->memory.missing_bytes(t.task.hardware) > 0);
}

BOOST_AUTO_TEST_CASE(a_plan_that_fits_has_all_its_memory_and_products_alone_can_be_too_much) {
  Task t(2);
  t.task.hardware.kind = device::Kind::cpu;
  t.task.hardware.device_bytes = 0;
  const auto obvious = obvious_plan(t.task);
  BOOST_REQUIRE(obvious);
  const std::size_t needed = obvious->memory.node_bytes;
  t.task.hardware.node_bytes = needed;
  const auto fitting = fitting_candidate(t.task, obvious->config, 2);
  BOOST_REQUIRE(fitting);
  BOOST_TEST(fitting->memory.node_bytes == needed);
  BOOST_TEST(fitting->memory.fullest.total_bytes() == obvious->memory.fullest.total_bytes());
  for (const std::size_t missing : {std::size_t{1}, needed / 1000, needed / 2}) {
    t.task.hardware.node_bytes = needed - missing;
    BOOST_TEST(!fitting_candidate(t.task, obvious->config, 2));
    BOOST_TEST(plan_candidate_memory(t.task, obvious->config, 1).node_bytes == needed);
  }
}

BOOST_AUTO_TEST_CASE(long_rows_fit_with_the_tiles_that_a_run_takes) {
  Task t(1);
  t.task.max_length = 1 << 16;
  t.task.rows_per_step = 1;
  t.task.base.model.intermediate_size = 4096;
  t.task.base.train.activation_checkpointing = config::ActivationCheckpointing::full;
  const auto memory_with = [&](std::optional<std::int64_t> tile_tokens) {
    config::Config config = t.task.base;
    config.train.mlp_tile_tokens = tile_tokens;
    return plan_candidate_memory(t.task, config::validate(config, 1), 1).device_bytes;
  };
  const std::size_t whole = memory_with(0), tiled = memory_with(auto_mlp_tile_tokens);
  BOOST_TEST_REQUIRE(tiled < whole);
  const auto fitting = [&](std::optional<std::int64_t> tile_tokens, std::size_t usable_bytes) {
    t.task.hardware.device_bytes =
        static_cast<std::size_t>(static_cast<double>(usable_bytes) / (1 - reserved_share)) + 1;
    config::Config config = t.task.base;
    config.train.mlp_tile_tokens = tile_tokens;
    return fitting_candidate(t.task, config::validate(config, 1), 1);
  };
  const auto tile_of = [](const std::optional<Candidate>& candidate) {
    return candidate->config->train.mlp_tile_tokens;
  };
  const auto roomy = fitting({}, whole);
  BOOST_REQUIRE(roomy);
  BOOST_TEST(!tile_of(roomy));
  BOOST_TEST(roomy->memory.device_bytes == whole);
  const std::size_t between = tiled + (whole - tiled) / 2;
  const auto tight = fitting({}, between);
  BOOST_REQUIRE(tight);
  BOOST_TEST(tile_of(tight).value_or(0) == auto_mlp_tile_tokens);
  BOOST_TEST(tight->memory.device_bytes == tiled);
  BOOST_TEST(!fitting(0, between));
  BOOST_TEST(!fitting({}, tiled / 2));
}

BOOST_AUTO_TEST_CASE(the_nearest_plan_changes_the_fewest_keys) {
  Task t(4);
  const auto obvious = obvious_plan(t.task);
  BOOST_REQUIRE(obvious);
  t.task.max_length = 32768;
  const auto large = obvious_plan(t.task);
  BOOST_REQUIRE(large);
  t.task.hardware.device_bytes =
      large->memory.device_bytes - (large->memory.device_bytes - obvious->memory.device_bytes) / 4;
  BOOST_TEST(plan_candidate_memory(t.task, large->config, 1).missing_bytes(t.task.hardware) > 0);
  const auto nearest = nearest_plan(t.task, large->config);
  BOOST_REQUIRE(nearest);
  BOOST_TEST(nearest->candidate.memory.missing_bytes(t.task.hardware) == 0);
  BOOST_TEST(nearest->keys.size() <= 2);
  BOOST_TEST(nearest->candidate.config->effective_batch_rows() == large->config->effective_batch_rows());
  const std::string text = describe(*nearest, t.task.hardware);
  BOOST_TEST(text.find("--" + nearest->keys.front().section + "." + nearest->keys.front().name) == 0, text);
  t.task.hardware.device_bytes = 1 << 20;
  BOOST_TEST(!nearest_plan(t.task, large->config));
}

BOOST_AUTO_TEST_CASE(what_changes_the_numbers_is_searched_when_asked_for) {
  Task t(2);
  const auto optimizers = [&] {
    std::set<config::OptimizerKind> found;
    std::set<DType> sums;
    for_each_candidate(t.task, [&](const config::ValidConfig& config) {
      found.insert(config->optimizer.optim);
      sums.insert(config->parallel.reduce_dtype);
      return true;
    });
    return std::pair(found.size(), sums.size());
  };
  BOOST_TEST((optimizers() == std::pair<std::size_t, std::size_t>(1, 1)));
  t.task.searched = {"optim", "reduce_dtype"};
  BOOST_TEST((optimizers() == std::pair<std::size_t, std::size_t>(3, 2)));
}

BOOST_AUTO_TEST_CASE(documents_have_the_sum_and_the_squares_of_the_data) {
  const std::vector<std::int32_t> documents = mean_documents({.row_tokens = 900, .document_tokens = 300}, 4);
  BOOST_TEST(documents.size() == 12);
  std::int64_t sum = 0;
  for (const std::int32_t length : documents) sum += length;
  BOOST_TEST(sum == 3600);
  BOOST_TEST(mean_documents(RowLengths::of_full_rows(64), 2).size() == 2);
  const test::SmallRun run;
  const rows::PackedDataset data(run.config.data.train_files);
  const RowLengths lengths = RowLengths::of(data);
  BOOST_TEST(lengths.row_tokens * static_cast<double>(data.num_rows()) == static_cast<double>(data.num_tokens()),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(lengths.document_tokens > 0);
}

BOOST_AUTO_TEST_CASE(what_a_plan_leaves_room_for_is_the_most_that_fits) {
  Task t(1);
  const auto obvious = obvious_plan(t.task);
  BOOST_REQUIRE(obvious);
  t.task.hardware.device_bytes = 2 * obvious->memory.device_bytes;
  const auto fits = [&](const config::ValidConfig& config, const PlanTask& task) {
    return fitting_candidate(task, config, 1).has_value();
  };
  const std::int64_t length = longest_row(t.task, obvious->config, 1024);
  BOOST_TEST(length > 0);
  PlanTask longer = t.task;
  longer.max_length = length;
  BOOST_TEST(fits(obvious->config, longer));
  longer.max_length = length + 1024;
  BOOST_TEST(!fits(obvious->config, longer));
}

BOOST_AUTO_TEST_SUITE_END()
