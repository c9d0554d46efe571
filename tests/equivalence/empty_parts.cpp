// SPDX-License-Identifier: Apache-2.0
// Ranks whose part of a row holds padding alone, or no target, or whose rows hold no document: they add exact zeros,
// and the others' loss and gradients are those of one rank.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(empty_parts)

namespace {

using namespace sft;
using test::session;

constexpr std::int64_t max_length = 48;

/// One document of `length` tokens; targets from `first_target` on.
rows::Row make_row(std::int32_t length, std::int64_t first_target) {
  rows::Row row{std::vector<std::int32_t>(max_length), std::vector<float>(max_length), {}};
  if (length > 0) row.document_lengths.push_back(length);
  for (std::int64_t t = 0; t < length; ++t) {
    row.tokens[t] = static_cast<std::int32_t>((t * t * 17 + 5) % test::small_vocab_size);
    row.loss_weight[t] = t >= first_target ? 1.0f : 0.0f;
  }
  return row;
}

struct Batch {
  const char* name;
  std::vector<rows::Row> rows;
};
const std::vector<Batch> batches{
    {"only the first chunk holds tokens", {make_row(5, 0), make_row(3, 0)}},
    {"only the last chunk holds targets", {make_row(48, 46), make_row(47, 45)}},
    {"one row without a document", {make_row(0, 0), make_row(31, 0)}},
    {"one row without a target", {make_row(48, 48), make_row(29, 0)}},
};

struct Outcome {
  train::StepResult result;
  test::LogicalTensors gradients;
};

Outcome outcome_of(const Batch& batch, const test::Mesh& mesh, const config::Model& model, bool cuts_tokens = false) {
  config::Config config;
  config.model = model;
  config.parallel.tp_sequence_parallel = cuts_tokens;
  config.train.precision = config::Precision::fp32;
  config.train.per_device_train_batch_size = std::ssize(batch.rows) / mesh.place.data_size();
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  const train::StepResult result = fixture.step(batch.rows, 0, 0.0);
  return {result, fixture.gather_gradients()};
}

/// Ranks of `mesh` whose part has no target. Collective.
std::int64_t num_ranks_without_target(const Batch& batch, const test::Mesh& mesh) {
  const std::int64_t rows_per_rank = std::ssize(batch.rows) / mesh.place.data_size();
  const auto first = batch.rows.begin() + mesh.place.data_rank() * rows_per_rank;
  const rows::MicroBatch part =
      rows::cut_rows({first, first + rows_per_rank}, mesh.place.size(Axis::sp), mesh.place.rank(Axis::sp));
  std::array<std::int64_t, 1> count{std::ranges::all_of(part.loss_weights, [](float w) { return w == 0.0f; })};
  mesh.groups.world.sum(std::span<std::int64_t>(count));
  return count[0];
}

double relative_distance(const test::LogicalTensors& tensors, const test::LogicalTensors& expected) {
  double difference = 0.0, norm = 0.0;
  for (const auto& [name, values] : expected) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i], delta = tensors.at(name)[i] - value;
      difference += delta * delta;
      norm += value * value;
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace

BOOST_AUTO_TEST_CASE(empty_parts_add_zeros) {
  const std::vector<test::Layout> layouts{{1, 1, 2, 1}, {2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 4, 1},
                                          {1, 2, 2, 1}, {2, 1, 2, 1}, {1, 1, 2, 2}};
  const config::Model model = test::small_qwen2();
  std::int64_t num_empty_parts = 0;
  bool has_mesh = false;  // of as many ranks as there are
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() != session().world().size()) continue;
    const test::Mesh mesh(session().world(), layout, model);
    const test::Mesh lone = test::make_lone_mesh(model);
    has_mesh = true;
    for (const Batch& batch : batches) {
      num_empty_parts += num_ranks_without_target(batch, mesh);
      const Outcome expected = outcome_of(batch, lone, model);
      for (const bool cuts_tokens : {false, true}) {
        if (cuts_tokens && layout[Axis::tp] == 1) continue;
        const Outcome outcome = outcome_of(batch, mesh, model, cuts_tokens);
        BOOST_TEST_CONTEXT(layout.describe() << ", " << batch.name << (cuts_tokens ? ", tokens cut over tp" : "")) {
          BOOST_TEST(std::abs(outcome.result.loss - expected.result.loss) <= 1e-6 * expected.result.loss);
          BOOST_TEST(outcome.result.num_target_tokens == expected.result.num_target_tokens);
          BOOST_TEST(relative_distance(outcome.gradients, expected.gradients) <= 1e-5);
        }
      }
    }
  }
  BOOST_TEST((num_empty_parts > 0 || !has_mesh));
}

BOOST_AUTO_TEST_SUITE_END()
