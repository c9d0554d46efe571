// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/common/json_text.hpp"
#include "sft/core/log.hpp"

using sft::printable;

BOOST_AUTO_TEST_CASE(text_stays) {
  BOOST_TEST(printable("plain, gr\u00fcn, \u6f22\u5b57, \U0001F600", false) ==
             "plain, gr\u00fcn, \u6f22\u5b57, \U0001F600");
}

BOOST_AUTO_TEST_CASE(nothing_reaches_the_terminal_as_a_command) {
  BOOST_TEST(printable("\x1b[2J\a\x7f", false) == "\\x1b[2J\\x07\\x7f");
  BOOST_TEST(printable("\u009b", false) == "\\xc2\\x9b");  // a control character of the second table
  BOOST_TEST(printable(std::string("\0", 1), false) == "\\x00");
}

BOOST_AUTO_TEST_CASE(stray_bytes_are_shown) {
  BOOST_TEST(printable("a\xff"
                       "b\x80",
                       false) ==
             "a\\xff"
             "b\\x80");
  BOOST_TEST(printable("cut \xe6\xbc", false) == "cut \\xe6\\xbc");
}

BOOST_AUTO_TEST_CASE(newlines_as_asked) {
  BOOST_TEST(printable("a\nb", true) == "a\nb");
  BOOST_TEST(printable("a\nb", false) == "a\\nb");
}

BOOST_AUTO_TEST_CASE(tabs_are_layout) {
  BOOST_TEST(printable("a\tb", true) == "a\tb");
  BOOST_TEST(printable("a\tb", false) == "a\\x09b");
}

BOOST_AUTO_TEST_CASE(json_is_printable_and_reads_back) {
  const nlohmann::ordered_json value = {{"name", "gr\u00fcn \x1b[2J\x7f\u0080\u009f\u00a0"}};
  const std::string text = sft::apps::json_text(value, -1);
  BOOST_TEST(printable(text, false) == text);
  BOOST_TEST((nlohmann::ordered_json::parse(text) == value));
  BOOST_TEST(sft::apps::json_text({{"name", "a\xff"}}, -1) == "{\"name\":\"a\ufffd\"}");
}
