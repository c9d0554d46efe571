// SPDX-License-Identifier: Apache-2.0
// Conversations in the markup of a template, and without one.

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "apps/generate/chat_markup.hpp"
#include "sft/core/error.hpp"
#include "sft/text/byte_tokenizer.hpp"
#include "support/temporary_folder.hpp"

using namespace sft;

namespace {

const std::string chatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
const std::vector<text::Message> conversation{
    {"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Hello"}, {"user", "Who?"}};

/// A markup with a template of its own for the byte tokenizer.
struct Fixture {
  explicit Fixture(const std::string& source) {
    std::ofstream(folder.file("template.jinja"), std::ios::binary) << source;
    markup.emplace(tokenizer, folder.file("template.jinja"));
  }
  test::TemporaryFolder folder;
  text::ByteTokenizer tokenizer;
  std::optional<apps::ChatMarkup> markup;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_template_and_its_special_tokens) {
  Fixture fixture(chatml);
  const text::ByteTokenizer tokenizer;
  const apps::ChatMarkup without_template(tokenizer, "");
  BOOST_TEST(fixture.markup->prompt(conversation) == without_template.prompt(conversation),
             boost::test_tools::per_element());
  BOOST_TEST(fixture.markup->prompt(conversation).front() == *tokenizer.id_of("<|im_start|>"));
  BOOST_TEST(*fixture.markup->end_of_turn() == *tokenizer.id_of("<|im_end|>"));
  BOOST_TEST(*without_template.end_of_turn() == *tokenizer.id_of("<|im_end|>"));
}

BOOST_AUTO_TEST_CASE(a_turn_may_end_with_any_special_token_or_none) {
  const Fixture named("{% for m in messages %}[{{ m.role }}] {{ m.content }} {{ eos_token }}{% endfor %}");
  BOOST_TEST(*named.markup->end_of_turn() == *named.tokenizer.id_of("<|eos|>"));
  const Fixture plain("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
  BOOST_TEST(!plain.markup->end_of_turn().has_value());
  const Fixture silent("{{ messages[-1].content if messages[-1].role == 'user' else raise_exception('no') }}");
  BOOST_TEST(!silent.markup->end_of_turn().has_value());
}

BOOST_AUTO_TEST_CASE(what_a_template_refuses_is_an_error) {
  const Fixture fixture("{{ raise_exception('roles must alternate') }}");
  BOOST_CHECK_EXCEPTION(static_cast<void>(fixture.markup->prompt(conversation)), Error, [](const Error& error) {
    return std::string(error.what()).find("roles must alternate") != std::string::npos;
  });
  BOOST_CHECK_THROW(Fixture("{% for %}"), Error);
}
