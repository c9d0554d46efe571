// SPDX-License-Identifier: Apache-2.0
// What a step with shared experts is planned to send is what it sends where the tokens choose all experts equally
// often, byte by byte; where they do not, all but what travels along ep. Where they all choose the same one it comes in
// several rounds, and sends as many rows as these say.

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experts/expert_runs.hpp"
#include "sft/machine/node.hpp"
#include "sft/rank/traffic.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(expert_traffic)

namespace {

using namespace sft;
using config::ActivationCheckpointing;
using test::session;

constexpr std::int64_t num_experts = 8, max_length = 48;

using Bytes = std::map<std::string, std::int64_t>;

Bytes by_group(const std::vector<comm::SentBytes>& sent) {
  Bytes bytes;
  for (const comm::SentBytes& group : sent) bytes[group.group] = group.bytes;
  return bytes;
}

config::Config config_of(const mesh::Layout& layout, ActivationCheckpointing policy, std::int64_t num_choices) {
  config::Config config = test::expert_config();
  config.model.num_experts_per_tok = num_choices;
  config.model.tie_word_embeddings = false;  // so that no product of the head is chosen by what experts need
  config.train.activation_checkpointing = policy;
  test::set_mesh(config.parallel, layout);
  return config;
}

/// Rows of tokens 0, 1, 2 ... times `stride`: of stride 1 each of the first eight tokens is there equally often.
std::vector<rows::Row> rows_of(std::int64_t num_rows, std::int32_t stride) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < max_length; ++i) tokens.push_back(i * stride % num_experts);
  const std::vector<float> weights(max_length, 1.0F);
  return std::vector<rows::Row>(static_cast<std::size_t>(num_rows), {tokens, weights, {max_length}});
}

/// Nothing but the embedding is in the residual stream, and of token i the router chooses expert i, then i - 1.
void route_by_token(test::EngineFixture& fixture, std::int64_t hidden) {
  test::LogicalTensors tensors = fixture.gather_parameters();
  const auto is = [](const std::string& name, const char* part) { return name.find(part) != std::string::npos; };
  const auto set = [&](std::vector<float>& matrix, std::int64_t row, std::int64_t column, float value) {
    matrix[static_cast<std::size_t>(row * hidden + column)] = value;
  };
  for (auto& [name, values] : tensors) {
    if (is(name, "o_proj") || is(name, "down_proj")) values.assign(values.size(), 0.0F);
    const bool is_router = is(name, "mlp.gate.weight");
    if (!is_router && !is(name, "embed_tokens")) continue;
    values.assign(values.size(), 0.0F);
    for (std::int64_t i = 0; i < num_experts; ++i) {
      set(values, i, i, 1.0F);
      if (is_router) set(values, i, (i + 1) % num_experts, 0.5F);
    }
  }
  fixture.set_parameters(tensors);
}

/// What a step sends, once weights are gathered as in any but the first step.
Bytes sent_by(test::EngineFixture& fixture, std::int32_t stride) {
  const std::vector<rows::Row> rows = rows_of(fixture.config()->effective_batch_rows(), stride);
  (void)fixture.step(rows, 0, 0.0);
  fixture.traffic().reset();
  (void)fixture.step(rows, 1, 0.0);
  return by_group(fixture.traffic().sent());
}

Bytes planned_for(const test::EngineFixture& fixture) {
  const rows::MicroBatchLimits limits =
      rows::limits_of_full_rows(fixture.config()->train.per_device_train_batch_size, max_length);
  return by_group(
      rank::plan_traffic(fixture.config(), limits, fixture.mesh().place, {device::Kind::cpu, machine::num_threads()}));
}

