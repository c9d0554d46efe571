// SPDX-License-Identifier: Apache-2.0
// What mlp_tile_tokens = auto takes: tiles where the memory suffices with them alone.

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sft/plan/memory.hpp"
#include "sft/plan/mlp_tile.hpp"
#include "support/awkward_data.hpp"

namespace {

using namespace sft;
using plan::auto_mlp_tile_tokens;

/// One row of 64k tokens through a model whose MLP is its widest part.
config::ValidConfig config_of(std::optional<std::int64_t> tile_tokens, bool all_experts = false) {
  config::Config config;
  config.model = test::small_llama();
  config.model.intermediate_size = 1024;
  if (all_experts) {
    config.model.num_experts = 4;
    config.model.num_experts_per_tok = 2;
    config.model.moe_intermediate_size = 1024;
  }
  config.data.train_files = {"none"};
  config.train.per_device_train_batch_size = 1;
  config.train.activation_checkpointing = config::ActivationCheckpointing::full;
  config.train.mlp_tile_tokens = tile_tokens;
  return config::validate(std::move(config), 1);
}

std::size_t needed_bytes(const config::ValidConfig& config) {
  constexpr std::int64_t tokens = std::int64_t{1} << 16;
  const data::MicroBatchLimits limits{.tokens = tokens, .document_tokens = tokens};
  return plan::plan_ledger(config, limits, mesh::Place(config, 0), {}, 0).total_bytes();
}

/// What is taken where there is so much memory.
std::int64_t taken(const config::ValidConfig& config, std::size_t memory_bytes, int asked_at_most = 2) {
  int asked = 0;
  const auto chosen = plan::choose_mlp_tile(config, [&](const config::ValidConfig& of) {
    ++asked;
    return needed_bytes(of) <= memory_bytes;
  });
  BOOST_TEST(asked <= asked_at_most);
  const std::int64_t tile_tokens = chosen.config->train.mlp_tile_tokens.value();
  BOOST_TEST(chosen.why.empty() == (config->train.mlp_tile_tokens.has_value() || tile_tokens == 0), chosen.why);
  return tile_tokens;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mlp_tile)

BOOST_AUTO_TEST_CASE(auto_takes_tiles_where_the_memory_suffices_with_them_alone) {
  const std::size_t whole = needed_bytes(config_of(0)), tiled = needed_bytes(config_of(auto_mlp_tile_tokens));
  BOOST_TEST_REQUIRE(tiled < whole);
  const config::ValidConfig open = config_of({});
  BOOST_TEST(needed_bytes(open) == whole);
  BOOST_TEST(taken(open, whole, 1) == 0);
  BOOST_TEST(taken(open, whole - 1) == auto_mlp_tile_tokens);
  BOOST_TEST(taken(open, tiled) == auto_mlp_tile_tokens);
  BOOST_TEST(taken(open, tiled - 1) == 0);  // then tiles are no help
}

BOOST_AUTO_TEST_CASE(what_is_given_stays) {
  BOOST_TEST(taken(config_of(0), 0, 0) == 0);
  BOOST_TEST(taken(config_of(100), 0, 0) == 100);
}

BOOST_AUTO_TEST_CASE(experts_have_no_tiles) { BOOST_TEST(taken(config_of({}, /*all_experts=*/true), 0, 0) == 0); }

BOOST_AUTO_TEST_SUITE_END()
