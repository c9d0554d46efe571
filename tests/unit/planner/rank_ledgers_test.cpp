// SPDX-License-Identifier: Apache-2.0
// Ledgers of ranks that share a plan are those of plans of their own.

#include "sft/planner/rank_ledgers.hpp"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <vector>

#include "sft/rank/memory.hpp"
#include "support/small_run.hpp"

namespace sft::planner {

using namespace rank;

BOOST_AUTO_TEST_SUITE(rank_ledgers)

namespace {

constexpr std::size_t process_bytes = std::size_t{100} << 20U;

struct Setting {
  std::string name;
  std::function<void(config::Config&)> set;
};

const std::vector<Setting> settings{
    {"as it is", [](config::Config&) {}},
    {"uneven", [](config::Config& c) { c.model.vocab_size = 1021, c.model.tie_word_embeddings = true; }},
    {"stage 0", [](config::Config& c) { c.parallel.zero_stage = 0; }},
    {"bf16 state", [](config::Config& c) { c.optimizer.moments_dtype = DType::bf16; }},
    {"no copy", [](config::Config& c) { c.checkpoint.async = false; }},
    {"LoRA",
     [](config::Config& c) {
       c.lora.use_peft = true;
       c.lora.modules_to_save = {"lm_head"};
     }},
    {"PiSSA",
     [](config::Config& c) {
       c.lora.use_peft = true;
       c.lora.init_lora_weights.kind = config::LoraInit::pissa;
     }},
    {"adafactor", [](config::Config& c) { c.optimizer.optim = config::OptimizerKind::adafactor; }},
    {"adamw_8bit", [](config::Config& c) { c.optimizer.optim = config::OptimizerKind::adamw_8bit; }},
    {"muon", [](config::Config& c) { c.optimizer.optim = config::OptimizerKind::muon; }},
    {"lion", [](config::Config& c) { c.optimizer.optim = config::OptimizerKind::lion; }},
    {"sgd", [](config::Config& c) { c.optimizer.optim = config::OptimizerKind::sgd; }},
    {"nvme",
     [](config::Config& c) { c.train.offload_optimizer = config::Offload::nvme, c.train.offload_folder = "."; }},
    {"host", [](config::Config& c) { c.train.offload_parameters = c.train.offload_optimizer = config::Offload::host; }},
};

struct Fixture : test::SmallRun {
  Fixture() {
    config.checkpoint.save_steps = 1;
    config.checkpoint.async = true;
  }

  void require_equal(const mesh::Layout& layout, const Machine& machine) {
    test::set_mesh(config.parallel, layout);
    const config::ValidConfig run = valid();
    const Datasets all = datasets();
    const mesh::Place first(run, 0);
    RankLedgers ledgers(run, all, machine, process_bytes);
    for (const WorldRank rank : first.layout().ranks()) {
      Machine of_rank = machine;
      of_rank.is_first_of_node = rank % 4 == 0;
      const device::Ledger own = plan_ledger(run, all, first.peer(rank), of_rank, process_bytes);
      const device::Ledger shared = ledgers.of(first.peer(rank), of_rank.is_first_of_node);
      for (std::size_t i = 0; i < device::num_labels; ++i) {
        const auto label = static_cast<device::Label>(i);
        for (const device::Space space : {device::Space::host, device::Space::pinned, device::Space::device}) {
          BOOST_TEST_INFO(device::name_of(label) << ", rank " << rank);
          BOOST_TEST(shared.bytes(label, space) == own.bytes(label, space));
        }
      }
    }
    BOOST_TEST(ledgers.num_kinds() <= static_cast<std::size_t>(layout.size()));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_rank_has_the_ledger_of_a_plan_of_its_own) {
  const std::vector<mesh::Layout> layouts{{},
                                          {{Axis::dp_shard, 7}},
                                          {{Axis::dp_replicate, 3}, {Axis::dp_shard, 5}},
                                          {{Axis::dp_replicate, 2}, {Axis::dp_shard, 2}, {Axis::tp, 8}},
                                          {{Axis::dp_replicate, 2}, {Axis::dp_shard, 3}, {Axis::sp, 2}, {Axis::tp, 2}}};
  for (const Setting& setting : settings) {
    for (const mesh::Layout& layout : layouts) {
      for (const device::Kind kind : {device::Kind::cpu, device::Kind::cuda}) {
        BOOST_TEST_CONTEXT(setting.name << ", " << layout.size() << " ranks") {
          Fixture fixture;
          setting.set(fixture.config);
          fixture.require_equal(layout, {.kind = kind, .gpu_process_bytes = 4096, .node_shared_bytes = 128});
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(experts_have_slices_of_their_own) {
  Fixture fixture;
  fixture.config.model.num_experts = 8;
  fixture.config.model.num_experts_per_tok = 2;
  fixture.config.model.moe_intermediate_size = 64;
  for (const bool has_adapters : {false, true}) {
    fixture.config.lora.use_peft = has_adapters;
    fixture.config.lora.lora_dropout = 0.0;
    if (has_adapters) fixture.config.lora.lora_target_parameters = {"experts.gate_up_proj", "experts.down_proj"};
    for (const mesh::Layout& layout : {mesh::Layout{{Axis::dp_shard, 3}, {Axis::ep, 4}},
                                       mesh::Layout{{Axis::dp_replicate, 2}, {Axis::ep, 2}, {Axis::tp, 2}}}) {
      fixture.require_equal(layout, {});
    }
  }
}

BOOST_FIXTURE_TEST_CASE(adapters_that_begin_with_a_part_of_the_weights_take_memory_for_the_largest, Fixture) {
  test::set_mesh(config.parallel, {});
  config.lora.use_peft = true;
  config.lora.lora_r = 2;
  const auto process_bytes_with = [&](const config::AdapterInit& init) {
    config.lora.init_lora_weights = init;
    const config::ValidConfig run = valid();
    return plan_ledger(run, datasets(), mesh::Place(run, 0), {}, process_bytes).bytes(device::Label::process);
  };
  const std::size_t plain = process_bytes_with({}), numbers = 256 * 512, bases = 8 * (256 + 512) * 50;
  for (const config::LoraInit kind : {config::LoraInit::pissa, config::LoraInit::olora}) {
    const std::size_t more = process_bytes_with({.kind = kind}) - plain;
    BOOST_TEST(more >= 16 * numbers);
    BOOST_TEST(more <= 20 * numbers + bases);
  }
}

BOOST_FIXTURE_TEST_CASE(of_4096_ranks_a_few_are_planned, Fixture) {
  config.model.num_hidden_layers = 4;
  test::set_mesh(config.parallel, {{Axis::dp_replicate, 16}, {Axis::dp_shard, 256}});
  const config::ValidConfig run = valid();
  const Datasets all = datasets();
  const mesh::Place first(run, 0);
  RankLedgers ledgers(run, all, {}, process_bytes);
  for (const WorldRank rank : first.layout().ranks()) {
    static_cast<void>(ledgers.of(first.peer(rank), /*is_first_of_node=*/true));
  }
  BOOST_TEST(ledgers.num_kinds() < 256U);  // the shards: those in the same parameters are alike
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::planner
