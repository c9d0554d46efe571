// SPDX-License-Identifier: Apache-2.0
// Templates whose renderings were made with jinja2 as transformers sets it up; tests/tools/peers/templates.py makes
// them again.

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "render.hpp"

using sft::test::Json;
using sft::test::refusal;
using sft::test::render;

BOOST_AUTO_TEST_SUITE(renderings)

BOOST_AUTO_TEST_CASE(every_template_renders_as_in_python_or_is_refused_as_there) {
  std::ifstream file(SFT_SOURCE_DIR "/tests/unit/jinja/renderings.json");
  const Json content = Json::parse(file);
  BOOST_TEST(content["cases"].size() > 130u);
  for (const Json& test_case : content["cases"]) {
    const auto source = test_case[0].get<std::string>();
    BOOST_TEST_CONTEXT(source) {
      if (test_case[1].is_null()) {
        BOOST_TEST(refusal(source, content["data"]).find("line ") != std::string::npos);
      } else {
        BOOST_TEST(render(source, content["data"]) == test_case[1].get<std::string>());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(integers_beyond_64_bits_are_printed_and_compared_as_in_python) {
  const auto big = [](const std::string& digits) { return Json::binary({digits.begin(), digits.end()}); };
  const Json context = {{"u", 18446744073709551615ULL},
                        {"x", big("100000000000000000000")},
                        {"y", big("100000000000000000000")},
                        {"z", big("-200000000000000000000")},
                        {"f", 1.5},
                        {"i", 7}};
  BOOST_TEST(render("{{ u }} {{ [x] }} {{ {'k': z} | tojson }} {{ x | string | length }} {{ x | int }}", context) ==
             "18446744073709551615 [100000000000000000000] {\"k\": -200000000000000000000} 21 100000000000000000000");
  BOOST_TEST(render("{{ x == y }} {{ x == z }} {{ x == u }} {{ x > u }} {{ z < x }} {{ z < i }} {{ i < x }}",
                    context) == "True False False True True True True");
  BOOST_TEST(render("{{ x > f }} {{ f < z }} {{ x in [y] }} {{ x is number }} {{ x is integer }} {{ x is float }}",
                    context) == "True False True True True False");
  BOOST_TEST(render("{{ 'a' if x }}", context) == "a");
}

BOOST_AUTO_TEST_CASE(the_date_is_the_callers_in_local_time) {
  sft::jinja::RenderOptions options;
  const std::time_t noon = 1735732800;
  options.now = std::chrono::system_clock::from_time_t(noon);
  std::tm local{};
  localtime_r(&noon, &local);
  char expected[64];
  BOOST_REQUIRE(std::strftime(expected, sizeof expected, "%d %b %Y %H:%M", &local) > 0);
  const sft::jinja::Template chat_template("{{ strftime_now('%d %b %Y %H:%M') }}");
  BOOST_TEST(chat_template.render(Json::object(), options).text == expected);
}

BOOST_AUTO_TEST_CASE(variables_win_over_functions_of_the_same_name) {
  BOOST_TEST(render("{{ range }}{{ namespace }}", {{"range", 5}, {"namespace", "n"}}) == "5n");
}

BOOST_AUTO_TEST_SUITE_END()
