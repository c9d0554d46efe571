// SPDX-License-Identifier: Apache-2.0
// Every byte of a rendering knows its message.

#include <boost/test/unit_test.hpp>

#include "render.hpp"

using namespace sft;
using test::bracket;
using test::Json;

namespace {

const Json conversation = {{"messages",
                            {{{"role", "user"}, {"content", " Hé, what? "}},
                             {{"role", "assistant"}, {"content", "That. "}, {"tools", {{{"n", 1}, {"s", "x\"y"}}}}}}}};

jinja::Rendered rendered(const std::string& source, const Json& context = conversation) {
  return jinja::Template(source).render(context);
}

/// The text with brackets around the bytes from a message's field.
std::string from(const jinja::Rendered& result, int message, const std::string& field) {
  std::vector<jinja::ByteSpan> spans;
  for (const jinja::Fragment& fragment : result.fragments) {
    if (fragment.source < 0) continue;
    const jinja::Source& source = result.sources[static_cast<std::size_t>(fragment.source)];
    if (source.message == message && source.field == field) spans.push_back(fragment.bytes);
  }
  return bracket(result.text, spans);
}

/// The text with brackets around the bytes of a message's turn.
std::string turn_of(const jinja::Rendered& result, int message) {
  std::vector<jinja::ByteSpan> spans;
  for (const jinja::Fragment& fragment : result.fragments) {
    if (fragment.turn != message) continue;
    if (!spans.empty() && spans.back().end == fragment.bytes.begin) {
      spans.back().end = fragment.bytes.end;
    } else {
      spans.push_back(fragment.bytes);
    }
  }
  return bracket(result.text, spans);
}

std::string content(const std::string& expression) { return from(rendered("{{ " + expression + " }}"), 0, "content"); }

}  // namespace

BOOST_AUTO_TEST_SUITE(origins)

BOOST_AUTO_TEST_CASE(pieces_cover_the_text_and_neighbours_differ) {
  const jinja::Rendered result = rendered("a{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}b{{ 1 }}");
  std::size_t end = 0;
  for (const jinja::Fragment& fragment : result.fragments) {
    BOOST_TEST(fragment.bytes.begin == end);
    BOOST_TEST(fragment.bytes.end > fragment.bytes.begin);
    end = fragment.bytes.end;
  }
  BOOST_TEST(end == result.text.size());
  for (std::size_t i = 1; i < result.fragments.size(); ++i) {
    const jinja::Fragment &a = result.fragments[i - 1], &b = result.fragments[i];
    BOOST_TEST((a.source != b.source || a.turn != b.turn));
  }
}

BOOST_AUTO_TEST_CASE(operations_on_strings_keep_the_source) {
  BOOST_TEST(content("'<' + messages[0].content + '>'") == "<[ Hé, what? ]>");
  BOOST_TEST(content("'<' ~ messages[0].content|trim ~ '>'") == "<[Hé, what?]>");
  BOOST_TEST(content("messages[0].content.strip()[1:4] + 'é,'") == "[é, ]é,");
  BOOST_TEST(content("messages[0].content.split(',')|join('|')") == "[ Hé]|[ what? ]");
  BOOST_TEST(content("messages[0].content|replace('what', 'that')") == "[ Hé, ]that[? ]");
  BOOST_TEST(content("('a' ~ messages[0].content ~ 'b')|upper") == "A[ HÉ, WHAT? ]B");
  BOOST_TEST(content("('a' ~ messages[0].content)[::-1]") == "[ ?tahw ,éH ]a");
  BOOST_TEST(content("[messages[0].content, 'x']") == "[[' Hé, what? '], 'x']");
  BOOST_TEST(content("'{}!'.format(messages[0].content)") == "[ Hé, what? ]!");
  BOOST_TEST(content("messages[0].content|list|first ~ 'x'") == "[ ]x");
  BOOST_TEST(content("messages[0].content * 2") == "[ Hé, what?  Hé, what? ]");
}

