// SPDX-License-Identifier: Apache-2.0
// What sp_method = auto takes on meshes, models and data that make one method or another the cheapest.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "sft/rank/sp_method.hpp"

namespace {

using namespace sft;
using config::SpMethod;
using rank::SpFacts;

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

/// Of as much memory as one likes.
bool fits_always(const config::ValidConfig& /*config*/) { return true; }

rank::ResolvedSpMethod resolve(const config::ValidConfig& config, const SpFacts& facts) {
  return rank::resolve_sp_method(config, facts, fits_always);
}

/// [parallel] once it is resolved for one document.
config::Parallel resolved(const config::ValidConfig& config, int ranks_per_node) {
  return resolve(config, one_document(ranks_per_node)).config->parallel;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sp_method)

BOOST_AUTO_TEST_CASE(many_ranks_of_a_node_exchange_heads) {
  const auto [config, why] = resolve(config_of(8, 1, 32, 8), one_document(8));
  BOOST_TEST((config->parallel.sp_method == SpMethod::ulysses));
  BOOST_TEST(
      (config->parallel.attention_method() == sequence::AttentionMethod{sequence::AttentionMethod::Keys::ring, 8}));
  BOOST_TEST(why.starts_with("auto: sends the least, "), why);
  for (const char* other : {"ring ", "all_gather ", "hybrid of 2 x 4 ", "hybrid of 4 x 2 "}) {
    BOOST_TEST(why.find(other) != std::string::npos, why);
  }
}

BOOST_AUTO_TEST_CASE(windows_leave_less_to_send) {
  const auto candidates_of = [](std::int64_t window) {
    const config::ValidConfig config =
        config_of(4, 1, 8, 2).with([&](config::Config& c) { c.model.sliding_window = window; });
    return rank::sp_candidates(config, one_document(4));
  };
  const std::vector<rank::SpCandidate> whole = candidates_of(0), windowed = candidates_of(300);
  BOOST_REQUIRE(whole.size() == windowed.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    BOOST_TEST((whole[i].method == windowed[i].method));
    // All chunks but the neighbours' stay where they are.
    const bool exchanges_heads = whole[i].method == SpMethod::ulysses || whole[i].method == SpMethod::hybrid;
    if (!exchanges_heads) BOOST_TEST(windowed[i].bytes < 0.4 * whole[i].bytes);
    if (whole[i].method == SpMethod::ulysses) BOOST_TEST(windowed[i].bytes == whole[i].bytes);
  }
}

BOOST_AUTO_TEST_CASE(heads_are_not_exchanged_between_nodes) {
  const config::Parallel parallel = resolved(config_of(8, 1, 32, 8), 4);
  BOOST_TEST((parallel.sp_method == SpMethod::hybrid));
  BOOST_TEST(parallel.ulysses_size == 4);
  // With tp_size = 2, neighbours in sp are two ranks apart.
  for (const rank::SpCandidate& candidate : rank::sp_candidates(config_of(8, 2, 32, 8), one_document(4))) {
    BOOST_TEST(candidate.ulysses_size <= 2);
  }
}

BOOST_AUTO_TEST_CASE(heads_that_do_not_divide_are_not_exchanged) {
  // A head of the whole row would be four of a rank.
  BOOST_TEST((resolved(config_of(4, 1, 7, 1), 4).sp_method == SpMethod::ring));
  BOOST_TEST((resolved(config_of(3, 1, 8, 4), 3).sp_method == SpMethod::ring));
}

BOOST_AUTO_TEST_CASE(few_keys_of_many_queries_are_sent_instead) {
  // 32 query heads would travel for the sake of one key/value head.
  BOOST_TEST((resolved(config_of(2, 1, 32, 1), 2).sp_method == SpMethod::ring));
}

BOOST_AUTO_TEST_CASE(short_documents_are_read_by_neighbours_alone) {
  const config::ValidConfig config = config_of(16, 1, 32, 8);
  const auto bytes_of_ring = [&](double document_tokens) {
    return rank::sp_candidates(config, {document_tokens, 32768, 16}).front().bytes;
  };
  const double all = bytes_of_ring(32768);
  BOOST_TEST(bytes_of_ring(100) < all * 3 / 15);
  BOOST_TEST(bytes_of_ring(4000) < all * 9 / 15);
}

BOOST_AUTO_TEST_CASE(what_is_computed_again_is_sent_again) {
  const auto bytes_of_ring = [](config::ActivationCheckpointing checkpointing) {
    const config::ValidConfig config = config_of(4, 1, 8, 8).with([=](config::Config& changed) {
      changed.train.activation_checkpointing = checkpointing;
      changed.model.num_hidden_layers = 8;
    });
    return rank::sp_candidates(config, one_document(4)).front().bytes;
  };
  // Keys and values twice in bf16 and their gradients in float32; and once more in seven of eight layers.
  const double kept = bytes_of_ring(config::ActivationCheckpointing::none);
  BOOST_TEST(bytes_of_ring(config::ActivationCheckpointing::full) == kept * (8.0 + 2.0 * 7 / 8) / 8.0,
             boost::test_tools::tolerance(1e-9));
}

// What a rank sends for one token in one layer of documents of one length, by formulas, in bf16.

/// Ranks of a ring that see keys of a rank: of short documents those alone that hold the neighbours of its two chunks.
double num_readers(int ring_size, const SpFacts& facts) {
  const double chunk_tokens = facts.micro_batch_tokens / (2.0 * ring_size);
  return std::min(ring_size - 1.0, 2.0 * std::ceil(facts.document_tokens / chunk_tokens));
}

/// Keys and values, in both passes, and their gradients back in float32. Of the zigzag's pairs of ranks one in two
/// needs only one of two chunks.
double bytes_of_keys(double kv_heads, double head_dim, double readers) {
  return 0.75 * readers * 2.0 * kv_heads * head_dim * (2 * 2.0 + 4.0);
}

struct Formulas {
  const config::Config& config;
  const SpFacts& facts;

