// SPDX-License-Identifier: Apache-2.0
// Which spans of a plan are rectangles for a library.
#include "ops/cuda/cudnn/rectangles.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace sft::ops::cuda::cudnn {

namespace {

using Spans = std::vector<sequence::AttentionSpan>;

/// Every query sees every key.
sequence::AttentionSpan full(std::int64_t q_begin, std::int64_t q_len, std::int64_t k_begin, std::int64_t k_len,
                             std::int64_t window = 0) {
  return {q_begin, q_len, k_begin, k_len, k_len, 0, window};
}

/// Rectangles as "q_begin+q_len x k_begin+k_len", and how many spans are left.
std::string split(const Spans& spans) {
  const SplitSpans parts = split_rectangles(spans);
  std::string text;
  for (const Rectangle& r : parts.rectangles) {
    text += std::to_string(r.q_begin) + "+" + std::to_string(r.q_len) + " x " + std::to_string(r.k_begin) + "+" +
            std::to_string(r.k_len) + ", ";
  }
  return text + std::to_string(parts.rest.size()) + " left";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rectangles_of_plans)

BOOST_AUTO_TEST_CASE(neighbours_are_one) {
  BOOST_TEST(split({full(0, 200, 0, 300)}) == "0+200 x 0+300, 0 left");
  // Both chunks of the queries see the first chunk of another rank's keys, or the second sees both.
  BOOST_TEST(split({full(0, 200, 0, 200), full(200, 200, 0, 200)}) == "0+400 x 0+200, 0 left");
  BOOST_TEST(split({full(200, 200, 200, 200), full(200, 200, 0, 200)}) == "200+200 x 0+400, 0 left");
  BOOST_TEST(split({full(0, 200, 0, 200), full(201, 200, 0, 200)}) == "0+200 x 0+200, 201+200 x 0+200, 0 left");
  BOOST_TEST(split({full(0, 200, 0, 200), full(200, 200, 0, 201)}) == "200+200 x 0+201, 0+200 x 0+200, 0 left");
}

BOOST_AUTO_TEST_CASE(what_is_narrow_or_has_a_border_is_left) {
  BOOST_TEST(split({}) == "0 left");
  BOOST_TEST(split({full(0, 127, 0, 5000), full(127, 5000, 0, 127)}) == "2 left");
  BOOST_TEST(split({full(0, 64, 0, 300), full(64, 64, 0, 300)}) == "0+128 x 0+300, 0 left");
  const sequence::AttentionSpan square{0, 300, 0, 300, 0, 0};
  BOOST_TEST(split({square}) == "1 left");
  BOOST_TEST(split({full(300, 200, 0, 300, 499)}) == "1 left");  // the last query does not see the first key
  BOOST_TEST(split({full(300, 200, 0, 300, 500)}) == "300+200 x 0+300, 0 left");
}

BOOST_AUTO_TEST_CASE(the_largest_are_taken) {
  Spans spans;
  for (std::int64_t i = 0; i < 6; ++i) spans.push_back(full(1000 * i, 200 + i, 1000 * i, 200));
  const SplitSpans parts = split_rectangles(spans);
  BOOST_TEST(parts.rectangles.size() == max_rectangles);
  for (const Rectangle& rectangle : parts.rectangles) BOOST_TEST(rectangle.q_len >= 202);
  BOOST_TEST((parts.rest == Spans{spans[1], spans[0]}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::cuda::cudnn