BOOST_AUTO_TEST_CASE(json_of_a_message_is_the_messages) {
  const jinja::Rendered result = rendered("{{ {'a': messages[1].tools[0]}|tojson }}");
  BOOST_TEST(from(result, 1, "tools") == R"({"a": [{"n": ]1[, "s": "x\"y"}]})");
}

BOOST_AUTO_TEST_CASE(what_a_loop_over_messages_writes_is_the_turn_of_the_message) {
  const std::string loop = "<s>{% for m in messages %}({{ m.role }}){% endfor %}.";
  BOOST_TEST(turn_of(rendered(loop), 0) == "<s>[(user)](assistant).");
  const jinja::Rendered result = rendered("<s>{% for m in messages[::-1] %}({{ m.role }}){% endfor %}.");
  BOOST_TEST(turn_of(result, 0) == "<s>(assistant)[(user)].");
  BOOST_TEST(turn_of(result, 1) == "<s>[(assistant)](user).");
}

BOOST_AUTO_TEST_CASE(turns_are_known_through_macros_captures_and_indices) {
  const std::string macro = "{% macro w(m) %}<{{ m.role }}>{% endmacro %}";
  BOOST_TEST(turn_of(rendered(macro + "{% for m in messages %}{{ w(m) }}{% endfor %}"), 1) == "<user>[<assistant>]");
  BOOST_TEST(turn_of(rendered(macro + "{{ w(messages[0]) }}-{{ w(messages[1])|trim }}"), 1) == "<user>-[<assistant>]");
  BOOST_TEST(turn_of(rendered("{% for i in range(2) %}{% set m = messages[i] %}<{{ m.role }}>{% endfor %}."), 1) ==
             "<user>[<assistant>].");
  BOOST_TEST(turn_of(rendered("{% for m in messages if m.role != 'user' %}<{{ loop.index }}>{% endfor %}."), 1) ==
             "[<1>].");
  const std::string gathered =
      "{% set n = namespace(s='') %}{% for m in messages %}{% set n.s = n.s ~ '<' ~ m.role ~ '>' %}{% endfor %}{{ n.s "
      "}}.";
  BOOST_TEST(turn_of(rendered(gathered), 0) == "[<user>]<assistant>.");
}

BOOST_AUTO_TEST_CASE(a_look_at_another_message_does_not_change_the_turn) {
  const std::string source =
      "{% for m in messages %}{% set p = messages[0] %}{% for k in [1, 2] %}{{ k }}{% endfor %}{{ p.role }}{% endfor "
      "%}";
  BOOST_TEST(turn_of(rendered(source), 1) == "12user[12user]");
}

BOOST_AUTO_TEST_CASE(generation_blocks_are_spans_wherever_they_end_up) {
  const auto marked = [](const std::string& source) {
    const jinja::Rendered result = rendered(source);
    return bracket(result.text, result.generation);
  };
  BOOST_TEST(marked("a{% generation %}b{{ messages[1].content }}{% endgeneration %}c") == "a[bThat. ]c");
  BOOST_TEST(marked("{% for i in [1,2] %}{% generation %}{{ i }}{% endgeneration %}{% endfor %}") == "[1][2]");
  BOOST_TEST(marked("{% set x %}  a{% generation %}b{% endgeneration %}c {% endset %}<{{ x|trim|upper }}>") ==
             "<A[B]C>");
  BOOST_TEST(marked("{% macro f() %}x{% generation %} y {% endgeneration %}{% endmacro %}{{ 'é' + f() }}") ==
             "éx[ y ]");
  BOOST_TEST(marked("a{% generation %}{% endgeneration %}b") == "ab");
  BOOST_TEST(jinja::Template("{% if false %}{% generation %}{% endgeneration %}{% endif %}").has_generation());
  BOOST_TEST(!jinja::Template("{{ 'generation' }}").has_generation());
}

BOOST_AUTO_TEST_SUITE_END()
