// SPDX-License-Identifier: Apache-2.0
#include "sft/io/hash.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

using sft::io::ContentHash;

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

BOOST_AUTO_TEST_SUITE_END()
