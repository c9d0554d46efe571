// SPDX-License-Identifier: Apache-2.0
#include "sft/io/hash.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

using sft::io::ContentHash;
using sft::io::ElementSum;

BOOST_AUTO_TEST_SUITE(hash)

BOOST_AUTO_TEST_CASE(the_hash_is_xxh3_of_128_bits) {
  ContentHash hash;
  BOOST_TEST(hash.text() == "xxh128:99aa06d3014798d86001c324468d497f");  // of no bytes, as `xxhsum -H2` prints it
  hash.add("abc", 3);
  BOOST_TEST(hash.text() == "xxh128:06b05ab6733a618578af5f94892f3950");
}

BOOST_AUTO_TEST_CASE(the_pieces_do_not_matter_but_the_order_does) {
  const std::vector<std::int32_t> values = {1, 2, 3};
  ContentHash whole, pieces, turned;
  whole.add(std::span(values));
  pieces.add(std::span(values).first(1));
  pieces.add(std::span(values).last(2));
  turned.add(std::span(values).last(2));
  turned.add(std::span(values).first(1));
  BOOST_TEST(whole.text() == pieces.text());
  BOOST_TEST(whole.text() != turned.text());
}

BOOST_AUTO_TEST_CASE(texts_end_where_they_end) {
  ContentHash one, other;
  one.add(std::string("ab"));
  one.add(std::string("c"));
  other.add(std::string("a"));
  other.add(std::string("bc"));
  BOOST_TEST(one.text() != other.text());
}

BOOST_AUTO_TEST_CASE(a_sum_of_elements_knows_each_number_and_its_place_and_no_order) {
  const std::vector<float> values = {1.0F, 2.0F, 2.0F, 0.0F, -0.0F, 3.5F};
  const auto sum_of = [](const std::string& tensor, std::int64_t first, std::vector<float> numbers) {
    ElementSum sum;
    sum.add(tensor, first, numbers);
    return sum.value();
  };
  const std::uint64_t whole = sum_of("q", 0, values);
  ElementSum parts;  // of two ranks, one of which reads backwards
  parts.add("q", 4, std::span(values).subspan(4));
  parts.add("q", 2, std::span(values).subspan(2, 2));
  parts.add(sum_of("q", 0, {1.0F, 2.0F}));
  BOOST_TEST(parts.value() == whole);
  BOOST_TEST(parts.text().starts_with("xxh3sum:"));
  BOOST_TEST(parts.text().size() == 24U);
  BOOST_TEST(sum_of("k", 0, values) != whole);
  BOOST_TEST(sum_of("q", 1, values) != whole);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<float> other = values;
    other[i] *= -1.0F;
    BOOST_TEST(sum_of("q", 0, other) != whole);
  }
  std::vector<float> turned = values;
  std::swap(turned[0], turned[1]);
  BOOST_TEST(sum_of("q", 0, turned) != whole);
}

BOOST_AUTO_TEST_SUITE_END()
