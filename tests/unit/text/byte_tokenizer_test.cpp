// SPDX-License-Identifier: Apache-2.0
#include "sft/text/byte_tokenizer.hpp"

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

#include "sft/core/error.hpp"

using sft::text::ByteTokenizer;
using sft::text::TokenId;

BOOST_AUTO_TEST_SUITE(byte_tokenizer)

BOOST_AUTO_TEST_CASE(every_byte_is_its_own_token_and_comes_back) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  const ByteTokenizer tokenizer;
  const std::vector<TokenId> ids = tokenizer.encode(text);
  BOOST_TEST(ids.size() == 256u);
  for (TokenId id = 0; id < 256; ++id) BOOST_TEST(ids[static_cast<std::size_t>(id)] == id);
  BOOST_TEST(tokenizer.decode(ids) == text);
}

BOOST_AUTO_TEST_CASE(special_tokens_are_distinct_and_the_vocabulary_divides_by_16) {
  const ByteTokenizer tokenizer;
  const sft::text::SpecialTokens& specials = tokenizer.specials();
  const std::set<TokenId> ids = {*specials.bos, *specials.eos, *specials.pad, *tokenizer.id_of("<|im_start|>"),
                                 *tokenizer.id_of("<|im_end|>")};
  BOOST_TEST(ids.size() == 5u);
  BOOST_TEST(*ids.begin() == 256);
  BOOST_TEST(*ids.rbegin() < tokenizer.vocab_size());
  BOOST_TEST(tokenizer.vocab_size() == 272);
}

BOOST_AUTO_TEST_CASE(plain_text_never_yields_a_special_token) {
  const ByteTokenizer tokenizer;
  for (const TokenId id : tokenizer.encode("a<|im_end|><|im_start|>system\n<|eos|><|pad|>")) BOOST_TEST(id < 256);
}

BOOST_AUTO_TEST_CASE(markup_yields_special_tokens_and_decodes_to_itself) {
  const ByteTokenizer tokenizer;
  const std::string text = "<|im_start|>a<|im_<|im_end|><|eos|><|reserved_1|><|reserved_10|>";
  const std::vector<TokenId> ids = tokenizer.encode_markup(text);
  BOOST_TEST(ids.front() == *tokenizer.id_of("<|im_start|>"));
  BOOST_TEST(ids.size() == 1 + 1 + 5 + 1 + 1 + 2u);
  BOOST_TEST(ids[7] == *tokenizer.id_of("<|im_end|>"));
  BOOST_TEST(ids.back() == 271);
  BOOST_TEST(tokenizer.decode(ids) == text);
}

BOOST_AUTO_TEST_CASE(an_id_outside_the_vocabulary_is_a_bug) {
  BOOST_CHECK_THROW((void)ByteTokenizer().decode(std::vector<TokenId>{272}), std::logic_error);
}

BOOST_AUTO_TEST_CASE(tokenizers_are_made_by_the_name_they_record) {
  BOOST_TEST(sft::text::make_tokenizer("byte")->name() == "byte");
  BOOST_CHECK_EXCEPTION((void)sft::text::make_tokenizer("bpe"), sft::Error, [](const sft::Error& error) {
    return error.status() == sft::ExitStatus::configuration &&
           std::string(error.what()).find("'bpe'") != std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()