  [[nodiscard]] std::int64_t q_heads() const { return config.model.num_attention_heads / config.parallel.tp_size; }
  [[nodiscard]] double bytes(const rank::SpCandidate& candidate) const {
    const int size = candidate.ulysses_size;
    const std::int64_t kv_heads = std::max<std::int64_t>(1, config.model.num_key_value_heads / config.parallel.tp_size);
    const auto head_dim = static_cast<double>(config.model.head_dim);
    const double readers = num_readers(config.parallel.sp_size / size, facts);
    if (size == 1) return bytes_of_keys(static_cast<double>(kv_heads), head_dim, readers);
    const std::int64_t heads = q_heads() / size, queries_per_key = q_heads() / kv_heads;
    const std::int64_t shared = std::gcd(heads, queries_per_key);
    const auto q = static_cast<double>(heads), kv = static_cast<double>(heads / shared);
    const double dkv_bytes = shared < queries_per_key ? 4.0 : 2.0;
    // Queries, keys and values, and the output back; with dout a second time, and the gradients back.
    const double exchanged = (2.0 * (q + 2.0 * kv) + q + 2.0 * q) * 2.0 + 2.0 * kv * dkv_bytes;
    return (size - 1) * head_dim * exchanged + bytes_of_keys(size * kv, head_dim, readers);
  }
  /// What these leave out: a number of float32 for each query that goes with its output.
  [[nodiscard]] double bytes_of_numbers(const rank::SpCandidate& candidate) const {
    return (candidate.ulysses_size - 1) * 4.0 * static_cast<double>(q_heads() / candidate.ulysses_size);
  }
};

/// Calls visit(config, facts) for meshes and models of many kinds, on documents of this share of a row.
template <class Visit>
void for_each_mesh(double share_of_row, const Visit& visit) {
  for (const int sp_size : {2, 3, 4, 6, 8, 12, 16}) {
    for (const int tp_size : {1, 2}) {
      for (const auto& [q_heads, kv_heads] : {std::pair{32, 32}, {32, 8}, {32, 1}, {24, 8}, {16, 2}, {12, 4}}) {
        constexpr double row_tokens = 48.0 * 1024;
        visit(config_of(sp_size, tp_size, q_heads, kv_heads),
              SpFacts{share_of_row * row_tokens, row_tokens, sp_size * tp_size});
      }
    }
  }
}

/// What the formulas would take.
rank::SpCandidate best_by_formulas(const config::Config& config, const SpFacts& facts,
                                   const std::vector<rank::SpCandidate>& candidates) {
  const auto bytes = [&](const rank::SpCandidate& candidate) { return Formulas{config, facts}.bytes(candidate); };
  return *std::ranges::min_element(candidates, {}, bytes);
}

bool is_chosen(const rank::SpCandidate& candidate, const config::ValidConfig& config, const SpFacts& facts) {
  const config::Parallel chosen = resolve(config, facts).config->parallel;
  return chosen.sp_method == candidate.method &&
         (candidate.method != SpMethod::hybrid || chosen.ulysses_size == candidate.ulysses_size);
}

BOOST_AUTO_TEST_CASE(of_one_document_every_method_sends_what_formulas_say) {
  int num_meshes = 0;
  for_each_mesh(1.0, [&](const config::ValidConfig& config, const SpFacts& facts) {
    const std::vector<rank::SpCandidate> candidates = rank::sp_candidates(config, facts);
    const Formulas formulas{config, facts};
    for (const rank::SpCandidate& candidate : candidates) {
      BOOST_TEST(candidate.bytes == formulas.bytes(candidate) + formulas.bytes_of_numbers(candidate),
                 boost::test_tools::tolerance(1e-9));
    }
    BOOST_TEST(is_chosen(best_by_formulas(config, facts, candidates), config, facts));
    ++num_meshes;
  });
  BOOST_TEST(num_meshes == 84);
}

// Formulas take it that each chunk needs whole documents of its two neighbours. The plan knows where documents end, and
// so which chunks a rank sees: its bytes are fewer, and so keys are sent more often in place of heads.
BOOST_AUTO_TEST_CASE(of_short_documents_formulas_say_too_much) {
  for (const double share : {0.5, 0.25, 0.1, 0.02, 0.001}) {
    int num_same = 0, num_ring = 0;
    double most = 0;
    for_each_mesh(share, [&](const config::ValidConfig& config, const SpFacts& facts) {
      const std::vector<rank::SpCandidate> candidates = rank::sp_candidates(config, facts);
      const Formulas formulas{config, facts};
      for (const rank::SpCandidate& candidate : candidates) {
        const double said = formulas.bytes(candidate) + formulas.bytes_of_numbers(candidate);
        BOOST_TEST(candidate.bytes > 0.0);
        most = std::max(most, candidate.bytes / said);
      }
      const rank::SpCandidate best = best_by_formulas(config, facts, candidates);
      const bool is_same = is_chosen(best, config, facts);
      num_same += is_same ? 1 : 0;
      const rank::SpCandidate chosen = *std::ranges::min_element(candidates, {}, &rank::SpCandidate::bytes);
      num_ring += !is_same && chosen.method == SpMethod::ring ? 1 : 0;
    });
    BOOST_TEST_MESSAGE("documents of " << share << " of a row: " << num_same << " of 84 choices are those of formulas, "
                                       << num_ring << " others ring; most " << most);
    BOOST_TEST(most <= 1.0 + 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(a_choice_takes_little_time) {
  const config::ValidConfig config = config_of(64, 1, 64, 8).with([](config::Config& changed) {
    changed.model.num_hidden_layers = 80;
    changed.train.activation_checkpointing = config::ActivationCheckpointing::full;
  });
  const auto begin = std::chrono::steady_clock::now();
  (void)resolve(config, {500, 128 * 1024, 64});
  const double time_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  BOOST_TEST_MESSAGE("the choice among 64 ranks took " << 1e3 * time_s << " ms");
  BOOST_TEST(time_s < 5.0);
}

BOOST_AUTO_TEST_CASE(hybrid_takes_as_many_neighbours_as_fit) {
  const auto [chosen, why] = resolve(config_of(12, 1, 8, 2, SpMethod::hybrid), one_document(12));
  BOOST_TEST(!why.empty());
  BOOST_TEST(chosen->parallel.ulysses_size == 4);
  const auto [given, no_reason] = resolve(config_of(12, 1, 8, 2, SpMethod::hybrid, 2), one_document(12));
  BOOST_TEST(no_reason.empty());
  BOOST_TEST(given->parallel.ulysses_size == 2);
}

BOOST_AUTO_TEST_CASE(heads_are_exchanged_of_a_group_of_them) {
  const config::ValidConfig in_groups = config_of(8, 1, 32, 8).with([](config::Config& changed) {
    changed.train.activation_checkpointing = config::ActivationCheckpointing::full;
    changed.train.attention_head_groups = 8;
  });
  for (const rank::SpCandidate& candidate : rank::sp_candidates(in_groups, one_document(8))) {
    BOOST_TEST(4 % candidate.ulysses_size == 0);             // the query heads of a group
    BOOST_TEST((candidate.method != SpMethod::all_gather));  // a head of the row: 8 of a rank's tokens
  }
  const config::Parallel hybrid =
      resolved(in_groups.with([](config::Config& changed) { changed.parallel.sp_method = SpMethod::hybrid; }), 8);
  BOOST_TEST(hybrid.ulysses_size == 4);
}

BOOST_AUTO_TEST_CASE(one_rank_has_nothing_to_choose) {
  const auto [config, why] = resolve(config_of(1, 1, 8, 2), one_document(1));
  BOOST_TEST(why.empty());
  BOOST_TEST((config->parallel.sp_method == SpMethod::ring));
}

BOOST_AUTO_TEST_SUITE_END()