template <class Visit>
void for_each_config(std::int64_t num_choices, const Visit& visit) {
  const std::vector<mesh::Layout> layouts{{{Axis::ep, 2}},
                                          {{Axis::ep, 4}},
                                          {{Axis::dp_shard, 2}, {Axis::ep, 2}},
                                          {{Axis::ep, 2}, {Axis::tp, 2}},
                                          {{Axis::ep, 8}},
                                          {{Axis::dp_shard, 2}, {Axis::ep, 2}, {Axis::tp, 2}}};
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() != session().world().size()) continue;
    for (const auto policy :
         {ActivationCheckpointing::none, ActivationCheckpointing::selective, ActivationCheckpointing::full}) {
      const config::Config config = config_of(layout, policy, num_choices);
      const test::Mesh mesh(session().world(), layout, config.model, config.parallel);
      BOOST_TEST_CONTEXT(layout.describe() << ", recomputation " << static_cast<int>(policy)) { visit(config, mesh); }
    }
  }
}

template <class Visit>
void for_each_case(std::int64_t num_choices, const Visit& visit) {
  for_each_config(num_choices, [&](const config::Config& config, const test::Mesh& mesh) {
    test::EngineFixture fixture(config, max_length, mesh, session());
    fixture.engine().initialize();
    route_by_token(fixture, config.model.hidden_size);
    visit(fixture);
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_sends_what_was_planned) {
  for_each_case(2, [](test::EngineFixture& fixture) {
    const Bytes sent = sent_by(fixture, 1), planned = planned_for(fixture);
    BOOST_TEST(sent.at("ep") > 0);
    BOOST_TEST((sent == planned));
    for (const auto& [group, bytes] : sent) {
      BOOST_TEST(bytes == (planned.contains(group) ? planned.at(group) : 0), group);
    }
  });
}

/// New adapters change nothing: rows go where they go without, and as often as when experts are trained.
BOOST_AUTO_TEST_CASE(adapters_of_experts_send_what_was_planned) {
  for_each_config(2, [](const config::Config& whole, const test::Mesh& mesh) {
    config::Config config = whole;
    config.lora.use_peft = true;
    config.lora.lora_dropout = 0.0;
    config.lora.lora_target_parameters = {"experts.gate_up_proj", "experts.down_proj"};
    test::EngineFixture trained(whole, max_length, mesh, session()), adapted(config, max_length, mesh, session());
    trained.engine().initialize();
    adapted.engine().initialize();
    Bytes sent = sent_by(adapted, 1), planned = planned_for(adapted);
    BOOST_TEST(sent.at("ep") == sent_by(trained, 1).at("ep"));
    BOOST_TEST(planned.at("ep") == planned_for(trained).at("ep"));
    sent.erase("ep"), planned.erase("ep");
    BOOST_TEST((sent == planned));
  });
}

/// All tokens are token 0, whose expert is the first rank's: ep_size times the mean arrives there, and there is memory
/// for twice the mean. Rows go there and back once in the forward pass; in the backward pass twice back, and there
/// twice where products are kept, once more where they are not, and once more in several rounds, of which none is kept.
BOOST_AUTO_TEST_CASE(rows_travel_as_often_as_rounds_ask_for) {
  for_each_case(1, [](test::EngineFixture& fixture) {
    const mesh::Place& place = fixture.mesh().place;
    const config::Config& config = *fixture.config();
    const int ep_size = place.size(Axis::ep), rank = place.rank(Axis::ep);
    const std::int64_t num_tokens = config.train.per_device_train_batch_size * max_length;
    const std::int64_t row_bytes = config.model.hidden_size * static_cast<std::int64_t>(sizeof(float));
    const auto policy = config.train.activation_checkpointing;
    const bool has_rounds = ep_size > 2, is_kept = !has_rounds && policy != ActivationCheckpointing::full;
    const std::int64_t there = has_rounds ? 5 : is_kept ? 3 : 4, back = 3;
    const std::int64_t rows = rank == 0 ? back * (ep_size - 1) * num_tokens : there * num_tokens;
    const std::int64_t counts = num_experts * std::int64_t{sizeof(std::int32_t)} * (ep_size - 1);
    Bytes sent = sent_by(fixture, num_experts), planned = planned_for(fixture);
    BOOST_TEST(sent.at("ep") == config.model.num_hidden_layers * (row_bytes * rows + counts));
    sent.erase("ep"), planned.erase("ep");
    BOOST_TEST((sent == planned));
  });
}

BOOST_AUTO_TEST_SUITE_END()
