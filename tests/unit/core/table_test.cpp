// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <regex>
#include <string>

#include "sft/core/labelled_lines.hpp"
#include "sft/core/log.hpp"
#include "sft/core/status_line.hpp"
#include "sft/core/table.hpp"

using namespace sft;

BOOST_AUTO_TEST_CASE(columns_are_as_wide_as_their_widest_cell) {
  Table table({Align::left, Align::right}, 2);
  table.add({"rows", "7"});
  table.add_rule();
  table.add({"max_length", "128"});
  BOOST_TEST(table.text() == "  rows          7\n  ---------------\n  max_length  128\n");
}

BOOST_AUTO_TEST_CASE(no_blanks_end_a_line) {
  Table table({Align::left, Align::left});
  table.add({"one", ""});
  table.add({"", "two"});
  BOOST_TEST(table.text() == "one\n     two\n");
}

BOOST_AUTO_TEST_CASE(long_texts_are_broken_between_words) {
  LabelledLines lines(24);
  lines.add("model", "1.2 M parameters, 6 layers");
  lines.add("nothing", "");
  lines.add("origin", "/a/path/that/is/longer/than/a/line and more");
  BOOST_TEST(lines.text() ==
             "  model   1.2 M\n"
             "          parameters, 6\n"
             "          layers\n"
             "  origin  /a/path/that/is/longer/than/a/line\n"
             "          and more\n");
}

BOOST_AUTO_TEST_CASE(events_have_the_time_where_it_is_asked_for) {
  BOOST_TEST(log_time().empty());
  set_log_times(true);
  const std::string time = log_time();
  set_log_times(false);
  BOOST_TEST(std::regex_match(time, std::regex("20[0-9]{2}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9] ")),
             time);
}

BOOST_AUTO_TEST_CASE(a_status_line_is_redrawn_and_taken_away) {
  for (const bool is_visible : {true, false}) {
    std::FILE* file = std::tmpfile();
    BOOST_TEST_REQUIRE(file != nullptr);
    {
      StatusLine line(file, is_visible);
      line.show("step 1");
      line.show("step 2");
      line.clear();
      line.clear();
      line.show("step 3");
    }
    std::rewind(file);
    std::string text(100, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    const std::string erase = "\r\033[K";
    BOOST_TEST(text == (is_visible ? erase + "step 1" + erase + "step 2" + erase + erase + "step 3" + erase : ""));
  }
}
