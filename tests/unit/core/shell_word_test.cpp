// SPDX-License-Identifier: Apache-2.0
#include "sft/core/shell_word.hpp"

#include <boost/test/unit_test.hpp>

using namespace sft;

BOOST_AUTO_TEST_SUITE(shell_words)

BOOST_AUTO_TEST_CASE(words_are_quoted_where_a_shell_needs_it) {
  BOOST_TEST(shell_word("output/run-1.5/checkpoint-000100") == "output/run-1.5/checkpoint-000100");
  BOOST_TEST(shell_word("my runs") == "'my runs'");
  BOOST_TEST(shell_word("it's $HOME") == "'it'\\''s $HOME'");
  BOOST_TEST(shell_word("") == "''");
}

BOOST_AUTO_TEST_SUITE_END()
