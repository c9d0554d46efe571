// SPDX-License-Identifier: Apache-2.0
// What sp_method = auto and ulysses_size = auto take where the memory is not enough for the first choice: of all ways
// that fit the one that sends least.

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "sft/rank/memory.hpp"
#include "sft/rank/sp_method.hpp"

namespace {

using namespace sft;
using config::SpMethod;
using rank::SpChoice;

constexpr int sp_size = 8;
constexpr std::int64_t row_tokens = std::int64_t{1} << 18;

/// A row over 8 ranks that could all exchange the heads of a layer.
config::ValidConfig config_of(SpMethod method, std::optional<std::int64_t> head_groups, int ulysses_size = 0) {
  config::Config config;
  config.model.hidden_size = config.model.intermediate_size = config.model.vocab_size = 64;
  config.model.num_hidden_layers = 2;
  config.model.num_attention_heads = 32;
  config.model.num_key_value_heads = 8;
  config.model.head_dim = 64;
  config.data.train_files = {"none"};
  config.parallel.sp_size = sp_size;
  config.parallel.sp_method = method;
  config.parallel.ulysses_size = ulysses_size;
  config.train.per_device_train_batch_size = 1;
  config.train.activation_checkpointing = config::ActivationCheckpointing::full;
  config.train.mlp_tile_tokens = 0;
  config.train.attention_head_groups = head_groups;
  return config::validate(std::move(config), sp_size);
}

rank::SpFacts one_document(std::optional<SpChoice> saved = {}) {
  return {.document_tokens = row_tokens, .micro_batch_tokens = row_tokens, .ranks_per_node = sp_size, .saved = saved};
}

std::size_t needed_bytes(const config::ValidConfig& config) {
  const rows::MicroBatchLimits limits{.tokens = row_tokens, .document_tokens = row_tokens};
  return rank::plan_ledger(config, limits, mesh::Place(config, 0), {}, 0).total_bytes();
}

std::size_t needed_bytes(SpMethod method, std::int64_t head_groups) {
  return needed_bytes(config_of(method, head_groups));
}

rank::ResolvedSpMethod taken(const config::ValidConfig& config, std::size_t memory_bytes,
                             std::optional<SpChoice> saved = {}) {
  return rank::resolve_sp_method(config, one_document(saved),
                                 [&](const config::ValidConfig& of) { return needed_bytes(of) <= memory_bytes; });
}

SpChoice choice_of(const config::Parallel& parallel) {
  return {parallel.sp_method, parallel.attention_method().ulysses_size};
}

}  // namespace

namespace sft::rank {

std::ostream& operator<<(std::ostream& out, const SpChoice& choice) {
  return out << static_cast<int>(choice.method) << " of " << choice.ulysses_size;
}

}  // namespace sft::rank

BOOST_AUTO_TEST_SUITE(sp_memory)

// Of a ring in groups of heads a rank needs less than of any exchange: found without being asked for by name.
BOOST_AUTO_TEST_CASE(auto_takes_the_ring_where_only_its_groups_of_heads_fit) {
  const std::size_t ring = needed_bytes(SpMethod::ring, 8), ulysses = needed_bytes(SpMethod::ulysses, 4);
  BOOST_TEST_REQUIRE(ring < ulysses);
  const auto [config, why] = taken(config_of(SpMethod::automatic, {}), ring);
  BOOST_TEST((config->parallel.sp_method == SpMethod::ring), why);
  BOOST_TEST(!config->train.attention_head_groups.has_value());  // whose choice comes behind
  BOOST_TEST(why.starts_with("auto: sends the least of what fits in memory, "), why);
  BOOST_TEST(why.find("ulysses ") != std::string::npos, why);
  BOOST_TEST(why.ends_with(" does not fit"), why);
}

BOOST_AUTO_TEST_CASE(the_first_choice_stays_where_it_fits_or_nothing_does) {
  const config::ValidConfig open = config_of(SpMethod::automatic, {});
  const std::size_t whole = needed_bytes(SpMethod::ulysses, 1);
  int asked = 0;
  const auto first = rank::resolve_sp_method(open, one_document(), [&](const config::ValidConfig& of) {
    ++asked;
    return needed_bytes(of) <= whole;
  });
  BOOST_TEST((first.config->parallel.sp_method == SpMethod::ulysses));
  BOOST_TEST(first.why.starts_with("auto: sends the least, "), first.why);
  BOOST_TEST(asked == 1);
  const auto none = taken(open, 0);
  BOOST_TEST((none.config->parallel.sp_method == SpMethod::ulysses));
  BOOST_TEST(none.why.ends_with("; none fits in memory"), none.why);
}

/// What a way sends with so many groups, by itself. Gathered keys are as many as those of a ring.
double sent_bytes(SpChoice choice, std::int64_t head_groups) {
  if (choice.method == SpMethod::all_gather) choice.method = SpMethod::ring;
  for (const rank::SpCandidate& candidate :
       rank::sp_candidates(config_of(SpMethod::automatic, head_groups), one_document())) {
    if (SpChoice{candidate.method, candidate.ulysses_size} == choice) return candidate.bytes;
  }
  return -1;
}

