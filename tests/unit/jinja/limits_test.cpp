// SPDX-License-Identifier: Apache-2.0
// Hostile templates end with an error in bounded time and memory.

#include <boost/test/unit_test.hpp>

#include "render.hpp"

using sft::test::Json;
using sft::test::mentions;
using sft::test::refusal;

namespace {

std::string repeat(const std::string& text, int count) {
  std::string repeated;
  for (int i = 0; i < count; ++i) repeated += text;
  return repeated;
}

std::string limited(const std::string& source) {
  sft::jinja::RenderOptions options;
  options.limits.max_steps = 2'000'000;
  options.limits.max_memory_bytes = std::size_t{16} << 20;
  return refusal(source, Json::object(), options);
}

const std::string times_100 =
    "{% for a in range(100) %}{% for b in range(100) %}{% for c in range(100) %}{% for d in range(100) %}";
const std::string end_100 = "{% endfor %}{% endfor %}{% endfor %}{% endfor %}";

}  // namespace

BOOST_AUTO_TEST_SUITE(limits)

BOOST_AUTO_TEST_CASE(loops_and_recursion_end, *boost::unit_test::label("long")) {
  BOOST_TEST(mentions(limited("{% for i in range(1000000000) %}x{% endfor %}"), {"Range too big"}));
  BOOST_TEST(mentions(limited(times_100 + end_100), {"steps"}));
  BOOST_TEST(mentions(limited("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), {"levels deep"}));
  BOOST_TEST(mentions(limited("{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}"),
                      {"levels deep"}));
}

BOOST_AUTO_TEST_CASE(texts_and_lists_cannot_grow_without_bound, *boost::unit_test::label("long")) {
  BOOST_TEST(mentions(
      limited("{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}"),
      {"MiB"}));
  BOOST_TEST(
      mentions(limited("{% set n = namespace(s=[1,2]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}"),
               {"line 1"}));
  BOOST_TEST(mentions(limited("{{ 'a' * 1000000000000 }}"), {"MiB"}));
  BOOST_TEST(mentions(limited("{{ [0] * 1000000000000 }}"), {"MiB"}));
  BOOST_TEST(mentions(limited(times_100 + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + end_100), {"line 1"}));
  BOOST_TEST(mentions(limited("{% set s = 'ab' * 1000000 %}{{ s.replace('a', s) }}"), {"line 1"}));
}

BOOST_AUTO_TEST_CASE(values_cannot_be_nested_or_shared_without_bound, *boost::unit_test::label("long")) {
  BOOST_TEST(
      mentions(limited("{% set n = namespace(l=[]) %}{% for i in range(90000) %}{% set n.l = [n.l] %}{% endfor %}"),
               {"nested more than"}));
  const std::string doubled =
      "{% set n = namespace(l=[1], k=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% set n.k = [n.k, n.k] "
      "%}{% endfor %}";
  BOOST_TEST(mentions(limited(doubled + "{{ n.l == n.k }}"), {"steps"}));
  BOOST_TEST(mentions(limited(doubled + "{{ n.l|tojson }}"), {"line 1"}));
  BOOST_TEST(mentions(limited(doubled + "{{ n.l }}"), {"line 1"}));
  Json deep = 1;
  for (int i = 0; i < 2000; ++i) deep = Json::array({deep});
  BOOST_TEST(mentions(refusal("{{ x }}", {{"x", deep}}), {"nested more than"}));
}

BOOST_AUTO_TEST_CASE(namespaces_and_macros_may_hold_themselves) {
  const std::string source =
      "{% set n = namespace() %}{% set n.n = n %}{% macro f() %}{{ f is defined }}{% endmacro %}{% set n.f = f %}{{ "
      "n.n.n.f() }}";
  BOOST_TEST(sft::test::render(source) == "True");
}

BOOST_AUTO_TEST_CASE(syntax_cannot_be_nested_without_bound) {
  for (const auto& [open, close] : {std::pair{"(", ")"}, std::pair{"[", "]"}, std::pair{"{1:", "}"}, std::pair{"-", ""},
                                    std::pair{"not ", ""}, std::pair{"f(", ")"}}) {
    BOOST_TEST(
        mentions(limited("{{ " + repeat(open, 100000) + "1" + repeat(close, 100000) + " }}"), {"nested more than"}));
  }
  BOOST_TEST(mentions(limited("{{ 1" + repeat("+1", 100000) + " }}"), {"nested more than"}));
  BOOST_TEST(mentions(limited("{{ a" + repeat(".a", 100000) + " }}"), {"nested more than"}));
  BOOST_TEST(mentions(limited("{{ a" + repeat("|d", 100000) + " }}"), {"nested more than"}));
  BOOST_TEST(mentions(limited(repeat("{% if a %}", 100000)), {"nested more than"}));
  BOOST_TEST(mentions(limited("{% if a %}" + repeat("{% elif a %}", 100000) + "{% endif %}"), {"nested more than"}));
  BOOST_TEST(
      mentions(limited("{% set " + repeat("(", 100000) + "a" + repeat(")", 100000) + " = 1 %}"), {"nested more than"}));
}

BOOST_AUTO_TEST_CASE(many_names_and_conditions_do_not_take_long, *boost::unit_test::label("long")) {
  std::string source;
  for (int i = 0; i < 20000; ++i) source += "{% if a" + std::to_string(i) + " %}{% endif %}";
  BOOST_TEST(mentions(limited(source), {"too many names"}));
}

BOOST_AUTO_TEST_SUITE_END()
