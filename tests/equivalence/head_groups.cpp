// SPDX-License-Identifier: Apache-2.0
// Attention in groups of heads (train.attention_head_groups) trains with the bits of all heads at once, in the memory
// that is planned for it, which is less. Weights of q/k norms alone sum over groups in another order.

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "sft/machine/node.hpp"
#include "sft/plan/memory.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace sft;
using test::session;

constexpr std::int64_t max_length = 48, num_steps = 3;
const std::vector<test::Layout> layouts{{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 1, 2}, {1, 2, 1, 2}};

struct Outcome {
  std::vector<double> numbers;             ///< losses, norms and evaluations
  std::vector<std::vector<char>> weights;  ///< and what the optimizer has
  std::size_t activation_bytes = 0;
};

/// Trains a few steps. Collective over the mesh.
Outcome run(const config::Config& config, const test::Mesh& mesh, const plan::Datasets& datasets) {
  test::EngineFixture fixture(config, max_length, mesh, session());
  train::Engine& engine = fixture.engine();
  engine.initialize();
  Outcome outcome;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    const std::vector<data::Row> rows =
        test::make_awkward_rows(mesh.place.data_size(), max_length, static_cast<std::uint64_t>(step));
    const train::StepResult result = fixture.step(rows, step, 3e-3);
    const train::EvalSums sums = engine.evaluate(fixture.deal(rows).front());
    outcome.numbers.insert(outcome.numbers.end(), {result.loss, result.grad_norm, sums.weighted_nll});
  }
  engine.stream().synchronize();
  const checkpoint::State state = engine.state();
  for (const checkpoint::Entry& entry : state.entries()) {
    const auto* bytes = static_cast<const char*>(entry.tensor.data);
    outcome.weights.emplace_back(bytes, bytes + entry.tensor.size_bytes());
  }
  const config::ValidConfig planned = test::with_mesh(config, mesh.place.layout());
  const device::Ledger ledger =
      plan::plan_ledger(planned, datasets, mesh.place, {device::Kind::cpu, machine::num_threads()}, 0);
  for (const device::Label label : {device::Label::workspace, device::Label::activations}) {
    BOOST_TEST(ledger.bytes(label) == fixture.ledger().bytes(label), device::name_of(label));
    outcome.activation_bytes += ledger.bytes(label);
  }
  return outcome;
}

struct Family {
  std::string name;
  config::Model model;
  bool norms_heads = false;
  std::function<void(config::Config&)> change = [](config::Config&) {};
};

/// With 4 key/value heads, so that ranks of tp have groups of them, too.
std::vector<Family> families() {
  const auto of = [](config::Model model, const std::function<void(config::Model&)>& change = {}) {
    model.num_attention_heads = 8;
    model.num_key_value_heads = 4;
    if (model.layer_types.empty()) model.num_hidden_layers = 3;
    if (change) change(model);
    return model;
  };
  const auto adapters = [](config::Config& c) {
    c.lora.use_peft = true;
    c.lora.lora_r = 4;
    c.lora.lora_dropout = 0;
  };
  return {{"llama", of(test::small_llama())},
          {"biases", of(test::small_qwen2())},
          {"q/k norms", of(test::small_qwen3()), true},
          {"windows, two rotations, norms of branches", of(test::small_gemma3()), true},
          {"sinks, some dims rotated", of(test::small_llama(),
                                          [](config::Model& model) {
                                            model.attention_sinks = true;
                                            model.partial_rotary_factor = 0.5;
                                          })},
          {"adapters", of(test::small_qwen2()), false, adapters},
          {"experts", of(test::small_llama(), [](config::Model& model) {
             model.num_experts = 4;
             model.num_experts_per_tok = 2;
             model.moe_intermediate_size = 16;
           })}};
}

void check_close(const Outcome& grouped, const Outcome& whole) {
  for (std::size_t i = 0; i < whole.numbers.size(); ++i) {
    BOOST_TEST(std::abs(grouped.numbers[i] - whole.numbers[i]) <= 1e-4 * std::abs(whole.numbers[i]),
               grouped.numbers[i] << " for " << whole.numbers[i]);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(head_groups)

BOOST_AUTO_TEST_CASE(groups_train_as_all_heads_at_once) {
  const test::TemporaryFolder folder;
  test::write_packed_file(folder.file("rows.h5"), test::make_awkward_rows(8, max_length, 1), test::small_vocab_size);
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() != session().world().size()) continue;
    for (const Family& family : families()) {
      config::Config config;
      config.model = family.model;
      config.train.precision = config::Precision::fp32;
      config.train.activation_checkpointing = config::ActivationCheckpointing::full;
      config.train.per_device_train_batch_size = 1;
      config.train.mlp_tile_tokens = 7;
      config.train.max_steps = num_steps;
      config.data.train_files = {folder.file("rows.h5")};
      family.change(config);
      const plan::Datasets datasets{data::PackedDataset(config.data.train_files), {}};
      const test::Mesh mesh(session().world(), layout, config.model);
      config.train.attention_head_groups = 1;
      const Outcome whole = run(config, mesh, datasets);
      std::size_t least = whole.activation_bytes;
      for (std::int64_t groups = 2; groups <= 4 / layout[Axis::tp]; groups *= 2) {
        config.train.attention_head_groups = groups;
        BOOST_TEST_CONTEXT(layout.describe() << ", " << family.name << ", " << groups << " groups") {
          const Outcome grouped = run(config, mesh, datasets);
          if (family.norms_heads) {
            check_close(grouped, whole);
          } else {
            BOOST_TEST(grouped.numbers == whole.numbers);
            BOOST_TEST((grouped.weights == whole.weights));
          }
          BOOST_TEST(grouped.activation_bytes < least);
          least = grouped.activation_bytes;
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
