// SPDX-License-Identifier: Apache-2.0
// Codes of experts' gradients lie in the memory of their activations: those of a piece must find room there, and leave
// the activations of the next piece alone.
#include <boost/test/unit_test.hpp>
#include <random>
#include <utility>
#include <vector>

#include "sft/model/layers/expert_sizes.hpp"
#include "sft/ops/fp8.hpp"

namespace {

using namespace sft;
using parallel::ExpertRoute;

/// Of a rank of `ep_size` with some experts, and many or few tokens.
model::ExpertSizes sizes_of(int ep_size, std::int64_t alignment) {
  model::ExpertSizes s{};
  s.tokens = 37;
  s.count = 10;
  s.choices = 3;
  s.columns = 24;
  s.alignment = alignment;
  s.ep_size = ep_size;
  s.keeps_codes = true;
  return s;
}

/// Rows of each expert of this rank: as many as there is memory for, shared out at random.
std::vector<std::int64_t> counts_of(const model::ExpertSizes& s, std::mt19937& random) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(s.local_count()));
  std::int64_t left = s.arriving_rows();
  std::uniform_int_distribution<std::size_t> any(0, counts.size() - 1);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t more = s.alignment == 1 ? 1 + i % 5 : s.alignment;
    if (more > left) break;
    counts[any(random)] += more;
    left -= more;
  }
  return counts;
}

BOOST_AUTO_TEST_SUITE(expert_sizes)

BOOST_AUTO_TEST_CASE(codes_of_a_piece_find_room_among_its_activations) {
  std::mt19937 random(1);
  for (const auto& [ep_size, alignment] : {std::pair{1, 1}, {1, 16}, {2, 1}, {2, 16}, {5, 1}}) {
    const model::ExpertSizes s = sizes_of(ep_size, alignment);
    const std::int64_t num_pieces = ep_size == 1 ? 1 : ExpertRoute::max_pieces;
    for (int trial = 0; trial < 100; ++trial) {
      const std::vector<std::int64_t> counts = counts_of(s, random);
      std::int64_t row = 0;
      for (std::int64_t p = 0; p < num_pieces; ++p) {
        const std::int64_t first = s.local_count() * p / num_pieces, end = s.local_count() * (p + 1) / num_pieces;
        std::int64_t rows = 0, code_terms = 0;
        for (std::int64_t e = first; e < end; ++e) {
          rows += counts[static_cast<std::size_t>(e)];
          code_terms += ops::fp8_line_codes(counts[static_cast<std::size_t>(e)]);
        }
        // In bf16 a row of F activations has the bytes of one term in all lines of 2F codes.
        const std::int64_t begin = s.act_begin(row, first, p), next = s.act_begin(row + rows, end, p + 1);
        BOOST_REQUIRE_GE(next - begin, code_terms);
        BOOST_REQUIRE_GE(next - begin, rows);
        BOOST_REQUIRE_LE(next, s.act_rows());
        row += rows;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(activations_have_no_room_for_codes_where_none_are_kept) {
  model::ExpertSizes s = sizes_of(2, 1);
  BOOST_TEST(s.act_rows() > s.arriving_rows());
  s.keeps_codes = false;
  BOOST_TEST(s.act_rows() == s.arriving_rows());
  BOOST_TEST(s.act_begin(7, 3, 1) == 7);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
