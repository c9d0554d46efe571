// SPDX-License-Identifier: Apache-2.0
// What mlp_tile_tokens = auto and attention_head_groups = auto take: pieces where the memory suffices with them alone.

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "sft/rank/memory.hpp"
#include "sft/rank/pieces.hpp"
#include "support/awkward_data.hpp"

namespace {

using namespace sft;
using rank::auto_mlp_tile_tokens;

/// One row of 64k tokens through a model whose MLP is its widest part.
config::ValidConfig config_of(std::optional<std::int64_t> tile_tokens, bool all_experts = false,
                              std::optional<std::int64_t> head_groups = 1) {
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
  config.train.attention_head_groups = head_groups;
  return config::validate(std::move(config), 1);
}

std::size_t needed_bytes(const config::ValidConfig& config) {
  constexpr std::int64_t tokens = std::int64_t{1} << 16;
  const rows::MicroBatchLimits limits{.tokens = tokens, .document_tokens = tokens};
  return rank::plan_ledger(config, limits, mesh::Place(config, 0), {}, 0).total_bytes();
}

/// What is taken where there is so much memory.
std::int64_t taken(const config::ValidConfig& config, std::size_t memory_bytes, int asked_at_most = 2) {
  int asked = 0;
  const auto chosen = rank::choose_pieces(config, [&](const config::ValidConfig& of) {
    ++asked;
    return needed_bytes(of) <= memory_bytes;
  });
  BOOST_TEST(asked <= asked_at_most);
  const std::int64_t tile_tokens = chosen.config->train.mlp_tile_tokens.value();
  BOOST_TEST(chosen.why.empty() == (config->train.mlp_tile_tokens.has_value() || tile_tokens == 0), chosen.why);
  return tile_tokens;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pieces)

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

BOOST_AUTO_TEST_CASE(groups_of_heads_come_where_tiles_do_not_suffice) {
  constexpr std::int64_t num_heads = 2;  // of keys and values
  const config::ValidConfig open = config_of({}, false, {});
  const auto chosen_with = [&](std::size_t memory_bytes) {
    int asked = 0;
    const rank::ChosenPieces chosen = rank::choose_pieces(open, [&](const config::ValidConfig& of) {
      ++asked;
      return needed_bytes(of) <= memory_bytes;
    });
    BOOST_TEST(asked <= 3);
    const bool has_groups = chosen.config->train.attention_head_groups.value() > 1;
    BOOST_TEST((chosen.why.find("attention_head_groups = auto: attention works on each of 2 key/value heads alone") !=
                std::string::npos) == has_groups);
    return std::pair(chosen.config->train.mlp_tile_tokens.value(), chosen.config->train.attention_head_groups.value());
  };
  const std::size_t whole = needed_bytes(config_of(0)), tiled = needed_bytes(config_of(auto_mlp_tile_tokens)),
                    grouped = needed_bytes(config_of(auto_mlp_tile_tokens, false, num_heads));
  BOOST_TEST_REQUIRE(grouped < tiled);
  BOOST_TEST((chosen_with(whole) == std::pair<std::int64_t, std::int64_t>(0, 1)));
  BOOST_TEST((chosen_with(tiled) == std::pair(auto_mlp_tile_tokens, std::int64_t{1})));
  BOOST_TEST((chosen_with(tiled - 1) == std::pair(auto_mlp_tile_tokens, num_heads)));
  BOOST_TEST((chosen_with(grouped - 1) == std::pair<std::int64_t, std::int64_t>(0, 1)));  // then they are no help
}

BOOST_AUTO_TEST_CASE(all_heads_stay_at_once_where_they_must) {
  const auto groups_of = [](const std::function<void(config::Config&)>& change, int num_ranks = 1) {
    config::Config config = *config_of(auto_mlp_tile_tokens, false, {});
    change(config);
    const auto fits = [](const config::ValidConfig& of) { return of->train.attention_head_groups.value_or(1) > 1; };
    return rank::choose_pieces(config::validate(config, num_ranks), fits).config->train.attention_head_groups.value();
  };
  BOOST_TEST(groups_of([](config::Config&) {}) == 2);
  using config::ActivationCheckpointing;
  BOOST_TEST(
      groups_of([](config::Config& c) { c.train.activation_checkpointing = ActivationCheckpointing::selective; }) == 1);
  BOOST_TEST(groups_of([](config::Config& c) { c.train.fp8 = config::Fp8::tensorwise; }) == 2);
  BOOST_TEST(groups_of([](config::Config& c) { c.model.qk_norm = c.model.qk_norm_all_heads = true; }) == 1);
  BOOST_TEST(groups_of([&](config::Config& c) { c.lora.use_peft = c.lora.use_dora = true; }) == 2);
  BOOST_TEST(groups_of([](config::Config& c) { c.parallel.tp_size = 2; }, 2) == 1);  // a head a rank
  BOOST_TEST(groups_of([](config::Config& c) { c.parallel.sp_size = 2; }, 2) == 2);
}

// Ranks that exchange heads need as many query heads of a group: four of the eight that two key/value heads have.
BOOST_AUTO_TEST_CASE(groups_have_heads_for_all_ranks_that_exchange_them) {
  config::Config config = *config_of(auto_mlp_tile_tokens, false, {});
  config.model.num_attention_heads = 8;
  config.model.num_key_value_heads = 4;
  config.parallel.sp_size = 4;
  config.parallel.sp_method = config::SpMethod::ulysses;
  const auto fits = [](const config::ValidConfig& of) { return of->train.attention_head_groups.value_or(1) > 1; };
  const rank::ChosenPieces chosen = rank::choose_pieces(config::validate(config, 4), fits);
  BOOST_TEST(chosen.config->train.attention_head_groups.value() == 2);
  BOOST_TEST(chosen.why.find("attention works on 2 of 4 key/value heads at a time, as the run") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
