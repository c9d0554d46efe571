// SPDX-License-Identifier: Apache-2.0
// Change the tokens of one document: nothing of any other document moves, not by one bit. Nor does what windows hide a
// token from.
//
// The weights are on the other documents alone, so the loss is theirs, and every gradient is that of their losses. A
// single attention score across a document boundary would change both.

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"

namespace {

using namespace sft;
using test::session;

/// Documents that begin and end inside the parts of every sequence-parallel cut, and one that spans most of them.
const std::vector<std::int32_t> document_lengths{5, 31, 1, 2, 33, 17, 6};
constexpr std::int64_t max_length = 96;

struct Outcome {
  train::StepResult result;
  std::vector<float> gradient_shard;
};

Outcome outcome_of(test::EngineFixture& fixture, const rows::Row& row) {
  Outcome outcome{fixture.step({row}, 0, 0.0), {}};
  fixture.engine().stream().synchronize();
  for (const train::PartGradients& part : fixture.engine().gradients()) {
    const auto* gradients = part.tensor.as<float>();
    outcome.gradient_shard.insert(outcome.gradient_shard.end(), gradients, gradients + part.tensor.num_elements());
  }
  return outcome;
}

/// Whether any rank's shards differ. Collective.
bool shards_differ(const Outcome& a, const Outcome& b) {
  std::array<std::int64_t, 1> differs{a.gradient_shard != b.gradient_shard};
  session().world().max(std::span<std::int64_t>(differs));
  return differs[0] != 0;
}

/// The row with weights on every document but [begin, end), which gets other tokens when `changed`.
rows::Row make_row(std::int64_t begin, std::int64_t end, bool changed) {
  rows::Row row{std::vector<std::int32_t>(max_length), std::vector<float>(max_length, 1.0f), document_lengths};
  const std::int64_t used = std::accumulate(document_lengths.begin(), document_lengths.end(), std::int64_t{0});
  for (std::int64_t t = 0; t < used; ++t) {
    row.tokens[t] = static_cast<std::int32_t>((t * t * 31 + 7 * t + 3) % test::small_vocab_size);
  }
  std::fill(row.loss_weight.begin() + used, row.loss_weight.end(), 0.0f);
  std::fill(row.loss_weight.begin() + begin, row.loss_weight.begin() + end, 0.0f);
  for (std::int64_t t = begin; changed && t < end; ++t) {
    row.tokens[t] = static_cast<std::int32_t>((row.tokens[t] + 1 + t % 5) % test::small_vocab_size);
  }
  return row;
}

struct Method {
  config::SpMethod sp_method;
  int ulysses_size = 0;
};

/// Those that this sp_size and these heads allow.
std::vector<Method> methods_for(const mesh::Layout& layout, const config::Model& model) {
  using config::SpMethod;
  if (layout[Axis::sp] == 1) return {{SpMethod::ring}};
  std::vector<Method> methods{{SpMethod::ring}, {SpMethod::all_gather}};
  const std::int64_t num_heads = model.num_attention_heads / layout[Axis::tp];
  if (num_heads % layout[Axis::sp] == 0) methods.push_back({SpMethod::ulysses});
  if (layout[Axis::sp] == 4 && num_heads % 2 == 0) methods.push_back({SpMethod::hybrid, 2});
  return methods;
}

struct Computing {
  config::Precision precision;
  config::ActivationCheckpointing checkpointing;
};
/// Activations that are kept, and such that are computed again.
constexpr std::array computings{Computing{config::Precision::fp32, config::ActivationCheckpointing::none},
                                Computing{config::Precision::bf16, config::ActivationCheckpointing::full}};

void check_mesh(const mesh::Layout& layout, const config::Model& model, const Method& method,
                const Computing& computing, bool cuts_tokens) {
  const test::Mesh mesh(session().world(), layout, model);
  config::Config config;
  config.model = model;
  config.parallel.sp_method = method.sp_method;
  config.parallel.ulysses_size = method.ulysses_size;
  config.parallel.tp_sequence_parallel = cuts_tokens;
  config.train.precision = computing.precision;
  config.train.activation_checkpointing = computing.checkpointing;
  config.train.per_device_train_batch_size = 1;
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  std::int64_t begin = 0;
  for (const std::int32_t length : document_lengths) {
    const Outcome before = outcome_of(fixture, make_row(begin, begin + length, false));
    const Outcome after = outcome_of(fixture, make_row(begin, begin + length, true));
    BOOST_TEST_CONTEXT("document of length " << length << " at " << begin) {
      BOOST_TEST(before.result.loss == after.result.loss);
      BOOST_TEST(before.result.grad_norm == after.result.grad_norm);
      BOOST_TEST(before.result.entropy == after.result.entropy);
      BOOST_TEST(before.result.loss > 0.0);
      BOOST_TEST(!shards_differ(before, after));
    }
    begin += length;
  }
  // The measure can move: with weights everywhere the same change does show.
  const Outcome before = outcome_of(fixture, make_row(0, 0, false));
  rows::Row changed = make_row(5, 5 + 31, true);
  changed.loss_weight = make_row(0, 0, false).loss_weight;
  const Outcome after = outcome_of(fixture, changed);
  BOOST_TEST(before.result.loss != after.result.loss);
  BOOST_TEST(shards_differ(before, after));
}

const std::vector<test::Layout> layouts{{1, 1, 1, 1}, {1, 1, 2, 1}, {1, 1, 3, 1}, {1, 1, 4, 1}, {1, 1, 2, 2}};

/// One layer with a window, shorter than any chunk, and one without.
config::Model half_windowed() {
  config::Model model = test::small_llama();
  model.sliding_window = 7;
  model.layer_types = {"sliding_attention", "full_attention"};
  return model;
}

/// The same with sinks, and scores with a cap that bends them.
config::Model sinking() {
  config::Model model = half_windowed();
  model.attention_sinks = true;
  model.attn_logit_softcapping = 0.5;
  return model;
}

/// The same with experts as gpt-oss has them. A token goes through all of them: otherwise the tokens of a document that
/// is changed go to other experts, and sums over the tokens of an expert, which add zeros for these, round otherwise.
/// Without the auxiliary loss, which is one of all tokens together.
config::Model sinking_experts() {
  config::Model model = sinking();
  model.expert_form = config::ExpertForm::gpt_oss;
  model.attention_bias = model.attention_output_bias = model.norm_topk_prob = true;
  model.num_experts = model.num_experts_per_tok = 3;
  model.moe_intermediate_size = model.intermediate_size;
  model.router_aux_loss_coef = 0.0;
  return model;
}

/// Experts of a sigmoid router behind a layer with an MLP, beside one that all tokens go through (GLM-4.5).
config::Model shared_experts() {
  config::Model model = half_windowed();
  model.qk_norm = true;
  model.scoring_func = config::ScoringFunc::sigmoid;
  model.num_experts = model.num_experts_per_tok = 4;
  model.n_shared_experts = 1;
  model.moe_intermediate_size = 8;
  model.mlp_only_layers = {0};
  model.router_aux_loss_coef = 0.0;
  return model;
}

/// One document, with weights on the targets from `first` on; another token at `changed`, if that is not negative.
rows::Row make_long_row(std::int64_t first, std::int64_t changed) {
  rows::Row row{std::vector<std::int32_t>(max_length), std::vector<float>(max_length, 1.0f), {max_length}};
  for (std::int64_t t = 0; t < max_length; ++t) {
    row.tokens[t] =
        static_cast<std::int32_t>((t * t * 31 + 7 * t + 3 + (t == changed ? 1 : 0)) % test::small_vocab_size);
  }
  std::fill(row.loss_weight.begin(), row.loss_weight.begin() + first, 0.0f);
  return row;
}

}  // namespace

