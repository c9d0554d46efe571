// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <string>

#include "apps/generate/answer_printer.hpp"

using sft::apps::settled_length;

BOOST_AUTO_TEST_CASE(characters_that_are_not_whole_wait) {
  BOOST_TEST(settled_length("") == 0U);
  BOOST_TEST(settled_length("abc") == 3U);
  const std::string text = "a\u00e9\u6f22\U0001F600";  // of 1, 2, 3 and 4 bytes
  const std::size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};
  for (std::size_t n = 0; n <= text.size(); ++n) BOOST_TEST(settled_length(text.substr(0, n)) == ends[n]);
}

BOOST_AUTO_TEST_CASE(marks_of_unknown_characters_wait) {
  BOOST_TEST(settled_length("a\uFFFD\uFFFD") == 1U);
  BOOST_TEST(settled_length("\uFFFDa") == 4U);
}
