// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/model_card.hpp"

#include <boost/test/unit_test.hpp>

using namespace sft;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(model_card)

BOOST_AUTO_TEST_CASE(of_a_chat_model) {
  const std::string card = launch::to_markdown(
      {.name = "name", .repository = "me/name", .base_model = "org/base", .dataset = "org/data", .is_chat = true});
  BOOST_TEST(card.starts_with("---\nbase_model: org/base\ndatasets: org/data\nlibrary_name: transformers\n"));
  BOOST_TEST(has(card, "[org/base](https://huggingface.co/org/base) on the [org/data]"));
  BOOST_TEST(has(card, "model=\"me/name\""));
  BOOST_TEST(has(card, "generator([{\"role\": \"user\", \"content\": question}], max_new_tokens=128"));
}

BOOST_AUTO_TEST_CASE(of_an_adapter_of_a_model_that_is_not_in_the_hub) {
  const std::string card = launch::to_markdown(
      {.name = "name", .repository = "me/name", .base_model = "", .dataset = "", .is_adapter = true});
  BOOST_TEST(!has(card, "base_model"));
  BOOST_TEST(!has(card, "datasets"));
  BOOST_TEST(has(card, "library_name: peft\n"));
  BOOST_TEST(has(card, "This adapter was made by supervised fine-tuning.\n"));
  BOOST_TEST(has(card, "generator(question, "));
}

BOOST_AUTO_TEST_SUITE_END()
