// SPDX-License-Identifier: Apache-2.0
// What tokenizers of four families make of awkward texts, as the reference library does
// (fixtures/make_tokenizer_ids.py), and what it says nothing about: bytes that are no text, threads, long words,
// fingerprints.
#include "sft/text/hub_tokenizer.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <thread>

#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"
#include "unit/text/tokenizer_files.hpp"

using namespace sft;
using nlohmann::json;
using test::make_description;
using test::make_tokenizer;
using text::ByteRange;
using text::TokenId;

namespace boost::test_tools::tt_detail {
template <>
struct print_log_value<ByteRange> {
  void operator()(std::ostream& stream, const ByteRange& range) const { stream << range.begin << "-" << range.end; }
};
}  // namespace boost::test_tools::tt_detail

namespace {

const std::vector<std::string> families = {"gpt2", "qwen2", "llama2", "mistral"};

std::vector<TokenId> ids_of(const json& list) { return list.get<std::vector<TokenId>>(); }

/// Letters a to d as bytes of words, with some merges.
json letters() {
  json description = make_description({"a", "b", "c", "d", "ab", "bc", "cd", "abc", "aa", "Ġ", "Ã", "©"},
                                      {{"b", "c"}, {"a", "b"}, {"c", "d"}, {"a", "bc"}, {"a", "a"}});
  description["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  description["decoder"] = {{"type", "ByteLevel"}};
  return description;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hub_tokenizer)

BOOST_DATA_TEST_CASE(ids_offsets_and_decoded_text_are_those_of_the_reference, families, family) {
  const json fixture = test::read_fixture(family);
  const auto tokenizer = make_tokenizer(fixture["tokenizer"]);
  BOOST_TEST(fixture["cases"].size() > 20u);
  for (const json& expected : fixture["cases"]) {
    const auto text = expected["text"].get<std::string>();
    BOOST_TEST_CONTEXT(text) {
      const text::Encoding encoding = tokenizer->encode_with_offsets(text, {});
      BOOST_TEST(encoding.ids == ids_of(expected["ids"]), boost::test_tools::per_element());
      BOOST_TEST(tokenizer->encode_markup(text) == encoding.ids, boost::test_tools::per_element());
      BOOST_TEST(tokenizer->encode(text) == ids_of(expected["split_special"]), boost::test_tools::per_element());
      BOOST_TEST(tokenizer->encode(text, {.add_special_tokens = true}) == ids_of(expected["with_special"]),
                 boost::test_tools::per_element());
      BOOST_TEST(tokenizer->decode(encoding.ids) == expected["decoded"].get<std::string>());
      BOOST_TEST(tokenizer->decode(encoding.ids, true) == expected["decoded_without_special"].get<std::string>());
      if (!expected.contains("offsets")) continue;
      std::vector<ByteRange> offsets;
      for (const json& range : expected["offsets"]) offsets.push_back({range[0], range[1]});
      BOOST_TEST(encoding.offsets == offsets, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(normalizers_one_after_the_other_do_not_make_a_text_longer_than_one_may) {
  json description = letters();
  const json doubles = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const auto with_parts = [&](std::size_t count, bool is_nested) {
    json parts = json::array();
    for (std::size_t i = 0; i < count; ++i) {
      parts.push_back(is_nested ? json{{"type", "Sequence"}, {"normalizers", {doubles}}} : doubles);
    }
    description["normalizer"] = {{"type", "Sequence"}, {"normalizers", parts}};
    return make_tokenizer(description);
  };
  for (const bool is_nested : {false, true}) {
    BOOST_TEST(with_parts(6, is_nested)->encode("a").size() == 32u);  // pairs of a
    BOOST_TEST(test::mentions(test::data_error_of([&] { (void)with_parts(40, is_nested)->encode("a"); }),
                              {"64 times its size", "normalizer"}));
    BOOST_TEST(test::mentions(test::data_error_of([&] { (void)with_parts(65, is_nested); }), {"more than 64 parts"}));
  }
}

BOOST_AUTO_TEST_CASE(origins_survive_normalizers_one_after_the_other) {
  json description = letters();
  const auto replace = [](const char* from, const char* to) {
    return json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  description["normalizer"] = {{"type", "Sequence"},
                               {"normalizers",
                                {{{"type", "Lowercase"}},
                                 {{"type", "Strip"}},
                                 {{"type", "Sequence"}, {"normalizers", {replace("x", "b"), replace("b", "bb")}}},
                                 {{"type", "Strip"}},
                                 replace("y", "c")}}};
  const text::Encoding encoding = make_tokenizer(description)->encode_with_offsets("  AxYd ", {});
  BOOST_TEST(encoding.ids == (std::vector<TokenId>{4, 5, 3}), boost::test_tools::per_element());  // ab bc d
  const std::vector<ByteRange> offsets = {{2, 4}, {3, 5}, {5, 6}};
  BOOST_TEST(encoding.offsets == offsets, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_lowest_rank_merges_first_and_of_equal_ones_the_leftmost) {
  const auto tokenizer = make_tokenizer(letters());
  BOOST_TEST(tokenizer->encode("abc") == std::vector<TokenId>{7}, boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode("abcd") == (std::vector<TokenId>{7, 3}), boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode("abd") == (std::vector<TokenId>{4, 3}), boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode("aaa") == (std::vector<TokenId>{8, 0}), boost::test_tools::per_element());
  // The same by the other way of merging, for long words.
  std::string many(101, 'a');
  std::vector<TokenId> pairs(50, 8);
  pairs.push_back(0);
  BOOST_TEST(tokenizer->encode(many) == pairs, boost::test_tools::per_element());
  many.clear();
  for (int i = 0; i < 50; ++i) many += "abcd";
  std::vector<TokenId> blocks;
  for (int i = 0; i < 50; ++i) blocks.insert(blocks.end(), {7, 3});
  BOOST_TEST(tokenizer->encode(many) == blocks, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_last_rank_of_a_merge_that_stands_twice_counts) {
  json description = letters();
  description["model"]["merges"] = {"a b", "b c", "a b"};
  BOOST_TEST(make_tokenizer(description)->encode("abc") == (std::vector<TokenId>{0, 5}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(ignore_merges_takes_whole_words_of_the_vocabulary) {
  json description = letters();
  description["model"]["merges"] = json::array();
  BOOST_TEST(make_tokenizer(description)->encode("abc").size() == 3u);
  description["model"]["ignore_merges"] = true;
  BOOST_TEST(make_tokenizer(description)->encode("abc") == std::vector<TokenId>{7}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(ill_formed_bytes_are_replacement_characters_in_their_place) {
  for (const std::string& family : families) {
    const auto tokenizer = make_tokenizer(test::read_fixture(family)["tokenizer"]);
    for (const auto& [bytes, text] :
         std::vector<std::pair<std::string, std::string>>{{"a\xFF"
                                                           "b",
                                                           "a\uFFFDb"},
                                                          {"\x80\x80", "\uFFFD\uFFFD"},
                                                          {"\xE2\x82", "\uFFFD"},
                                                          {"\xC0\xAF", "\uFFFD\uFFFD"},
                                                          {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
                                                          {"\xF0\x9F\x99 x", "\uFFFD x"},
                                                          {"\xC3\x28", "\uFFFD("}}) {
      BOOST_TEST(tokenizer->encode_markup(bytes) == tokenizer->encode_markup(text), boost::test_tools::per_element());
    }
  }
  const auto tokenizer = make_tokenizer(test::read_fixture("gpt2")["tokenizer"]);
  const text::Encoding encoding = tokenizer->encode_with_offsets(
      "a\xE2\x82"
      "b",
      {});
  BOOST_TEST(encoding.offsets.front() == (ByteRange{0, 1}));
  for (std::size_t i = 1; i + 1 < encoding.offsets.size(); ++i) BOOST_TEST(encoding.offsets[i] == (ByteRange{1, 3}));
  BOOST_TEST(encoding.offsets.back() == (ByteRange{3, 4}));
}

BOOST_AUTO_TEST_CASE(a_token_that_holds_part_of_a_character_covers_all_of_it) {
  const text::Encoding encoding = make_tokenizer(letters())->encode_with_offsets("b\xC3\xA9", {});
  BOOST_TEST(encoding.ids == (std::vector<TokenId>{1, 10, 11}), boost::test_tools::per_element());
  BOOST_TEST(encoding.offsets == (std::vector<ByteRange>{{0, 1}, {1, 3}, {1, 3}}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(composed_characters_cover_all_that_they_were_made_of) {
  json description = make_description({"a", "é"}, {});
  description["normalizer"] = {{"type", "NFC"}};
  const text::Encoding encoding = make_tokenizer(description)->encode_with_offsets("ae\u0301a", {});
  BOOST_TEST(encoding.ids == (std::vector<TokenId>{0, 1, 0}), boost::test_tools::per_element());
  BOOST_TEST(encoding.offsets == (std::vector<ByteRange>{{0, 1}, {1, 4}, {4, 5}}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(only_the_first_word_of_the_input_gets_a_first_blank) {
  json description = make_description({"a", "▁", "▁a", "t"}, {{"▁", "a"}});
  description["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "t"}}}, {"content", ""}};
  description["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  const auto tokenizer = make_tokenizer(description);
  BOOST_TEST(tokenizer->encode("at") == std::vector<TokenId>{2}, boost::test_tools::per_element());
  BOOST_TEST(tokenizer->encode("ta") == std::vector<TokenId>{0}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(threads_share_a_tokenizer) {
  for (const std::string& family : families) {
    const json fixture = test::read_fixture(family);
    const auto tokenizer = make_tokenizer(fixture["tokenizer"]);
    std::vector<std::thread> threads;
    std::array<int, 4> num_wrong{};
    for (std::size_t t = 0; t < num_wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < 20; ++round) {
          for (const json& expected : fixture["cases"]) {
            const auto text = expected["text"].get<std::string>();
            num_wrong[t] += tokenizer->encode_markup(text) == ids_of(expected["ids"]) ? 0 : 1;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const int count : num_wrong) BOOST_TEST(count == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_megabyte_without_a_blank, *boost::unit_test::label("long")) {
  std::string text;
  while (text.size() < 1000000) text += "thecatsatonthemat";
  for (const std::string& family : families) {
    const auto tokenizer = make_tokenizer(test::read_fixture(family)["tokenizer"]);
    const std::vector<TokenId> ids = tokenizer->encode(text);  // by a quadratic way it would not end in time
    BOOST_TEST(tokenizer->decode(ids).size() == text.size());
  }
}

BOOST_AUTO_TEST_CASE(more_words_than_the_cache_holds, *boost::unit_test::label("long")) {
  const auto tokenizer = make_tokenizer(letters());
  std::string text;
  for (int i = 0; i < 200000; ++i) {
    std::string word;
    for (int n = i; n > 0; n /= 4) word += "abcd"[n % 4];
    text += word + " ";
  }
  const std::vector<TokenId> ids = tokenizer->encode(text);
  BOOST_TEST((tokenizer->encode(text) == ids));
  BOOST_TEST((tokenizer->decode(ids) == text));
}

BOOST_AUTO_TEST_CASE(rules_that_would_run_wild_are_stopped) {
  json description = make_description({"a"}, {});
  description["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(100000, 'a')}};
  const auto blown_up = make_tokenizer(description);
  BOOST_TEST(
      test::mentions(test::data_error_of([&] { (void)blown_up->encode(std::string(10000, 'a')); }), {"normalizer"}));
  description["normalizer"] = nullptr;
  description["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(?:a|aa)+[bc]"}}}, {"behavior", "Isolated"}, {"invert", false}};
  const auto endless = make_tokenizer(description);
  BOOST_TEST(test::mentions(test::data_error_of([&] { (void)endless->encode(std::string(200, 'a')); }),
                            {"regular expression"}));
}

BOOST_AUTO_TEST_CASE(the_fingerprint_tells_what_determines_the_ids) {
  const json sound = test::read_fixture("qwen2")["tokenizer"];
  const std::string fingerprint = make_tokenizer(sound)->fingerprint();
  BOOST_TEST(fingerprint.size() > 30u);
  const auto changed = [&sound](const std::function<void(json&)>& change) {
    json description = sound;
    change(description);
    return make_tokenizer(description)->fingerprint();
  };
  BOOST_TEST(changed([](json& d) { d["decoder"] = nullptr; }) == fingerprint);
  BOOST_TEST(changed([](json& d) { d["truncation"] = {{"max_length", 3}}; }) == fingerprint);
  BOOST_TEST(changed([](json& d) { std::swap(d["model"]["merges"][0], d["model"]["merges"][1]); }) != fingerprint);
  BOOST_TEST(changed([](json& d) { d["model"]["ignore_merges"] = true; }) != fingerprint);
  BOOST_TEST(changed([](json& d) { d["normalizer"] = nullptr; }) != fingerprint);
  BOOST_TEST(changed([](json& d) { d["added_tokens"][0]["rstrip"] = true; }) != fingerprint);
  BOOST_TEST(changed([](json& d) { d["post_processor"] = nullptr; }) != fingerprint);
  BOOST_TEST(changed([](json& d) {
               json& vocab = d["model"]["vocab"];
               std::swap(vocab["A"], vocab["B"]);
             }) != fingerprint);
}

BOOST_AUTO_TEST_CASE(a_folder_is_a_tokenizer) {
  const test::TemporaryFolder folder;
  BOOST_TEST(test::mentions(test::data_error_of([&] { (void)text::load_tokenizer(folder.path()); }),
                            {folder.path(), "no tokenizer.json"}));
  std::ofstream(folder.file("tokenizer.json")) << test::read_fixture("llama2")["tokenizer"].dump();
  std::ofstream(folder.file("tokenizer_config.json")) << R"({"bos_token": "<s>", "eos_token": "</s>"})";
  const auto tokenizer = text::make_tokenizer(folder.path());
  BOOST_TEST(tokenizer->name() == folder.path());
  BOOST_TEST(tokenizer->eos() == 2);
  BOOST_TEST(tokenizer->pad() == 2);
  BOOST_TEST(*tokenizer->specials().bos == 1);
  BOOST_TEST(!tokenizer->specials().pad.has_value());
  std::ofstream(folder.file("tokenizer_config.json")) << "{";
  BOOST_TEST(test::mentions(test::data_error_of([&] { (void)text::make_tokenizer(folder.path()); }),
                            {folder.path(), "tokenizer_config.json: it is not JSON"}));
}

BOOST_AUTO_TEST_SUITE_END()
