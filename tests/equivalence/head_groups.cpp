// SPDX-License-Identifier: Apache-2.0
// Attention in groups of heads (train.attention_head_groups) trains with the bits of all heads at once, in the memory
// that is planned for it, which is less. Two kinds of sums alone come in another order: those of weights of q/k norms,
// over groups, and those of gradients of key/value heads that ranks of sp share in smaller groups.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sft/config/values.hpp"
#include "sft/core/cast.hpp"
#include "sft/machine/node.hpp"
#include "sft/rank/memory.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/fp8_step.hpp"
#include "support/mpi_session.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(head_groups)

namespace {

using namespace sft;
using test::session;

constexpr std::int64_t max_length = 48, num_steps = 3;
constexpr std::int64_t num_heads = 8, num_kv_heads = 4;

/// All, or those whose attention differs.
enum class Families { all, of_attention };

/// Ranks, and how those of sp reach each other's keys.
struct Cut {
  test::Layout layout;
  config::SpMethod sp_method = config::SpMethod::ring;
  int ulysses_size = 0;  ///< of hybrid
  Families families = Families::all;

  [[nodiscard]] int num_exchanging() const {
    return sp_method == config::SpMethod::ulysses ? layout[Axis::sp] : std::max(1, ulysses_size);
  }
};
using config::Fp8;
using config::SpMethod;
const std::vector<Cut> cuts{
    {{1, 1, 1, 1}},
    {{1, 2, 1, 1}},
    {{1, 1, 1, 2}},
    {{1, 2, 1, 2}},
    {{1, 1, 2, 1}, SpMethod::ring},
    {{1, 1, 2, 1}, SpMethod::all_gather, 0, Families::of_attention},
    {{1, 1, 2, 1}, SpMethod::ulysses, 0, Families::of_attention},
    {{1, 1, 4, 1}, SpMethod::all_gather, 0, Families::of_attention},
    {{1, 1, 4, 1}, SpMethod::hybrid, 2, Families::of_attention},
    {{1, 1, 2, 2}, SpMethod::ring, 0, Families::of_attention},
    {{1, 2, 2, 1}, SpMethod::ulysses, 0, Families::of_attention},
};

struct Outcome {
  std::vector<double> numbers;             ///< losses, norms and evaluations
  std::vector<std::vector<char>> weights;  ///< and what the optimizer has
  std::size_t bytes = 0;                   ///< of activations, and of what attention and other ops work in
};

/// Trains a few steps. Collective over the mesh.
Outcome run(const config::Config& config, const test::Mesh& mesh, const rank::Datasets& datasets) {
  test::EngineFixture fixture(config, max_length, mesh, session());
  train::Engine& engine = fixture.engine();
  engine.initialize();
  Outcome outcome;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    const std::vector<rows::Row> rows =
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
      rank::plan_ledger(planned, datasets, mesh.place, {device::Kind::cpu, machine::num_threads()}, 0);
  using device::Label;
  for (const Label label : {Label::workspace, Label::activations, Label::communication}) {
    BOOST_TEST(ledger.bytes(label) == fixture.ledger().bytes(label), device::name_of(label));
    outcome.bytes += ledger.bytes(label);
  }
  return outcome;
}

struct Family {
  std::string name;
  config::Model model;
  bool norms_heads = false;
  Families families = Families::of_attention;
  std::function<void(config::Config&)> change = [](config::Config&) {};
};

/// With 4 key/value heads, so that ranks of tp have groups of them, too.
std::vector<Family> families() {
  const auto of = [](config::Model model, const std::function<void(config::Model&)>& change = {}) {
    model.num_attention_heads = num_heads;
    model.num_key_value_heads = num_kv_heads;
    if (model.layer_types.empty()) model.num_hidden_layers = 3;
    if (change) change(model);
    return model;
  };
  const auto adapters = [](double dropout, bool has_magnitudes) {
    return [=](config::Config& c) {
      c.lora.use_peft = true;
      c.lora.lora_r = 4;
      c.lora.lora_dropout = dropout;
      c.lora.use_dora = has_magnitudes;
    };
  };
  constexpr bool magnitudes = true;
  const auto in_fp8 = [](Fp8 fp8, const std::function<void(config::Config&)>& further = {}) {
    return [=](config::Config& c) {
      c.train.fp8 = fp8;
      if (further) further(c);
    };
  };
  // Groups begin and end within blocks of 128 rows, and lie across their borders.
  const auto wide_heads = [](config::Model& model) { model.head_dim = 24; };
  constexpr bool norms = true;
  return {{"llama", of(test::small_llama())},
          {"windows, two rotations, norms of branches", of(test::small_gemma3()), norms},
          {"sinks, some dims rotated", of(test::small_llama(),
                                          [](config::Model& model) {
                                            model.attention_sinks = true;
                                            model.partial_rotary_factor = 0.5;
                                          })},
          {"biases", of(test::small_qwen2()), !norms, Families::all},
          {"q/k norms", of(test::small_qwen3()), norms, Families::all},
          {"adapters", of(test::small_qwen2()), !norms, Families::all, adapters(0.0, !magnitudes)},
          {"adapters that drop", of(test::small_llama()), !norms, Families::all, adapters(0.3, !magnitudes)},
          {"magnitudes", of(test::small_qwen2()), !norms, Families::all, adapters(0.0, magnitudes)},
          {"magnitudes, adapters that drop", of(test::small_qwen2()), !norms, Families::all, adapters(0.3, magnitudes)},
          {"fp8", of(test::small_qwen2()), !norms, Families::all, in_fp8(Fp8::tensorwise)},
          {"fp8, blocks", of(test::small_qwen2(), wide_heads), !norms, Families::all, in_fp8(Fp8::blockwise)},
          {"fp8, rows of codes that nothing is between",
           of(test::small_llama(),
              [=](config::Model& model) {
                wide_heads(model);
                model.hidden_size = 48;
              }),
           !norms, Families::all, in_fp8(Fp8::blockwise)},
          {"fp8, adapters that drop", of(test::small_llama(), wide_heads), !norms, Families::all,
           in_fp8(Fp8::tensorwise, adapters(0.3, !magnitudes))},
          {"fp8, q/k norms", of(test::small_qwen3(), wide_heads), norms, Families::all, in_fp8(Fp8::blockwise)},
          {"experts",
           of(test::small_llama(),
              [](config::Model& model) {
                model.num_experts = 4;
                model.num_experts_per_tok = 2;
                model.moe_intermediate_size = 16;
              }),
           !norms, Families::all}};
}

/// In float32: sums of the same terms. In fp8 a number between two codes becomes the other one now and then, and only
/// what comes before the first sum in another order is the same.
void check_close(const Outcome& grouped, const Outcome& whole, Fp8 fp8) {
  BOOST_TEST(grouped.numbers.front() == whole.numbers.front());
  const double apart = fp8 == Fp8::none ? 1e-4 : test::fp8_mesh_distance;
  for (std::size_t i = 0; i < whole.numbers.size(); ++i) {
    BOOST_TEST(std::abs(grouped.numbers[i] - whole.numbers[i]) <= apart * std::abs(whole.numbers[i]),
               grouped.numbers[i] << " for " << whole.numbers[i]);
  }
}

/// Whether ranks of sp share key/value heads of such groups that they do not share of all heads.
bool shares_more(const Cut& cut, std::int64_t groups) {
  const auto shares = [&](std::int64_t heads) { return heads % cut.num_exchanging() != 0; };
  const std::int64_t heads = num_kv_heads / cut.layout[Axis::tp];
  return shares(heads / groups) && !shares(heads);
}

config::Config config_of(const Family& family, const Cut& cut, const std::string& file) {
  config::Config config;
  config.model = family.model;
  config.parallel.sp_method = cut.sp_method;
  config.parallel.ulysses_size = cut.ulysses_size;
  config.train.precision = config::Precision::fp32;
  config.train.activation_checkpointing = config::ActivationCheckpointing::full;
  config.train.per_device_train_batch_size = 1;
  config.train.mlp_tile_tokens = 7;
  config.train.max_steps = num_steps;
  config.data.train_files = {file};
  family.change(config);
  return config;
}

/// Parameters of such names and sizes. Of fused queries, keys and values, (H + 2K) D = 384 rows, and of o, 192 columns,
/// each 128 are four times as large as the next: so that blocks have scales of their own.
test::LogicalTensors uneven_parameters(const test::LogicalTensors& like, const config::Model& model) {
  constexpr std::int64_t block = 128;
  const std::int64_t q_rows = num_heads * model.head_dim, kv_rows = num_kv_heads * model.head_dim;
  const std::map<std::string, std::int64_t> first_rows{{"q_proj", 0}, {"k_proj", q_rows}, {"v_proj", q_rows + kv_rows}};
  test::LogicalTensors parameters = like;
  for (auto& [name, values] : parameters) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      std::int64_t number = 0;  // of the block
      for (const auto& [of_qkv, first] : first_rows) {
        if (name.find(of_qkv) != std::string::npos) number = (first + index / model.hidden_size) / block;
      }
      if (name.find("o_proj") != std::string::npos) number = index % q_rows / block;
      const bool is_norm = name.find("norm") != std::string::npos;
      const float wave = 0.4F * std::sin(1.7F * static_cast<float>(i % 977));
      values[i] = is_norm ? 1.0F : std::ldexp(wave, -2 * checked_cast<int>(number));
    }
  }
  return parameters;
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_train_as_all_heads_at_once) {
  const test::TemporaryFolder folder;
  test::write_packed_file(folder.file("rows.h5"), test::make_awkward_rows(8, max_length, 1), test::small_vocab_size);
  for (const Cut& cut : cuts) {
    if (cut.layout.size() != session().world().size()) continue;
    for (const Family& family : families()) {
      if (cut.families == Families::of_attention && family.families == Families::all) continue;
      config::Config config = config_of(family, cut, folder.file("rows.h5"));
      const rank::Datasets datasets{rows::PackedDataset(config.data.train_files), {}};
      const test::Mesh mesh(session().world(), cut.layout, config.model, config.parallel);
      config.train.attention_head_groups = 1;
      const Outcome whole = run(config, mesh, datasets);
      std::size_t least = whole.bytes;
      const std::int64_t rank_heads = num_heads / cut.layout[Axis::tp];
      for (std::int64_t groups = 2; groups <= num_kv_heads / cut.layout[Axis::tp]; groups *= 2) {
        if (rank_heads / groups % cut.num_exchanging() != 0) continue;
        config.train.attention_head_groups = groups;
        BOOST_TEST_CONTEXT(cut.layout.describe() << ", " << config::write(cut.sp_method) << ", " << family.name << ", "
                                                 << groups << " groups") {
          const Outcome grouped = run(config, mesh, datasets);
          if (family.norms_heads || shares_more(cut, groups)) {
            check_close(grouped, whole, config.train.fp8);
          } else {
            BOOST_TEST(grouped.numbers == whole.numbers);
            BOOST_TEST((grouped.weights == whole.weights));
          }
          BOOST_TEST(grouped.bytes < least);
          least = grouped.bytes;
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(slices_of_weights_have_the_scales_of_whole_blocks) {
  config::Config config;
  config.model = test::small_llama();
  config.model.num_attention_heads = num_heads;
  config.model.num_key_value_heads = num_kv_heads;
  config.model.head_dim = 24;
  config.train.fp8 = Fp8::blockwise;
  config.train.activation_checkpointing = config::ActivationCheckpointing::full;
  const test::Mesh lone = test::make_lone_mesh(config.model);
  const std::vector<rows::Row> rows = test::make_awkward_rows(2, max_length, 0);
  test::LogicalTensors parameters;
  const auto step_in = [&](std::int64_t groups) {
    config.train.attention_head_groups = groups;
    return test::first_step(config, max_length, rows, lone, session(), parameters);
  };
  parameters = uneven_parameters(step_in(1).gradients, config.model);
  const test::FirstStep whole = step_in(1);
  for (const std::int64_t groups : {2, 4}) {
    const test::FirstStep grouped = step_in(groups);
    BOOST_TEST(grouped.loss == whole.loss);
    BOOST_TEST((grouped.gradients == whole.gradients));
  }
}

BOOST_AUTO_TEST_SUITE_END()
