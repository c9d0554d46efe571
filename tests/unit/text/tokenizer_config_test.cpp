// SPDX-License-Identifier: Apache-2.0
// Added tokens, and what tokenizer_config.json and special_tokens_map.json say of them.
#include "text/tokenizer_config.hpp"

#include <boost/test/unit_test.hpp>

#include "support/error_text.hpp"
#include "unit/text/tokenizer_files.hpp"

using namespace sft;
using nlohmann::json;
using test::make_description;
using test::make_tokenizer;
using text::TokenId;
using Ids = std::vector<TokenId>;

namespace {

json added(const char* content, const json& flags = json::object()) {
  json token = {{"id", 0}, {"content", content}};
  token.update(flags);
  return token;
}

/// a, b and blank, and `tokens`, whose ids begin at 3.
json with_added(const std::vector<json>& tokens) {
  json description = make_description({"a", "b", " "}, {});
  description["added_tokens"] = tokens;
  return description;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tokenizer_config)

BOOST_AUTO_TEST_CASE(added_tokens_follow_the_vocabulary_or_have_its_ids) {
  const auto tokenizer = make_tokenizer(with_added({added("<x>"), added("b"), added("<y>")}));
  BOOST_TEST(*tokenizer->id_of("<x>") == 3);
  BOOST_TEST(*tokenizer->id_of("b") == 1);
  BOOST_TEST(*tokenizer->id_of("<y>") == 4);
  BOOST_TEST(!tokenizer->id_of("<z>").has_value());
  BOOST_TEST(tokenizer->token_of(4) == "<y>");
  BOOST_TEST(tokenizer->token_of(5).empty());
  BOOST_TEST(tokenizer->vocab_size() == 5);
}

BOOST_AUTO_TEST_CASE(the_longest_token_at_the_leftmost_place_is_found) {
  const auto tokenizer = make_tokenizer(with_added({added("<a"), added("<ab>"), added("b>")}));
  BOOST_TEST(tokenizer->encode_markup("a<ab>b<ab<a") == (Ids{0, 4, 1, 3, 1, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(blanks_beside_a_token_may_belong_to_it) {
  const auto both = make_tokenizer(with_added({added("<x>", {{"lstrip", true}, {"rstrip", true}})}));
  const text::Encoding encoding = both->encode_with_offsets("a \t<x>\n <x> b", {});
  BOOST_TEST(encoding.ids == (Ids{0, 3, 3, 1}), boost::test_tools::per_element());
  BOOST_TEST(encoding.offsets[1].begin == 1u);
  BOOST_TEST(encoding.offsets[1].end == 8u);
  BOOST_TEST(encoding.offsets[2].begin == 8u);
  const auto none = make_tokenizer(with_added({added("<x>")}));
  BOOST_TEST(none->encode_markup("a <x> b") == (Ids{0, 2, 3, 2, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_single_word_goes_on_at_neither_end) {
  const auto tokenizer = make_tokenizer(with_added({added("ab", {{"single_word", true}})}));
  BOOST_TEST(tokenizer->encode_markup("ab") == Ids{3}, boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode_markup("ab ab") == (Ids{3, 2, 3}), boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode_markup("aab") == (Ids{0, 0, 1}), boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode_markup("abb") == (Ids{0, 1, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_normalized_token_is_found_in_the_normalized_text) {
  json description = with_added({added("AB", {{"normalized", true}}), added("BA")});
  description["normalizer"] = {{"type", "Lowercase"}};
  const auto tokenizer = make_tokenizer(description);
  BOOST_TEST(tokenizer->encode_markup("Ab") == Ids{3}, boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode_markup("ba BA") == (Ids{1, 0, 2, 4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(special_tokens_are_text_where_they_are_split_and_go_where_they_are_skipped) {
  json description = with_added({added("<s>", {{"special", true}}), added("b")});
  description["model"]["vocab"]["<"] = 3;
  const auto tokenizer = make_tokenizer(description);
  BOOST_TEST(tokenizer->encode_markup("a<s>b") == (Ids{0, 4, 1}), boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode("a<s>b") == (Ids{0, 3, 1}), boost::test_tools::per_element());
  BOOST_TEST(tokenizer->decode(Ids{0, 4, 1}) == "a <s> b");
  BOOST_TEST(tokenizer->decode(Ids{0, 4, 1}, true) == "a b");
  BOOST_TEST(tokenizer->is_special(4));
  BOOST_TEST(!tokenizer->is_special(1));
}

BOOST_AUTO_TEST_CASE(roles_come_from_the_configuration) {
  const json description = with_added({added("<s>"), added("</s>")});
  const auto tokenizer =
      make_tokenizer(description, R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "<pad>",
                                      "unk_token": null})");
  BOOST_TEST(*tokenizer->specials().bos == 3);
  BOOST_TEST(tokenizer->eos() == 4);
  BOOST_TEST(tokenizer->pad() == 5);  // a new token, as no other has this name
  BOOST_TEST(!tokenizer->specials().unk.has_value());
  BOOST_TEST(tokenizer->vocab_size() == 6);
  BOOST_TEST(tokenizer->is_special(3));
  BOOST_TEST(tokenizer->encode_markup("<pad>") == Ids{5}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_tokenizer_without_an_end_says_so) {
  const auto tokenizer = make_tokenizer(with_added({}));
  BOOST_CHECK_EXCEPTION((void)tokenizer->eos(), Error, [](const Error& error) {
    return test::mentions(error.what(), {"test", "eos_token"}) && error.status() == ExitStatus::configuration;
  });
}

BOOST_AUTO_TEST_CASE(the_older_file_counts_unless_the_newer_one_lists_the_tokens) {
  const json description = with_added({added("<s>"), added("</s>")});
  const std::string older = R"({"eos_token": {"content": "</s>"}})";
  BOOST_TEST(make_tokenizer(description, "", older)->eos() == 4);
  BOOST_TEST(make_tokenizer(description, R"({"eos_token": "<s>"})", older)->eos() == 4);
  BOOST_TEST(
      make_tokenizer(description, R"({"eos_token": "<s>", "added_tokens_decoder": {"3": {"content": "<s>"}}})", older)
          ->eos() == 3);
}

BOOST_AUTO_TEST_CASE(listed_tokens_are_added_and_change_those_that_are_there) {
  const json description = with_added({added("<s>")});
  const auto tokenizer = make_tokenizer(
      description,
      R"({"added_tokens_decoder": {"10": {"content": "<new>"}, "3": {"content": "<s>", "rstrip": true}}})");
  BOOST_TEST(tokenizer->encode_markup("<s>  <new>") == (Ids{3, 4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_class_names_roles_that_the_file_leaves_out) {
  const json description = with_added({added("<|endoftext|>")});
  BOOST_TEST(make_tokenizer(description, R"({"tokenizer_class": "GPT2TokenizerFast"})")->eos() == 3);
  BOOST_TEST(!make_tokenizer(description, R"({"tokenizer_class": "LlamaTokenizer"})")->specials().eos.has_value());
}

BOOST_AUTO_TEST_CASE(what_stands_around_a_text) {
  json description = with_added({added("<s>"), added("</s>")});
  const auto ids = [&description](const std::string& config) {
    return make_tokenizer(description, config)->encode("a", {.add_special_tokens = true});
  };
  BOOST_TEST(ids("") == Ids{0}, boost::test_tools::per_element());
  description["post_processor"] = {{"type", "Sequence"},
                                   {"processors",
                                    {{{"type", "ByteLevel"}},
                                     {{"type", "TemplateProcessing"},
                                      {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                                      {"special_tokens", {{"<s>", {{"ids", {3}}}}}}},
                                     {{"type", "RobertaProcessing"}, {"cls", {"</s>", 4}}, {"sep", {"</s>", 4}}}}}};
  BOOST_TEST(ids("") == (Ids{4, 3, 0, 4}), boost::test_tools::per_element());
  const std::string roles = R"("bos_token": "<s>", "eos_token": "</s>")";
  BOOST_TEST(ids("{" + roles + "}") == (Ids{4, 3, 0, 4}), boost::test_tools::per_element());
  // As in transformers 5, which does not read these fields where there is a tokenizer.json.
  for (const char* fields : {R"("add_bos_token": true)", R"("add_bos_token": false)", R"("add_eos_token": true)",
                             R"("add_bos_token": false, "tokenizer_class": "LlamaTokenizerFast")",
                             R"("add_bos_token": true, "tokenizer_class": "PreTrainedTokenizerFast")"}) {
    BOOST_TEST(ids("{" + roles + ", " + fields + "}") == (Ids{4, 3, 0, 4}), boost::test_tools::per_element());
  }
  description["post_processor"] = {{"type", "ByteLevel"}};
  for (const char* name : {"LlamaTokenizerFast", "LlamaTokenizer", "PreTrainedTokenizerFast", "Qwen2Tokenizer"}) {
    const std::string config = "{" + roles + R"(, "add_bos_token": true, "tokenizer_class": ")" + name + "\"}";
    BOOST_TEST(ids(config) == Ids{0}, boost::test_tools::per_element());
  }
  for (const char* name : {"CodeLlamaTokenizerFast", "CodeLlamaTokenizer"}) {
    const std::string config = "{" + roles + R"(, "add_bos_token": false, "tokenizer_class": ")" + name + "\"}";
    BOOST_TEST(ids(config) == (Ids{3, 0}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(what_is_damaged_or_not_supported_is_named) {
  const auto reason = [](const char* pointer, const json& value) {
    json description = make_description({"a", "b", "ab"}, {{"a", "b"}});
    description[json::json_pointer(pointer)] = value;
    return test::data_error_of([&] { (void)make_tokenizer(description); });
  };
  const auto expect = [&reason](const char* pointer, const json& value, const std::string& part) {
    BOOST_TEST_CONTEXT(pointer << " = " << value) {
      const std::string text = reason(pointer, value);
      BOOST_TEST(test::mentions(text, {"cannot use the tokenizer of test", "tokenizer.json", part}), text);
    }
  };
  BOOST_TEST(reason("/version", "1.0").empty());
  expect("/model/type", "Unigram", "Unigram");
  expect("/model/type", "WordPiece", "WordPiece");
  expect("/model/dropout", 0.1, "dropout");
  expect("/model/vocab", json::array(), "vocab");
  expect("/model/vocab/x", -1, "an id of the vocabulary");
  expect("/model/vocab/x", 2000000000, "far beyond");
  expect("/model/vocab/x", 0, "two tokens");
  expect("/model/merges", {"a x"}, "'x'");
  expect("/model/merges", {"b a"}, "'ba'");
  expect("/model/merges", {"a b c"}, "a b c");
  expect("/model/merges", json::array({json::array({"a", "x\n"})}), "'x\\n'");
  expect("/model/merges", {1}, "merge");
  expect("/model/unk_token", 3, "unk_token");
  expect("/normalizer", {{"type", "Precompiled"}}, "Precompiled");
  expect("/normalizer", {{"type", "BertNormalizer"}}, "BertNormalizer");
  expect("/pre_tokenizer", {{"type", "UnicodeScripts"}}, "UnicodeScripts");
  expect("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}}, "parenthesis");
  expect("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "\\p{Odd}"}}}, {"behavior", "Isolated"}}, "Odd");
  expect("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Odd"}}, "Odd");
  expect("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "ab"}}, "one character");
  expect("/post_processor", {{"type", "Odd"}}, "Odd");
  expect("/post_processor", {{"type", "RobertaProcessing"}, {"cls", {"x", 9}}, {"sep", {"x", 9}}}, "9");
  expect("/decoder", {{"type", "CTC"}}, "CTC");
  expect("/decoder", {{"type", "BPEDecoder"}, {"suffix", ""}}, "suffix");
  expect("/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "x*"}}}, {"content", ""}}, "empty");
  expect("/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "(x)"}}}, {"content", "$1"}}, "groups");
  expect("/added_tokens", {1}, "content");
  json deep = json::array();
  for (int i = 0; i < 100; ++i) deep = json::array({deep});
  expect("/deep", deep, "nested");
}

BOOST_AUTO_TEST_CASE(an_unknown_character_needs_the_unknown_token) {
  json description = make_description({"a"}, {});
  BOOST_TEST(make_tokenizer(description)->encode("axa") == (Ids{0, 0}), boost::test_tools::per_element());
  description["model"]["unk_token"] = "<unk>";
  const auto tokenizer = make_tokenizer(description);
  BOOST_TEST(tokenizer->encode("aa").size() == 2u);
  BOOST_TEST(test::mentions(test::data_error_of([&] { (void)tokenizer->encode("ax"); }), {"<unk>"}));
}

BOOST_AUTO_TEST_SUITE_END()
