// SPDX-License-Identifier: Apache-2.0
// The padding token of a model: its row of the embedding gets no gradient as an input, on any mesh, as that of
// torch.nn.Embedding with a padding_idx. All other gradients keep their bits.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"

BOOST_AUTO_TEST_SUITE(padding_token)

namespace {

using namespace sft;
using test::session;

constexpr std::int64_t max_length = 24;

/// With every token of the vocabulary's first 24 as an input and as a target.
rows::Row full_row() {
  rows::Row row{std::vector<std::int32_t>(max_length), std::vector<float>(max_length, 1.0F), {max_length}};
  for (std::int64_t t = 0; t < max_length; ++t) row.tokens[t] = static_cast<std::int32_t>((7 * t) % max_length);
  return row;
}

test::LogicalTensors gradients_of(const test::Mesh& mesh, config::Model model, std::int64_t padding) {
  config::Config config;
  model.pad_token_id = padding;
  config.model = model;
  config.train.precision = config::Precision::fp32;
  config.train.per_device_train_batch_size = 1;
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  static_cast<void>(fixture.step({full_row()}, 0, 0.0));
  return fixture.gather_gradients();
}

/// The rows of the table that differ between two of its gradients.
std::set<std::int64_t> rows_that_differ(const std::vector<float>& one, const std::vector<float>& other,
                                        std::int64_t width) {
  std::set<std::int64_t> rows;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i] != other[i]) rows.insert(static_cast<std::int64_t>(i) / width);
  }
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_CASE(its_row_gets_no_gradient_as_an_input) {
  const std::vector<test::Layout> layouts{{1, 1, 1, 1}, {1, 1, 1, 2}, {1, 1, 2, 1}, {1, 1, 2, 2}};
  const std::string table = "model.embed_tokens.weight";
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() != session().world().size()) continue;
    for (const bool is_tied : {false, true}) {
      config::Model model = test::small_llama();
      model.tie_word_embeddings = is_tied;
      const test::Mesh mesh(session().world(), layout, model);
      const test::LogicalTensors plain = gradients_of(mesh, model, -1);
      // The first and a middle row of a rank's part of the table.
      for (const std::int64_t padding : {0, 5, 23}) {
        const test::LogicalTensors padded = gradients_of(mesh, model, padding);
        BOOST_TEST_CONTEXT(layout.describe() << ", token " << padding << (is_tied ? ", tied" : "")) {
          for (const auto& [name, values] : plain) {
            const std::set<std::int64_t> differing = rows_that_differ(values, padded.at(name), model.hidden_size);
            BOOST_TEST((differing == (name == table ? std::set{padding} : std::set<std::int64_t>{})), name);
          }
          const float* const row = padded.at(table).data() + padding * model.hidden_size;
          bool is_zero = true;
          for (std::int64_t c = 0; c < model.hidden_size; ++c) is_zero = is_zero && row[c] == 0.0F;
          BOOST_TEST(is_zero == !is_tied);  // a tied head has its own gradient of it
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
