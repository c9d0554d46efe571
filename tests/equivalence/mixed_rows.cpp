// SPDX-License-Identifier: Apache-2.0
// Unpacked rows of mixed lengths, as rows::Loader deals them to data ranks and micro-batches: every mesh trains on the
// same rows in every step and has the losses of one rank that reads them in order.

#include <cmath>
#include <cstdint>
#include <vector>

#include "sft/rank/datasets.hpp"
#include "sft/rows/loader.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/layout.hpp"
#include "support/mpi_session.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(mixed_rows)

namespace {

using namespace sft;
using test::session;

constexpr std::int64_t max_length = 90, num_steps = 4, rows_per_step = 24;  // 90 is no multiple of 2 x sp_size = 4

/// One document a row; most are short.
std::vector<rows::Row> make_rows() {
  std::vector<rows::Row> rows;
  for (std::int32_t r = 0; r < 61; ++r) {
    const std::int32_t length = r % 7 == 3 ? max_length - r % 20 : 2 + r * r % 23;
    rows::Row row{std::vector<std::int32_t>(max_length), std::vector<float>(max_length), {length}};
    for (std::int32_t t = 0; t < length; ++t) {
      row.tokens[static_cast<std::size_t>(t)] = (t * t * 13 + 7 * r + 3) % static_cast<int>(test::small_vocab_size);
      row.loss_weight[static_cast<std::size_t>(t)] = (t + r) % 4 == 0 ? 0.0f : 1.0f;
    }
    rows.push_back(row);
  }
  return rows;
}

struct Case {
  test::Layout layout;
  std::int64_t accumulation;
};

/// Whether every step is begun twice, the first time with its first micro-batch alone.
enum class Begun { once, twice };

/// Losses and gradient norms of all steps. Collective over the mesh.
std::vector<train::StepResult> train_on(const std::string& file, const test::Mesh& mesh, std::int64_t accumulation,
                                        const config::Parallel& parallel = {}, Begun begun = Begun::once) {
  config::Config config;
  config.parallel = parallel;
  config.model = test::small_qwen2();
  config.train.precision = config::Precision::fp32;
  config.train.gradient_accumulation_steps = accumulation;
  config.train.per_device_train_batch_size = rows_per_step / accumulation / mesh.place.data_size();
  test::EngineFixture fixture(config, max_length, mesh, session());
  train::Engine& engine = fixture.engine();
  engine.initialize();
  const rows::PackedDataset dataset({file});
  rows::Loader loader(
      dataset, rank::loader_plan(fixture.config(), mesh.place, dataset.num_rows(), 0, num_steps,
                                 rows::limits_of_full_rows(config.train.per_device_train_batch_size, max_length)));
  std::vector<train::StepResult> results;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    for (std::int64_t micro = 0; micro < accumulation; ++micro) {
      const rows::MicroBatch batch = loader.next();
      if (micro == 0 && begun == Begun::twice) {
        engine.begin_step(step + 1, 1e-3, batch.step_counts);
        engine.add_micro_batch(batch);
      }
      if (micro == 0) engine.begin_step(step + 1, 1e-3, batch.step_counts);
      engine.add_micro_batch(batch);
    }
    results.push_back(engine.finish_step());
  }
  return results;
}

const std::vector<Case> cases{{{1, 1, 1, 1}, 3}, {{1, 2, 1, 1}, 3}, {{2, 1, 1, 1}, 1}, {{1, 1, 2, 1}, 2},
                              {{1, 4, 1, 1}, 2}, {{2, 1, 2, 1}, 4}, {{1, 2, 1, 2}, 1}, {{1, 3, 2, 1}, 2}};

/// The rows in a file of this rank.
class RowFile {
 public:
  RowFile() { test::write_packed_file(path(), make_rows(), test::small_vocab_size); }
  [[nodiscard]] std::string path() const {
    return folder_.file("rows" + std::to_string(session().world().rank()) + ".h5");
  }

 private:
  test::TemporaryFolder folder_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(meshes_train_like_one_rank_in_order) {
  const RowFile rows;
  const std::string file = rows.path();
  const test::Mesh lone = test::make_lone_mesh(test::small_qwen2());
  const std::vector<train::StepResult> expected = train_on(file, lone, 1);
  for (const Case& of : cases) {
    if (of.layout.size() != session().world().size()) continue;
    const test::Mesh mesh(session().world(), of.layout, test::small_qwen2());
    const std::vector<train::StepResult> results = train_on(file, mesh, of.accumulation);
    BOOST_TEST_CONTEXT(of.layout.describe() << ", accumulation " << of.accumulation) {
      for (std::size_t step = 0; step < results.size(); ++step) {
        BOOST_TEST(std::abs(results[step].loss - expected[step].loss) <= 1e-5 * expected[step].loss);
        BOOST_TEST(std::abs(results[step].grad_norm - expected[step].grad_norm) <= 1e-4 * expected[step].grad_norm);
        BOOST_TEST(results[step].num_tokens == expected[step].num_tokens);
        BOOST_TEST(results[step].num_target_tokens == expected[step].num_target_tokens);
        BOOST_TEST(results[step].model_flops == expected[step].model_flops);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_step_left_unfinished_is_forgotten_by_the_next) {
  const RowFile rows;
  for (const Case& of : cases) {
    if (of.layout.size() != session().world().size()) continue;
    for (const int zero_stage : {0, 1, 2, 3}) {
      config::Parallel parallel;
      parallel.zero_stage = zero_stage;
      const test::Mesh mesh(session().world(), of.layout, test::small_qwen2(), parallel);
      const auto run = [&](Begun begun) { return train_on(rows.path(), mesh, of.accumulation, parallel, begun); };
      const std::vector<train::StepResult> expected = run(Begun::once), found = run(Begun::twice);
      BOOST_TEST_CONTEXT(of.layout.describe() << ", stage " << zero_stage) {
        for (std::size_t step = 0; step < expected.size(); ++step) {
          BOOST_TEST(found[step].loss == expected[step].loss, "step " << step);
          BOOST_TEST(found[step].grad_norm == expected[step].grad_norm, "step " << step);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
