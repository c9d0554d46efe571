// SPDX-License-Identifier: Apache-2.0
// Memory that holds anything at first: no bit of a run, padding included, depends on it, nor on whether ranks exchange
// messages or share the memory of a node.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "sft/device/factory.hpp"
#include "support/awkward_data.hpp"
#include "support/device_around.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(undefined_memory)

namespace {

using namespace sft;
using test::session;

constexpr std::int64_t max_length = 48, rows_per_rank = 2;

/// The CPU with memory that is NaN at first.
class PoisonedDevice final : public test::DeviceAround {
 public:
  PoisonedDevice()
      : DeviceAround(device::make_device(device::Kind::cpu, {.num_local_ranks = session().node().size()})) {}

  Block allocate(std::size_t bytes, device::Space space) override {
    Block block = DeviceAround::allocate(bytes, space);
    if (bytes > 0) std::memset(block.get(), 0xff, bytes);
    return block;
  }

 private:
  test::NoWindows no_windows_;
};

/// What a run leaves on this rank.
struct Outcome {
  std::vector<double> numbers;
  std::vector<std::vector<float>> shards;  ///< gradients, parameters, two moments
  bool padding_is_zero = true;
};

Outcome run(const config::Config& config, const test::Mesh& mesh, std::unique_ptr<device::Device> device) {
  test::EngineFixture fixture(config, max_length, mesh, session(), std::move(device));
  train::Engine& engine = fixture.engine();
  engine.initialize();
  Outcome outcome;
  const std::vector<rows::Row> rows = test::make_awkward_rows(rows_per_rank * mesh.place.data_size(), max_length, 1);
  for (std::int64_t step = 0; step < 2; ++step) {
    const train::StepResult result = fixture.step(rows, step, 1e-3);
    const train::EvalSums sums = engine.evaluate(fixture.deal(rows).front());
    outcome.numbers.insert(outcome.numbers.end(),
                           {result.loss, result.grad_norm, result.entropy, sums.weighted_nll, sums.entropy});
  }
  engine.stream().synchronize();
  const checkpoint::State state = engine.state();
  std::vector<train::PartGradients> shards = engine.gradients();
  for (const checkpoint::Entry& entry : state.entries()) shards.push_back({entry.shard_map, entry.tensor});
  for (const train::PartGradients& shard : shards) {
    const auto* values = shard.tensor.as<float>();
    outcome.shards.emplace_back(values, values + shard.tensor.num_elements());
    for (const parallel::ShardRange& gap : shard.shard_map->padding()) {
      for (std::int64_t i = gap.begin; i < gap.begin + gap.count; ++i) outcome.padding_is_zero &= values[i] == 0.0f;
    }
  }
  return outcome;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check_bits(const config::Config& config, const test::Mesh& mesh) {
  const Outcome clean = run(config, mesh, nullptr);
  const Outcome poisoned = run(config, mesh, std::make_unique<PoisonedDevice>());
  BOOST_TEST(poisoned.numbers == clean.numbers);
  for (std::size_t i = 0; i < clean.shards.size(); ++i) {
    BOOST_TEST(same_bits(poisoned.shards[i], clean.shards[i]), "shard " << i);
  }
  BOOST_TEST(poisoned.padding_is_zero);
}

/// Those that this sp_size and these heads allow.
std::vector<config::SpMethod> methods_for(const mesh::Layout& layout, const config::Model& model) {
  using config::SpMethod;
  if (layout[Axis::sp] == 1) return {SpMethod::ring};
  std::vector<SpMethod> methods = {SpMethod::ring, SpMethod::all_gather};
  if (model.num_attention_heads / layout[Axis::tp] % layout[Axis::sp] == 0) methods.push_back(SpMethod::ulysses);
  return methods;
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_bit_depends_on_what_memory_held) {
  const std::vector<test::Layout> layouts{{1, 1, 1, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2},
                                          {2, 2, 1, 1}, {2, 1, 1, 2}, {1, 2, 2, 1}, {1, 2, 1, 2}, {1, 1, 2, 2}};
  config::Config config;
  config.model = test::small_qwen2();
  config.train.per_device_train_batch_size = 1;
  config.train.gradient_accumulation_steps = rows_per_rank;
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() != session().world().size()) continue;
    const test::Mesh mesh(session().world(), layout, config.model);
    for (const config::SpMethod method : methods_for(layout, config.model)) {
      config.parallel.sp_method = method;
      for (const config::Precision precision : {config::Precision::fp32, config::Precision::bf16}) {
        config.train.precision = precision;
        const bool is_bf16 = precision == config::Precision::bf16;
        config.train.activation_checkpointing =
            is_bf16 ? config::ActivationCheckpointing::full : config::ActivationCheckpointing::none;
        config.train.mlp_tile_tokens = is_bf16 ? 11 : 0;
        config.train.attention_head_groups =
            is_bf16 && layout[Axis::tp] == 1 && method != config::SpMethod::ulysses ? 2 : 1;
        BOOST_TEST_CONTEXT(layout.describe()
                           << ", method " << static_cast<int>(method) << (is_bf16 ? ", bf16" : ", fp32")) {
          for (const bool cuts_tokens : {false, true}) {
            if (cuts_tokens && layout[Axis::tp] == 1) continue;
            config.parallel.tp_sequence_parallel = cuts_tokens;
            check_bits(config, mesh);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
