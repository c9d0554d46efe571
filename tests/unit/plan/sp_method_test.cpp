// SPDX-License-Identifier: Apache-2.0
// What sp_method = auto takes on meshes, models and data that make one method or another the cheapest.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <utility>

#include "sft/plan/sp_method.hpp"

namespace {

using namespace sft;
using config::SpMethod;
using plan::SpFacts;

config::ValidConfig config_of(int sp_size, int tp_size, std::int64_t q_heads, std::int64_t kv_heads,
                              SpMethod method = SpMethod::automatic, int ulysses_size = 0) {
  config::Config config;
  config.model.hidden_size = config.model.intermediate_size = config.model.vocab_size = 64;
  config.model.num_hidden_layers = 1;
  config.model.num_attention_heads = q_heads;
  config.model.num_key_value_heads = kv_heads;
  config.model.head_dim = 64;
  config.data.train_files = {"none"};
  config.parallel.sp_size = sp_size;
  config.parallel.tp_size = tp_size;
  config.parallel.sp_method = method;
  config.parallel.ulysses_size = ulysses_size;
  return config::validate(std::move(config), sp_size * tp_size);
}

/// One document of 4096 tokens.
SpFacts one_document(int ranks_per_node) { return {4096, 4096, ranks_per_node}; }

/// [parallel] once it is resolved for one document.
config::Parallel resolved(const config::ValidConfig& config, int ranks_per_node) {
  return plan::resolve_sp_method(config, one_document(ranks_per_node)).config->parallel;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sp_method)

BOOST_AUTO_TEST_CASE(many_ranks_of_a_node_exchange_heads) {
  const auto [config, why] = plan::resolve_sp_method(config_of(8, 1, 32, 8), one_document(8));
  BOOST_TEST((config->parallel.sp_method == SpMethod::ulysses));
  BOOST_TEST(
      (config->parallel.attention_method() == sequence::AttentionMethod{sequence::AttentionMethod::Keys::ring, 8}));
  BOOST_TEST(why.starts_with("auto: sends the least, "), why);
  for (const char* other : {"ring ", "all_gather ", "hybrid of 2 x 4 ", "hybrid of 4 x 2 "}) {
    BOOST_TEST(why.find(other) != std::string::npos, why);
  }
}

BOOST_AUTO_TEST_CASE(heads_are_not_exchanged_between_nodes) {
  const config::Parallel parallel = resolved(config_of(8, 1, 32, 8), 4);
  BOOST_TEST((parallel.sp_method == SpMethod::hybrid));
  BOOST_TEST(parallel.ulysses_size == 4);
  // With tp_size = 2, neighbours in sp are two ranks apart.
  for (const plan::SpCandidate& candidate : plan::sp_candidates(config_of(8, 2, 32, 8), one_document(4))) {
    BOOST_TEST(candidate.ulysses_size <= 2);
  }
}

BOOST_AUTO_TEST_CASE(heads_that_do_not_divide_are_not_exchanged) {
  // A head of the whole row would be four of a rank.
  BOOST_TEST((resolved(config_of(4, 1, 7, 1), 4).sp_method == SpMethod::ring));
  BOOST_TEST((resolved(config_of(3, 1, 8, 4), 3).sp_method == SpMethod::all_gather));
}

BOOST_AUTO_TEST_CASE(few_keys_of_many_queries_are_sent_instead) {
  // 32 query heads would travel for the sake of one key/value head.
  BOOST_TEST((resolved(config_of(2, 1, 32, 1), 2).sp_method == SpMethod::all_gather));
}

BOOST_AUTO_TEST_CASE(short_documents_are_read_by_neighbours_alone) {
  const config::ValidConfig config = config_of(16, 1, 32, 8);
  const auto bytes_of_ring = [&](double document_tokens) {
    return plan::sp_candidates(config, {document_tokens, 32768, 16}).front().bytes;
  };
  BOOST_TEST(bytes_of_ring(100) == bytes_of_ring(32768) * 2 / 15, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(bytes_of_ring(4000) == bytes_of_ring(32768) * 8 / 15, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(hybrid_takes_as_many_neighbours_as_fit) {
  const auto [chosen, why] = plan::resolve_sp_method(config_of(12, 1, 8, 2, SpMethod::hybrid), one_document(12));
  BOOST_TEST(!why.empty());
  BOOST_TEST(chosen->parallel.ulysses_size == 4);
  const auto [given, no_reason] =
      plan::resolve_sp_method(config_of(12, 1, 8, 2, SpMethod::hybrid, 2), one_document(12));
  BOOST_TEST(no_reason.empty());
  BOOST_TEST(given->parallel.ulysses_size == 2);
}

BOOST_AUTO_TEST_CASE(one_rank_has_nothing_to_choose) {
  const auto [config, why] = plan::resolve_sp_method(config_of(1, 1, 8, 2), one_document(1));
  BOOST_TEST(why.empty());
  BOOST_TEST((config->parallel.sp_method == SpMethod::ring));
}

BOOST_AUTO_TEST_SUITE_END()
