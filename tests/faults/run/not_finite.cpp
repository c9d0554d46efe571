// SPDX-License-Identifier: Apache-2.0
// A weight that is no number: the error names the step and the one rank whose tokens use it.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sft/core/error.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/mpi_session.hpp"

using namespace sft;
using test::session;

BOOST_AUTO_TEST_CASE(the_rank_that_saw_it_first_is_named) {
  constexpr std::int64_t max_length = 16;
  constexpr std::int32_t common_token = 3, bad_token = 7;
  constexpr int bad_rank = 2;
  const int num_ranks = session().world().size();

  config::Config config;
  config.model = test::small_qwen2();  // untied: the table is read for tokens alone
  config.train.precision = config::Precision::fp32;
  config.train.per_device_train_batch_size = 1;
  const test::Mesh mesh(session().world(), {{Axis::dp_shard, num_ranks}}, config.model);
  test::EngineFixture fixture(config, max_length, mesh, session());
  fixture.engine().initialize();

  const auto hidden_size = static_cast<std::size_t>(config.model.hidden_size);
  test::LogicalTensors parameters =
      test::gather(fixture.engine().shard_map(), fixture.engine().state().tensor("model"), mesh);
  parameters.at("model.embed_tokens.weight")[bad_token * hidden_size] = std::numeric_limits<float>::quiet_NaN();
  fixture.set_parameters(parameters);

  std::vector<data::Row> rows;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::int32_t token = rank == bad_rank ? bad_token : common_token;
    rows.push_back({std::vector<std::int32_t>(max_length, token),
                    std::vector<float>(max_length, 1.0F),
                    {static_cast<std::int32_t>(max_length)}});
  }
  const auto names_it = [](const Error& error) {
    const std::string text = error.what();
    return error.status() == ExitStatus::numerical && text.find("loss nan") != std::string::npos &&
           text.find("at step 5 ") != std::string::npos &&
           text.find("in the loss of rank " + std::to_string(bad_rank) + "; rank " + std::to_string(bad_rank) +
                     " read row " + std::to_string(bad_rank) + " of the data") != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION((void)fixture.step(rows, 4, 1e-3), Error, names_it);
}