// By every memory from that of the first choice down to where nothing fits.
BOOST_AUTO_TEST_CASE(of_all_that_fits_the_one_that_sends_least_is_taken) {
  const config::ValidConfig open = config_of(SpMethod::automatic, {});
  const std::size_t most = needed_bytes(SpMethod::ulysses, 1), least = needed_bytes(SpMethod::ring, 8);
  std::map<SpMethod, int> seen;
  for (int i = 0; i <= 20; ++i) {
    const std::size_t memory_bytes = least + (most - least) / 20 * i;
    const auto fits = [&](const config::ValidConfig& of) { return needed_bytes(of) <= memory_bytes; };
    double best = -1;
    for (const auto& candidate : rank::sp_candidates(open, one_document())) {
      const int size = candidate.method == SpMethod::hybrid ? candidate.ulysses_size : 0;
      const auto chosen = rank::fit_in_pieces(config_of(candidate.method, {}, size), fits);
      if (!chosen) continue;
      const double bytes = sent_bytes({candidate.method, candidate.ulysses_size},
                                      chosen->config->train.attention_head_groups.value_or(1));
      BOOST_TEST_REQUIRE(bytes > 0.0);
      if (best < 0 || bytes < best) best = bytes;
    }
    const auto [config, why] = taken(open, memory_bytes);
    const auto chosen = rank::fit_in_pieces(config, fits);
    BOOST_TEST_REQUIRE(chosen.has_value(), why);
    BOOST_TEST(sent_bytes(choice_of(config->parallel), chosen->config->train.attention_head_groups.value_or(1)) == best,
               why);
    ++seen[config->parallel.sp_method];
  }
  BOOST_TEST(seen.size() >= 2U);
}

BOOST_AUTO_TEST_CASE(hybrid_takes_the_most_neighbours_that_fit) {
  const config::ValidConfig open = config_of(SpMethod::hybrid, 1);
  std::map<int, std::size_t> needed;
  for (const int size : {1, 2, 4, 8}) needed[size] = needed_bytes(config_of(SpMethod::hybrid, 1, size));
  for (const std::size_t memory_bytes : {needed[1], needed[2], needed[4], needed[8]}) {
    int expected = 8;
    for (const int size : {8, 4, 2, 1}) {
      if (needed[size] > memory_bytes) continue;
      expected = size;
      break;
    }
    const auto [config, why] = taken(open, memory_bytes);
    BOOST_TEST(config->parallel.ulysses_size == expected, why);
    BOOST_TEST((why.find("of those that fit in memory") != std::string::npos) == (expected < 8), why);
  }
  BOOST_TEST(taken(open, 0).config->parallel.ulysses_size == 8);
}

BOOST_AUTO_TEST_CASE(a_resumed_run_goes_on_with_the_method_that_it_had) {
  const config::ValidConfig open = config_of(SpMethod::automatic, {});
  const std::size_t plenty = std::size_t{1} << 50;
  for (const SpChoice saved :
       {SpChoice{SpMethod::ring, 1}, {SpMethod::all_gather, 1}, {SpMethod::hybrid, 4}, {SpMethod::ulysses, 8}}) {
    const auto [config, why] = taken(open, plenty, saved);
    BOOST_TEST(choice_of(config->parallel) == saved);
    BOOST_TEST(why == "auto: as in the checkpoint that the run goes on from");
  }
  // Without the memory for it, or by a method that auto does not take
  const std::size_t ring = needed_bytes(SpMethod::ring, 8);
  BOOST_TEST((taken(open, ring, SpChoice{SpMethod::ulysses, 8}).config->parallel.sp_method == SpMethod::ring));
  BOOST_TEST((taken(open, plenty, SpChoice{SpMethod::hybrid, 3}).config->parallel.sp_method == SpMethod::ulysses));
  // What is given stays
  BOOST_TEST((taken(config_of(SpMethod::ring, {}), plenty, SpChoice{SpMethod::ulysses, 8}).config->parallel.sp_method ==
              SpMethod::ring));
}

BOOST_AUTO_TEST_CASE(a_method_is_that_of_the_checkpoint_on_its_mesh_alone) {
  const config::Parallel now = config_of(SpMethod::automatic, {})->parallel;
  config::Parallel then = config_of(SpMethod::hybrid, 1, 4)->parallel;
  BOOST_TEST((rank::saved_sp(now, then) == SpChoice{SpMethod::hybrid, 4}));
  then.sp_method = SpMethod::automatic;
  BOOST_TEST(!rank::saved_sp(now, then).has_value());
  then.sp_method = SpMethod::ring;
  BOOST_TEST((rank::saved_sp(now, then) == SpChoice{SpMethod::ring, 1}));
  then.sp_size = 4;
  BOOST_TEST(!rank::saved_sp(now, then).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
