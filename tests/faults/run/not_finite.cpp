// SPDX-License-Identifier: Apache-2.0
// A weight that is no number: the error names the step and the one rank whose tokens use it, or the step is left out
// and changes nothing, on any mesh, with any optimizer, wherever its state lies.

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "sft/core/dtype.hpp"
#include "sft/core/error.hpp"
#include "sft/transfer/offloaded_shard.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"
#include "support/temporary_folder.hpp"

using namespace sft;
using config::OptimizerKind;
using test::session;

namespace {

constexpr std::int64_t max_length = 16;
constexpr std::int32_t common_token = 3, bad_token = 7;

/// The model with a NaN in what the table has for bad_token.
void spoil(test::EngineFixture& fixture) {
  const auto hidden_size = static_cast<std::size_t>(fixture.config()->model.hidden_size);
  test::LogicalTensors parameters = fixture.gather_parameters();
  parameters.at("model.embed_tokens.weight")[bad_token * hidden_size] = std::numeric_limits<float>::quiet_NaN();
  fixture.set_parameters(parameters);
}

/// Rows of a document of one token each, and padding.
std::vector<rows::Row> rows_of(const std::vector<std::int32_t>& tokens, std::int32_t length = max_length) {
  std::vector<rows::Row> rows;
  for (const std::int32_t token : tokens) {
    std::vector<float> weights(max_length, 0.0F);
    std::fill_n(weights.begin(), length, 1.0F);
    rows.push_back({std::vector<std::int32_t>(max_length, token), weights, {length}});
  }
  return rows;
}

struct SkipCase {
  const char* name;
  mesh::Layout layout;
  config::Parallel parallel = {};
  OptimizerKind optim = OptimizerKind::adamw_torch;
  bool in_files = false;
  DType moments = DType::float32;
  friend std::ostream& operator<<(std::ostream& out, const SkipCase& skip) { return out << skip.name; }
};

std::vector<SkipCase> skip_cases() {
  const mesh::Layout shards({{Axis::dp_shard, 4}}), replicas_and_tp({{Axis::dp_replicate, 2}, {Axis::tp, 2}});
  const mesh::Layout shards_and_sp({{Axis::dp_shard, 2}, {Axis::sp, 2}});
  return {
      {"dp_shard 4", shards},
      {"dp_replicate 2 x tp 2", replicas_and_tp},
      {"dp_shard 2 x sp 2, stage 1", shards_and_sp, {.zero_stage = 1}},
      {"dp_shard 2 x sp 2, stage 2", shards_and_sp, {.zero_stage = 2}},
      {"dp_shard 4, stage 0", shards, {.zero_stage = 0}},
      {"bf16 moments", shards_and_sp, {}, OptimizerKind::adamw_torch, false, DType::bf16},
      {"state in files", shards, {}, OptimizerKind::adamw_torch, true},
      {"adamw_8bit", shards_and_sp, {}, OptimizerKind::adamw_8bit},
      {"adafactor", replicas_and_tp, {}, OptimizerKind::adafactor},
      {"lion in files", replicas_and_tp, {}, OptimizerKind::lion, true},
      {"muon", shards_and_sp, {}, OptimizerKind::muon},
      {"sgd", shards, {}, OptimizerKind::sgd},
  };
}

/// All that a checkpoint of this rank would hold, byte for byte.
std::vector<std::byte> bytes_of(test::EngineFixture& fixture) {
  fixture.engine().stream().synchronize();
  std::vector<std::byte> bytes;
  const checkpoint::State state = fixture.engine().state();
  for (const checkpoint::Entry& entry : state.entries()) {
    std::vector<std::byte> read;
    const void* data = entry.tensor.data;
    std::size_t size = entry.tensor.size_bytes();
    if (entry.in_file != nullptr) {
      read.resize(entry.in_file->num_elements() * size_of(entry.in_file->dtype()));
      entry.in_file->read(0, Tensor(read.data(), entry.in_file->dtype(), {entry.in_file->num_elements()}));
      data = read.data();
      size = read.size();
    }
    const auto* first = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + size);
  }
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_rank_that_saw_it_first_is_named) {
  constexpr int bad_rank = 2;
  const int num_ranks = session().world().size();

  config::Config config;
  config.model = test::small_qwen2();  // untied: the table is read for tokens alone
  config.train.precision = config::Precision::fp32;
  config.train.per_device_train_batch_size = 1;
  const test::Mesh mesh(session().world(), {{Axis::dp_shard, num_ranks}}, config.model);
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();
  spoil(fixture);

  std::vector<std::int32_t> tokens(num_ranks, common_token);
  tokens[bad_rank] = bad_token;
  const auto names_it = [](const Error& error) {
    const std::string text = error.what();
    return error.status() == ExitStatus::numerical && text.find("loss nan") != std::string::npos &&
           text.find("at step 5 ") != std::string::npos &&
           text.find("in the loss of rank " + std::to_string(bad_rank) + "; rank " + std::to_string(bad_rank) +
                     " read row " + std::to_string(bad_rank) + " of the data") != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION((void)fixture.step(rows_of(tokens), 4, 1e-3), Error, names_it);
}

// The same good steps, in one run with a bad one between them, in the other without.
BOOST_DATA_TEST_CASE(a_step_that_is_left_out_changes_nothing, boost::unit_test::data::make(skip_cases()), skip) {
  test::TemporaryFolder folder;
  config::Config config;
  config.model = test::small_qwen2();
  config.model.intermediate_size = 192;  // matrices that adamw_8bit takes in blocks
  config.parallel = skip.parallel;
  config.train.precision = config::Precision::fp32;
  config.train.per_device_train_batch_size = 1;
  config.train.gradient_accumulation_steps = 2;
  config.train.nan_policy = config::NanPolicy::skip;
  config.optimizer.optim = skip.optim;
  config.optimizer.moments_dtype = skip.moments;
  config.optimizer.weight_decay = 0.1;
  if (skip.in_files) {
    config.train.offload_optimizer = config::Offload::nvme;
    config.train.offload_folder = folder.file("");
    config.optimizer.max_grad_norm = 0;  // else nothing would be stepped under the backward pass
  }
  const auto make = [&] {
    test::Mesh mesh(session().world(), skip.layout, config.model, config.parallel);
    auto fixture = std::make_unique<test::EngineFixture>(config, max_length, std::move(mesh), session());
    fixture->engine().initialize();
    spoil(*fixture);
    return fixture;
  };
  const auto step = [&](test::EngineFixture& fixture, std::int64_t number, std::int64_t num_skipped, bool is_bad) {
    std::vector<std::int32_t> tokens(fixture.config()->effective_batch_rows());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = common_token + static_cast<std::int32_t>((number - num_skipped + i) % 4);
    }
    if (is_bad) tokens.back() = bad_token;  // in the last micro-batch
    // The bad step fills all buffers; good ones are shorter, and read nothing that it left there.
    const auto micro_batches = fixture.deal(rows_of(tokens, is_bad ? max_length : 11));
    fixture.engine().begin_step(number, 1e-2, micro_batches.front().step_counts, num_skipped);
    for (const rows::MicroBatch& batch : micro_batches) fixture.engine().add_micro_batch(batch);
    return fixture.engine().finish_step();
  };

  const auto skipping = make(), plain = make();
  for (std::int64_t i = 1; i <= 2; ++i) {
    BOOST_TEST(step(*skipping, i, 0, false).left_out == "");
    BOOST_TEST(step(*plain, i, 0, false).left_out == "");
  }
  const std::vector<std::byte> before = bytes_of(*skipping);
  const std::string why = step(*skipping, 3, 0, true).left_out;
  BOOST_TEST(why.find("loss nan and gradient norm nan at step 3 are not finite (first seen in the loss of rank ") == 0U,
             why);
  BOOST_TEST((bytes_of(*skipping) == before));
  for (std::int64_t i = 3; i <= 4; ++i) {
    const train::StepResult a = step(*skipping, i + 1, 1, false), b = step(*plain, i, 0, false);
    BOOST_TEST(a.left_out == "");
    BOOST_TEST(a.loss == b.loss);
    BOOST_TEST(a.grad_norm == b.grad_norm);
  }
  BOOST_TEST((bytes_of(*skipping) == bytes_of(*plain)));
  BOOST_TEST((bytes_of(*skipping) != before));
}