// Through n layers with windows of w a token reaches n (w - 1) tokens on, and its label stands one further.
BOOST_AUTO_TEST_CASE(a_token_reaches_as_far_as_windows_do) {
  constexpr std::int64_t changed = 20;
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() != session().world().size()) continue;
    for (const std::int64_t window : {1, 6, 30}) {
      config::Config config;
      config.model = test::small_llama();
      config.model.sliding_window = window;
      config.train.per_device_train_batch_size = 1;
      const std::int64_t last_reached = changed + config.model.num_hidden_layers * (window - 1) + 1;
      for (const Method& method : methods_for(layout, config.model)) {
        config.parallel.sp_method = method.sp_method;
        config.parallel.ulysses_size = method.ulysses_size;
        const test::Mesh mesh(session().world(), layout, config.model);
        test::EngineFixture fixture(config, max_length, mesh, session());
        fixture.engine().initialize();
        const auto outcome = [&](std::int64_t first, std::int64_t at) {
          return outcome_of(fixture, make_long_row(first, at));
        };
        BOOST_TEST_CONTEXT(layout.describe()
                           << ", window " << window << ", method " << static_cast<int>(method.sp_method)) {
          const Outcome before = outcome(last_reached + 1, -1), after = outcome(last_reached + 1, changed);
          BOOST_TEST(before.result.loss == after.result.loss);
          BOOST_TEST(!shards_differ(before, after));
          BOOST_TEST(outcome(last_reached, -1).result.loss != outcome(last_reached, changed).result.loss);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(no_document_feels_another) {
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() != session().world().size()) continue;
    for (const Computing& computing : computings) {
      for (const config::Model& model : {test::small_llama(), test::small_qwen2(), test::small_qwen3(), half_windowed(),
                                         sinking(), sinking_experts(), shared_experts()}) {
        for (const Method& method : methods_for(layout, model)) {
          BOOST_TEST_CONTEXT(layout.describe() << ", method " << static_cast<int>(method.sp_method)) {
            check_mesh(layout, model, method, computing, /*cuts_tokens=*/false);
          }
          if (layout[Axis::tp] == 1 || computing.precision == config::Precision::fp32) continue;
          BOOST_TEST_CONTEXT(layout.describe() << ", tokens cut over tp") {
            check_mesh(layout, model, method, computing, /*cuts_tokens=*/true);
          }
        }
      }
    }
  }
}
