// SPDX-License-Identifier: Apache-2.0
// Errors name the line and the reason.

#include <boost/test/unit_test.hpp>

#include "render.hpp"

using sft::test::Json;
using sft::test::mentions;
using sft::test::refusal;

BOOST_AUTO_TEST_SUITE(refusals)

BOOST_AUTO_TEST_CASE(what_is_not_supported_is_named_with_its_line) {
  BOOST_TEST(mentions(refusal("a\n{% include 'x' %}"), {"line 2", "'include'", "not supported"}));
  BOOST_TEST(mentions(refusal("\n\n{% block a %}{% endblock %}"), {"line 3", "'block'"}));
  BOOST_TEST(mentions(refusal("{{ 1 }}\n{{ 'a'|urlize }}"), {"line 2", "filter 'urlize'"}));
  BOOST_TEST(mentions(refusal("{{ 1 is nope }}"), {"line 1", "test 'nope'"}));
  BOOST_TEST(mentions(refusal("{{ 'a'.encode() }}"), {"line 1", "encode", "not supported"}));
  BOOST_TEST(mentions(refusal("{{ 9223372036854775807 + 1 }}"), {"line 1", "64 bits"}));
  BOOST_TEST(mentions(refusal("{{ namespace() }}"), {"line 1", "printing"}));
  BOOST_TEST(mentions(refusal("{{ x + 1 }}", {{"x", 18446744073709551615ULL}}), {"line 1", "64 bits"}));
  BOOST_TEST(mentions(refusal("{{ -x }}", {{"x", 18446744073709551615ULL}}), {"line 1", "64 bits"}));
}

BOOST_AUTO_TEST_CASE(what_has_no_value_may_have_to_be_tested_before_it_is_printed) {
  const auto refusal_of_missing = [](const std::string& source) -> std::string {
    try {
      const Json context = {{"nothing", nullptr}};
      return sft::jinja::Template(source).render(context, {.limits = {}, .now = {}, .has_values_only = true}).text;
    } catch (const sft::jinja::TemplateError& error) {
      return error.what();
    }
  };
  for (const char* source : {"\n{{ q }}", "\n{{ 'a' ~ q }}", "\n{{ q | trim }}", "\n{% set p = q %}{{ p }}"}) {
    BOOST_TEST(mentions(refusal_of_missing(source), {"line 2", "'q' is undefined"}), source);
  }
  BOOST_TEST(mentions(refusal_of_missing("{{ nothing }}"), {"line 1", "null"}));
  BOOST_TEST(refusal_of_missing("{{ q if q is defined }}{{ q | default('a') }}{{ q if q else 'b' }}") == "ab");
  BOOST_TEST(refusal_of_missing("{{ nothing if nothing else 'c' }}{% if q %}{{ q }}{% endif %}") == "c");
}

BOOST_AUTO_TEST_CASE(what_no_published_template_uses_is_refused_by_name) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{% call f() %}{% endcall %}", "'call'"},
      {"{% with a = 1 %}{% endwith %}", "'with'"},
      {"{% print 1 %}", "'print'"},
      {"{%- raw %}{{ ( }}{% endraw %}", "'raw'"},
      {"{% for x in [1] recursive %}{% endfor %}", "recursive loop"},
      {"{% for x in [] %}{% else %}{% endfor %}", "'else' of a loop"},
      {"{% set x | upper %}a{% endset %}", "set through a filter"},
      {"{% macro f() %}{{ varargs }}{% endmacro %}", "'varargs' in the macro 'f'"},
      {"{% macro f() %}{% if kwargs %}{% endif %}{% endmacro %}", "'kwargs' in the macro 'f'"},
      {"{% macro f() %}{{ caller() }}{% endmacro %}", "'caller' in the macro 'f'"},
      {"{{ 2 ** 3 }}", "operator **"},
      {"{{ '%s' % 1 }}", "operator % of a string"},
      {"{{ range(**{}) }}", "argument **"},
      {"{{ 0x1F }}", "begins with 0x"},
      {"{% for x in [1] %}{{ loop.cycle(1) }}{% endfor %}", "'loop.cycle'"},
      {"{% for x in [1] %}{{ loop.depth0 }}{% endfor %}", "'loop.depth0'"},
      {"{{ dict(a=1) }}", "function 'dict'"},
      {"{{ cycler(1) }}", "function 'cycler'"},
      {"{{ 1|abs }}", "filter 'abs'"},
      {"{{ ['x']|map('center')|list }}", "filter 'center'"},
      {"{{ 1 is odd }}", "test 'odd'"},
      {"{{ [1]|select('odd')|list }}", "test 'odd'"},
      {"{{ 'a'.splitlines() }}", "'splitlines' of str"},
      {"{{ {}.copy() }}", "'copy' of dict"},
      {"{{ [1].index(1) }}", "'index' of list"},
      {"{{ '{:>3}'.format(1) }}", "{:>3}"},
      {"{{ 'a'.startswith(('a', 'b')) }}", "tuple of strings for startswith()"},
      {"{{ 'a'.endswith('a', 0) }}", "part of the string for endswith()"},
      {"{{ '1'|int(base=2) }}", "argument 'base'"}};
  for (const auto& [source, name] : cases) {
    BOOST_TEST_CONTEXT(source) { BOOST_TEST(mentions(refusal("\n" + source), {"line 2", name, "not supported"})); }
  }
  BOOST_TEST(sft::test::render("{% if false %}{{ 1|abs }}{{ 1 is odd }}{% endif %}") == "");
  BOOST_TEST(sft::test::render("{% macro f(kwargs) %}{{ kwargs }}{% endmacro %}{{ f(kwargs=1) }}") == "1");
}

BOOST_AUTO_TEST_CASE(what_a_template_raises_is_told) {
  const std::string error = refusal("\n{% if true %}\n{{ raise_exception('Roles must\nalternate') }}{% endif %}");
  BOOST_TEST(mentions(error, {"line 3", "Roles must alternate", "conversation"}));
  BOOST_TEST(error.find('\n') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(undefined_values_may_be_printed_and_tested_but_not_used) {
  BOOST_TEST(mentions(refusal("{{ x.y }}"), {"'x' is undefined"}));
  BOOST_TEST(mentions(refusal("{{ m.y.z }}", {{"m", Json::object()}}), {"'dict' has no attribute 'y'"}));
  BOOST_TEST(
      mentions(refusal("{% macro f(a) %}{{ a + 1 }}{% endmacro %}{{ f() }}"), {"parameter 'a' was not provided"}));
}

BOOST_AUTO_TEST_CASE(broken_syntax_is_named_with_its_line) {
  BOOST_TEST(mentions(refusal("a\n{% if x %}\nb"), {"line 3", "endif"}));
  BOOST_TEST(mentions(refusal("{% endfor %}"), {"line 1", "'endfor'"}));
  BOOST_TEST(mentions(refusal("\n{{ (1] }}"), {"line 2", "']'"}));
  BOOST_TEST(mentions(refusal("{{ 'a"), {"line 1", "string has no end"}));
  BOOST_TEST(mentions(refusal("{{ 1 2 }}"), {"line 1", "'2'"}));
  BOOST_TEST(mentions(refusal("{% break %}"), {"'break'", "outside"}));
  BOOST_TEST(
      mentions(refusal("{% for i in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}"), {"outside"}));
}

BOOST_AUTO_TEST_SUITE_END()
