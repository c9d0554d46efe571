// SPDX-License-Identifier: Apache-2.0
// Generation with a cache of keys and values: the same logits as whole passes, for every family; a tiny model that
// learned one document by heart recites it and heeds where to end.

#include "sft/generate/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "sft/device/factory.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"

namespace {

using namespace sft;

constexpr std::int64_t max_length = 16;
const std::vector<std::int32_t> document{3, 1, 4, 15, 9, 2, 6, 5, 35, 8, 7, 20};

config::Config config_of(const config::Model& model) {
  config::Config config;
  config.model = model;
  config.train.per_device_train_batch_size = 1;
  config.train.precision = config::Precision::fp32;
  return config;
}

std::unique_ptr<test::EngineFixture> make_engine(const config::Model& model, std::int64_t length) {
  auto result =
      std::make_unique<test::EngineFixture>(config_of(model), length, test::make_lone_mesh(model), test::session());
  result->engine().initialize();
  return result;
}

/// A Generator with the weights of an Engine, and what it stands on.
struct Copy {
  Copy(test::EngineFixture& trained, const config::Model& model, std::int64_t length, DType compute = DType::float32)
      : device(device::make_device(device::Kind::cpu)),
        collectives(comm::make_collectives(*device, {})),
        generator(model, compute, length, comm::self_group(), *device, *collectives, ledger) {
    const checkpoint::State to = generator.weights();
    if (compute != DType::float32) return;
    test::scatter(to.entries(), test::gather(trained.engine().weights().entries(), trained.mesh()));
    to.refresh();
  }

