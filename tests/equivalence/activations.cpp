// SPDX-License-Identifier: Apache-2.0
// Every way of keeping activations trains with the same bits as keeping them all, in files too, with and without
// adapters and their dropout, also with products in fp8; and takes the memory that was planned for it.

#include <string>
#include <vector>

#include "equivalence/mesh_table.hpp"
#include "sft/config/values.hpp"
#include "sft/machine/node.hpp"
#include "sft/rank/memory.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(activations)

namespace {

using namespace sft;
using config::ActivationCheckpointing;
using test::session;

constexpr std::int64_t max_length = 48, rows_per_rank = 2;

struct Way {
  ActivationCheckpointing checkpointing;
  bool offload;
};
struct Kind {
  bool has_adapters;
  config::Fp8 fp8;
};
const std::vector<Kind> kinds{{false, config::Fp8::none},
                              {true, config::Fp8::none},
                              {false, config::Fp8::blockwise},
                              {true, config::Fp8::tensorwise}};
const std::vector<Way> ways{{ActivationCheckpointing::none, false},     {ActivationCheckpointing::selective, false},
                            {ActivationCheckpointing::full, false},     {ActivationCheckpointing::none, true},
                            {ActivationCheckpointing::selective, true}, {ActivationCheckpointing::full, true}};

/// Losses, norms and an evaluation of some steps; and the bytes of each label.
struct Outcome {
  std::vector<double> numbers;
  std::vector<std::size_t> bytes;
};

Outcome run(const config::Config& config, const test::Mesh& mesh) {
  test::EngineFixture fixture(config, max_length, mesh, session());
  train::Engine& engine = fixture.engine();
  engine.initialize();
  Outcome outcome;
  for (std::int64_t step = 0; step < 3; ++step) {
    const std::vector<rows::Row> rows =
        test::make_awkward_rows(rows_per_rank * mesh.place.data_size(), max_length, static_cast<std::uint64_t>(step));
    const train::StepResult result = fixture.step(rows, step, 1e-2);
    train::EvalSums sums;
    for (const rows::MicroBatch& batch : fixture.deal(rows)) sums += engine.evaluate(batch);
    outcome.numbers.insert(outcome.numbers.end(), {result.loss, result.grad_norm, sums.weighted_nll});
  }
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    outcome.bytes.push_back(fixture.ledger().bytes(static_cast<device::Label>(i)));
  }
  return outcome;
}

std::size_t bytes_of(const Outcome& outcome, device::Label label) {
  return outcome.bytes[static_cast<std::size_t>(label)];
}

/// The arenas of the ledger are those of the plan, byte for byte.
void check_plan(const config::Config& config, const test::Mesh& mesh, const rank::Datasets& datasets,
                const Outcome& outcome) {
  const config::ValidConfig planned = test::with_mesh(config, mesh.place.layout());
  const device::Ledger ledger =
      rank::plan_ledger(planned, datasets, mesh.place, {device::Kind::cpu, machine::num_threads()}, 0);
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    const auto label = static_cast<device::Label>(i);
    if (label == device::Label::process || label == device::Label::batches) continue;
    BOOST_TEST(ledger.bytes(label) == outcome.bytes[i], device::name_of(label));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_ways_train_alike) {
  const std::vector<test::Layout> layouts{{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2},
                                          {1, 2, 2, 1}, {1, 1, 2, 2}, {2, 1, 1, 2}};
  const test::TemporaryFolder folder;
  test::write_packed_file(folder.file("rows.h5"), test::make_awkward_rows(8, max_length, 1), test::small_vocab_size);
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() != session().world().size()) continue;
    for (const auto& [has_adapters, fp8] : kinds) {
      if (fp8 != config::Fp8::none && layout.size() > 2) continue;
      config::Config config;
      config.train.fp8 = fp8;
      config.model = test::small_qwen3();
      config.model.num_hidden_layers = 5;
      config.lora.use_peft = has_adapters;
      config.lora.lora_r = 4;
      config.lora.lora_dropout = 0.2;
      config.train.precision = has_adapters ? config::Precision::fp32 : config::Precision::bf16;
      config.train.per_device_train_batch_size = 1;
      config.train.gradient_accumulation_steps = rows_per_rank;
      config.train.mlp_tile_tokens = has_adapters ? 9 : 0;
      config.train.offload_folder = folder.path();
      config.train.max_steps = 3;
      config.data.train_files = {folder.file("rows.h5")};
      const rank::Datasets datasets{rows::PackedDataset(config.data.train_files), {}};
      const test::Mesh mesh(session().world(), layout, config.model);
      std::vector<Outcome> outcomes;
      for (const Way& way : ways) {
        config.train.activation_checkpointing = way.checkpointing;
        config.train.activation_offload = way.offload;
        outcomes.push_back(run(config, mesh));
        BOOST_TEST_CONTEXT(layout.describe() << ", adapters " << has_adapters << ", fp8 " << config::write(fp8)
                                             << ", way " << outcomes.size()) {
          BOOST_TEST(outcomes.back().numbers == outcomes.front().numbers);
          check_plan(config, mesh, datasets, outcomes.back());
        }
      }
      constexpr auto kept = device::Label::activations;
      BOOST_TEST(bytes_of(outcomes[1], kept) < bytes_of(outcomes[0], kept));
      BOOST_TEST(bytes_of(outcomes[2], kept) < bytes_of(outcomes[1], kept));
      for (std::size_t way = 0; way < 3; ++way) {
        BOOST_TEST(bytes_of(outcomes[way + 3], kept) < bytes_of(outcomes[way], kept));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
