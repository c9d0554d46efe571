// SPDX-License-Identifier: Apache-2.0
// Adapters of experts: they are the weights that they stand for, in loss and gradients; ten steps with them on every
// kind of mesh are those of one rank; checkpoints go on with any other number of ranks; memory is what was planned.

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experts/expert_runs.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/device/factory.hpp"
#include "support/awkward_data.hpp"
#include "support/checkpoint_fixture.hpp"
#include "support/mpi_session.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(expert_adapters)

namespace {

using namespace sft;
using config::ActivationCheckpointing;
using test::LogicalTensors;
using test::session;
using test::StepNumbers;

const std::string gate_up_target = "mlp.experts.gate_up_proj", down_target = "experts.down_proj";
constexpr std::int64_t num_steps = 6;

/// Ranks and scales differ; both matrices are random.
config::Config adapter_config(const std::vector<std::string>& targets, bool is_gpt_oss = false) {
  config::Config config = test::expert_config();
  config.lora.use_peft = true;
  config.lora.lora_r = 3;
  config.lora.lora_alpha = 5.0;
  config.lora.lora_dropout = 0.0;
  config.lora.lora_target_parameters = targets;
  config.lora.rank_pattern = {{"layers.1.mlp.experts.down_proj", 4}};
  config.lora.alpha_pattern = {{"layers.0.mlp.experts.gate_up_proj", 8.0}};
  config.lora.init_lora_weights.kind = config::LoraInit::linear;
  config.lora.loraplus_lr_ratio = 2.0;
  if (!is_gpt_oss) return config;
  config.model.expert_form = config::ExpertForm::gpt_oss;
  config.model.swiglu_limit = 0.3;
  return config;
}

/// What an adapter's matrices are called, and the weight that they belong to, for expert `e` of a layer.
struct Names {
  std::string a, b, weight;
};

std::vector<Names> names_of(const config::Config& config) {
  const bool is_gpt_oss = config.model.expert_form == config::ExpertForm::gpt_oss;
  std::vector<Names> names;
  for (std::int64_t layer = 0; layer < config.model.num_hidden_layers; ++layer) {
    for (std::int64_t e = 0; e < config.model.num_experts; ++e) {
      const std::string path = fmt::format("model.layers.{}.mlp.experts.{}.", layer, e);
      const auto add = [&](const char* of_a, const char* of_b) {
        names.push_back({fmt::format("base_model.model.{}{}.lora_A.weight", path, of_a),
                         fmt::format("base_model.model.{}{}.lora_B.weight", path, of_b), path + of_b + ".weight"});
      };
      if (is_gpt_oss) {
        add("gate_up_proj", "gate_up_proj");
      } else {
        add("gate_up_proj", "gate_proj");
        add("gate_up_proj", "up_proj");
      }
      add("down_proj", "down_proj");
    }
  }
  return names;
}

/// Loops over the elements of `dense`, a matrix (out, in), or (in, out) in gpt-oss, that scale b a is added to.
template <class Visit>
void for_each_term(const std::vector<float>& a, const std::vector<float>& b, std::int64_t rank, bool is_transposed,
                   const Visit& visit) {
  const std::int64_t in = std::ssize(a) / rank, out = std::ssize(b) / rank;
  for (std::int64_t n = 0; n < out; ++n) {
    for (std::int64_t k = 0; k < in; ++k) {
      for (std::int64_t r = 0; r < rank; ++r) visit(is_transposed ? k * out + n : n * in + k, r * in + k, n * rank + r);
    }
  }
}

struct Deviation {
  double difference = 0.0, size = 0.0;
  void add(const std::vector<double>& expected, const std::vector<float>& found) {
    BOOST_TEST_REQUIRE(expected.size() == found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      difference += (found[i] - expected[i]) * (found[i] - expected[i]);
      size += expected[i] * expected[i];
    }
  }
};

/// Loss, and all gradients, of the adapters and of the model that they make.
void check_against_weights(bool is_gpt_oss) {
  config::Config config = adapter_config({gate_up_target, down_target}, is_gpt_oss);
  config.lora.lora_target_modules = {};
  config.train.per_device_train_batch_size = test::expert_global_rows;
  const auto rows = test::make_awkward_rows(test::expert_global_rows, test::expert_max_length, 3);
  const test::Mesh mesh = test::make_lone_mesh(config.model);
  test::EngineFixture low(config, test::expert_max_length, mesh, session());
  low.engine().initialize();
  const LogicalTensors adapters = low.gather_parameters();
  const double loss = low.step(rows, 0, 0.0).loss;
  const LogicalTensors gradients = low.gather_gradients();

  config::Config whole_config = config;
  whole_config.lora = {};
  test::EngineFixture whole(whole_config, test::expert_max_length, mesh, session());
  whole.engine().initialize();
  LogicalTensors weights = whole.gather_parameters();
  const auto size_of = [&](const Names& names) {
    const std::size_t end = names.a.find(".experts.") + 8;
    const std::string parameter = names.a.find("down_proj") == std::string::npos ? "gate_up_proj" : "down_proj";
    return config.lora.size_of(names.a.substr(17, end - 17) + "." + parameter);
  };
  const std::vector<Names> all = names_of(config);
  for (const Names& names : all) {
    const config::AdapterSize size = size_of(names);
    const std::vector<float>&a = adapters.at(names.a), &b = adapters.at(names.b);
    std::vector<float>& weight = weights.at(names.weight);
    for_each_term(a, b, size.rank, is_gpt_oss, [&](std::int64_t w, std::int64_t i, std::int64_t j) {
      weight[w] += static_cast<float>(size.scale) * b[j] * a[i];
    });
  }
  whole.set_parameters(weights);
  BOOST_TEST(loss == whole.step(rows, 0, 0.0).loss, boost::test_tools::tolerance(1e-6));

  const LogicalTensors of_weights = whole.gather_gradients();
  std::map<std::string, std::vector<double>> expected;
  for (const Names& names : all) {
    const config::AdapterSize size = size_of(names);
    const std::vector<float>&a = adapters.at(names.a), &b = adapters.at(names.b), &dw = of_weights.at(names.weight);
    std::vector<double>&da = expected[names.a], &db = expected[names.b];
    da.resize(a.size());
    db.resize(b.size());
    for_each_term(a, b, size.rank, is_gpt_oss, [&](std::int64_t w, std::int64_t i, std::int64_t j) {
      da[i] += size.scale * b[j] * dw[w];
      db[j] += size.scale * a[i] * dw[w];
    });
  }
  BOOST_TEST(gradients.size() == expected.size());
  Deviation all_of_them;
  for (const auto& [name, values] : expected) {
    Deviation deviation;
    deviation.add(values, gradients.at(name));
    all_of_them.add(values, gradients.at(name));
    BOOST_TEST(std::sqrt(deviation.difference) <= 1e-5 * std::sqrt(deviation.size) + 1e-9, name);
  }
  BOOST_TEST(all_of_them.size > 0.0);
}

using Change = std::function<void(config::Config&)>;

struct Case {
  mesh::Layout layout;
  Change change;
};

Change with(
    int stage, ActivationCheckpointing checkpointing, const Change& more = [](config::Config&) {}) {
  return [=](config::Config& c) {
    c.parallel.zero_stage = stage;
    c.train.activation_checkpointing = checkpointing;
    more(c);
  };
}

constexpr ActivationCheckpointing none = ActivationCheckpointing::none, full = ActivationCheckpointing::full,
                                  selective = ActivationCheckpointing::selective;

void cut_tokens(config::Config& c) { c.parallel.tp_sequence_parallel = true; }
void offload(config::Config& c) {
  c.train.activation_offload = true;
  c.train.offload_optimizer = config::Offload::nvme;
}

const std::vector<Case> cases{
    {{}, with(3, full, offload)},
    {{}, with(0, selective)},
    {{{Axis::dp_shard, 2}}, with(3, full)},
    {{{Axis::dp_replicate, 2}}, with(2, none)},
    {{{Axis::sp, 2}}, with(2, selective)},
    {{{Axis::tp, 2}}, with(1, full)},
    {{{Axis::tp, 2}}, with(3, none, cut_tokens)},
    {{{Axis::ep, 2}}, with(0, full)},
    {{{Axis::ep, 2}}, with(3, none)},
    {{{Axis::ep, 2}, {Axis::tp, 2}}, with(3, none, cut_tokens)},
    {{{Axis::ep, 2}, {Axis::sp, 2}}, with(1, full)},
    {{{Axis::ep, 4}}, with(2, selective, offload)},
    {{{Axis::dp_shard, 2}, {Axis::tp, 2}}, with(3, full)},
    {{{Axis::dp_shard, 2}, {Axis::ep, 2}, {Axis::tp, 2}}, with(3, full, cut_tokens)},
    {{{Axis::dp_replicate, 2}, {Axis::ep, 2}, {Axis::sp, 2}}, with(2, none)},
};

test::Mesh mesh_of(const config::Config& config, const mesh::Layout& layout) {
  return {session().world(), layout, config.model, config.parallel};
}

StepNumbers alone(const config::Config& config) {
  return test::by_first_rank(session(), 2 * num_steps, [&] {
    return test::train_experts(config, test::make_lone_mesh(config.model), session(), num_steps);
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(they_are_the_weights_that_they_stand_for) {
  if (session().world().size() > 1) return;
  check_against_weights(/*is_gpt_oss=*/false);
  check_against_weights(/*is_gpt_oss=*/true);
}

BOOST_AUTO_TEST_CASE(they_train_on_every_mesh_like_on_one_rank) {
  config::Config accumulated = adapter_config({gate_up_target, down_target});
  accumulated.train.gradient_accumulation_steps = 2;
  const std::pair<const char*, config::Config> kinds[] = {
      {"both", adapter_config({gate_up_target, down_target})},
      {"both, gpt-oss", adapter_config({gate_up_target, down_target}, /*is_gpt_oss=*/true)},
      {"gate_up", adapter_config({gate_up_target, "layers.1.mlp.experts.down_proj"})},
      {"both, two micro-batches", accumulated},
  };
  config::Config rest = kinds[0].second;
  rest.lora.lora_target_parameters = {};
  rest.lora.rank_pattern = {};
  rest.lora.alpha_pattern = {};
  const StepNumbers without = alone(rest);
  const test::TemporaryFolder folder;
  for (const auto& [name, config] : kinds) {
    const StepNumbers expected = alone(config);
    BOOST_TEST(test::relative_distance(expected[1], without[1]) > 1e-2, name);
    for (const Case& of : cases) {
      if (of.layout.size() != session().world().size()) continue;
      config::Config changed = config;
      of.change(changed);
      changed.train.offload_folder = folder.path();
      const StepNumbers found = test::train_experts(changed, mesh_of(changed, of.layout), session(), num_steps);
      test::check_steps(fmt::format("{} on {}", name, of.layout.describe()), found, expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(checkpoints_go_on_with_any_number_of_ranks_for_experts) {
  const std::vector<std::pair<mesh::Layout, mesh::Layout>> pairs{
      {{}, {}},
      {{{Axis::ep, 2}}, {{Axis::tp, 2}}},
      {{{Axis::dp_shard, 2}}, {{Axis::ep, 2}}},
      {{{Axis::ep, 2}, {Axis::tp, 2}}, {{Axis::ep, 4}}},
  };
  constexpr std::int64_t half = num_steps / 2;
  const config::Config config = adapter_config({gate_up_target, down_target});
  const StepNumbers whole = alone(config);
  const StepNumbers expected(whole.begin() + 2 * half, whole.end());
  const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
  for (const auto& [writer, reader] : pairs) {
    if (writer.size() != session().world().size()) continue;
    const test::SharedFolder folder(session().world());
    const auto nothing = [](test::EngineFixture&) {};
    const test::Mesh first = mesh_of(config, writer);
    (void)test::train_experts(config, first, session(), half, 0, nothing, [&](test::EngineFixture& fixture) {
      checkpoint::save(folder.path(), config, "byte", first.place, first.groups, fixture.engine().state(),
                       {.step = half}, *device, fixture.engine().stream());
    });
    const auto load = [&](test::EngineFixture& fixture) {
      (void)checkpoint::load(checkpoint::path_of(folder.path(), half), session().world(), fixture.engine().state(),
                             *device, fixture.engine().stream());
    };
    const StepNumbers found = test::train_experts(config, mesh_of(config, reader), session(), num_steps, half, load);
    const std::string name = fmt::format("{}, then {}", writer.describe(), reader.describe());
    test::check_steps(name, found, expected);
    if (writer.size() == 1) BOOST_TEST((found == expected), name);  // to the bit
  }
}

BOOST_AUTO_TEST_SUITE_END()