  std::unique_ptr<device::Device> device;
  std::unique_ptr<comm::Collectives> collectives;
  device::Ledger ledger;
  generate::Generator generator;
};

struct Trained {
  Trained() : engine(make_engine(test::small_qwen2(), max_length)) {
    rows::Row row{document, std::vector<float>(document.size(), 1.0F), {static_cast<std::int32_t>(document.size())}};
    row.tokens.resize(max_length);
    row.loss_weight.resize(max_length);
    double loss = 0.0;
    for (std::int64_t step = 0; step < 80; ++step) loss = engine->step({row}, step, 1e-2).loss;
    BOOST_TEST_REQUIRE(loss < 0.1);
    copy = std::make_unique<Copy>(*engine, test::small_qwen2(), max_length);
  }
  std::unique_ptr<test::EngineFixture> engine;
  std::unique_ptr<Copy> copy;
};

generate::Generator& trained() {
  static Trained result;
  return result.copy->generator;
}

generate::Generated recite(std::size_t prompt_size, const generate::GenerateOptions& options) {
  generate::Sampler greedy({});
  return generate::generate(trained(), greedy, std::span(document).first(prompt_size), options);
}

config::Model with_all_biases() {
  config::Model model = test::small_llama();
  model.attention_bias = model.attention_output_bias = model.mlp_bias = true;
  return model;
}

/// A softcap, sinks, and a window on all layers.
config::Model with_changed_scores() {
  config::Model model = test::small_qwen2();
  model.attn_logit_softcapping = 0.5;
  model.attention_sinks = true;
  model.sliding_window = 37;
  return model;
}

config::Model small_olmo3() {
  config::Model model = test::small_llama();
  model.block_norms = config::BlockNorms::olmo2;
  model.qk_norm = model.qk_norm_all_heads = true;
  model.sliding_window = 9;
  model.layer_types.assign(static_cast<std::size_t>(model.num_hidden_layers), "full_attention");
  model.layer_types.front() = "sliding_attention";
  model.rope_local_base_freq = 100.0;
  return model;
}

config::Model small_gemma() {
  config::Model model = test::small_qwen3();
  model.block_norms = config::BlockNorms::gemma2;
  model.hidden_act = config::Activation::gelu_pytorch_tanh;
  model.zero_centered_norms = true;
  model.embedding_multiplier = 4.0;
  model.final_logit_softcapping = 5.0;
  return model;
}

config::Model with_experts(config::ExpertForm form) {
  config::Model model = test::small_qwen3();
  model.num_experts = 5;
  model.num_experts_per_tok = 2;
  model.moe_intermediate_size = 12;
  model.expert_form = form;
  model.mlp_only_layers = {1};
  return model;
}

/// Weights that are far from their initial values, biases and norms too.
void disturb(test::EngineFixture& engine) {
  test::LogicalTensors tensors = test::gather(engine.engine().weights().entries(), engine.mesh());
  for (auto& [name, values] : tensors) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += 0.15F * std::sin(static_cast<float>(i * 7 + values.size() + name.size()));
    }
  }
  engine.set_parameters(tensors);
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  BOOST_TEST_REQUIRE(a.size() == b.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(generation)

BOOST_AUTO_TEST_CASE(logits_with_the_cache_are_those_of_whole_passes) {
  // More tokens than one pass reads at most.
  constexpr std::int64_t length = 300;
  std::vector<std::int32_t> tokens(length);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * i * 31 + 7 * i) % 96;
  for (const config::Model& model :
       {test::small_llama(), test::small_qwen2(), test::small_qwen3(), with_all_biases(), with_changed_scores(),
        small_olmo3(), small_gemma(), with_experts(config::ExpertForm::swiglu),
        with_experts(config::ExpertForm::gpt_oss)}) {
    const auto engine = make_engine(model, length);
    disturb(*engine);
    Copy copy(*engine, model, length);
    generate::Generator& generator = copy.generator;
    const std::vector<float> whole = engine->engine().logits(tokens, /*last_only=*/false);
    const auto row = [&](std::size_t i) { return std::span(whole).subspan(i * 96, 96); };
    const auto [least, most] = std::ranges::minmax(whole);
    BOOST_TEST_REQUIRE(most - least > 1.0F);

    // In one piece, one by one, in pieces of any size, and again behind a cut
    BOOST_TEST(largest_difference(generator.append(tokens), row(length - 1)) < 2e-4);
    generator.rewind(0);
    for (std::size_t i = 0; i < 40; ++i) {
      BOOST_TEST(largest_difference(generator.append(std::span(tokens).subspan(i, 1)), row(i)) < 2e-4);
    }
    for (const std::size_t end : {45U, 46U, 130U, 131U, 299U}) {
      const std::size_t begin = generator.tokens().size();
      BOOST_TEST(largest_difference(generator.append(std::span(tokens).subspan(begin, end - begin)), row(end - 1)) <
                 2e-4);
    }
    generator.rewind(100);
    BOOST_TEST(largest_difference(generator.append(std::span(tokens).subspan(100, 3)), row(102)) < 2e-4);
    const std::vector<std::int32_t> read(tokens.begin(), tokens.begin() + 103);
    BOOST_TEST(generator.tokens() == read, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(holds_weights_once_and_nothing_of_training) {
  const config::Model model = test::small_llama();
  const auto engine = make_engine(model, 64);
  for (const DType dtype : {DType::float32, DType::bf16}) {
    const Copy copy(*engine, model, 64, dtype);
    const auto bytes = [&](device::Label label) { return copy.ledger.bytes(label); };
    const std::size_t weight_bytes = static_cast<std::size_t>(engine->engine().num_parameters().all) * size_of(dtype);
    BOOST_TEST(bytes(device::Label::parameters) >= weight_bytes);
    BOOST_TEST(bytes(device::Label::parameters) < weight_bytes + weight_bytes / 50 + 4096);
    BOOST_TEST(bytes(device::Label::gradients) == 0U);
    BOOST_TEST(bytes(device::Label::optimizer) == 0U);
    // Keys and values of every layer
    const auto cache_bytes =
        static_cast<std::size_t>(model.num_hidden_layers * 2 * 64 * model.num_key_value_heads * model.head_dim) *
        size_of(dtype);
    BOOST_TEST(bytes(device::Label::activations) == cache_bytes);
  }
}

BOOST_AUTO_TEST_CASE(recites_what_it_learned) {
  for (const std::size_t prompt_size : {1, 4, 7, 2}) {
    const auto num_rest = static_cast<std::int64_t>(document.size() - prompt_size);
    const std::vector<std::int32_t> rest(document.begin() + static_cast<std::ptrdiff_t>(prompt_size), document.end());
    const generate::Generated generated = recite(prompt_size, {num_rest, test::small_vocab_size, {}});
    BOOST_TEST(generated.tokens == rest, boost::test_tools::per_element());
    BOOST_TEST(!generated.is_stopped);
  }
}

BOOST_AUTO_TEST_CASE(reads_no_token_twice) {
  static_cast<void>(recite(4, {5, test::small_vocab_size, {}}));
  BOOST_TEST(recite(6, {5, test::small_vocab_size, {}}).num_read_tokens == 1);
  BOOST_TEST(recite(10, {1, test::small_vocab_size, {}}).num_read_tokens == 1);
  trained().rewind(0);
  BOOST_TEST(recite(6, {5, test::small_vocab_size, {}}).num_read_tokens == 6);
}

BOOST_AUTO_TEST_CASE(ends_before_a_stop_token) {
  const std::vector<std::int32_t> until_5{4, 15, 9, 2, 6};
  const generate::Generated generated = recite(2, {14, test::small_vocab_size, {33, 5}});
  BOOST_TEST(generated.tokens == until_5, boost::test_tools::per_element());
  BOOST_TEST(generated.is_stopped);
}

BOOST_AUTO_TEST_CASE(ends_when_the_listener_says_so) {
  generate::Sampler greedy({});
  std::vector<std::int32_t> heard;
  const generate::Generated generated = generate::generate(trained(), greedy, std::span(document).first(2),
                                                           {10, test::small_vocab_size, {}}, [&](auto tokens) {
                                                             heard.assign(tokens.begin(), tokens.end());
                                                             return tokens.size() < 3;
                                                           });
  const std::vector<std::int32_t> three{4, 15, 9};
  BOOST_TEST(generated.tokens == three, boost::test_tools::per_element());
  BOOST_TEST(heard == three, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(produces_only_ids_that_the_tokenizer_knows) {
  for (const std::int32_t token : recite(3, {12, 9, {}}).tokens) BOOST_TEST(token < 9);
}

BOOST_AUTO_TEST_SUITE_END()
