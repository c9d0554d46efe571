// SPDX-License-Identifier: Apache-2.0
// Regular expressions with the meaning that they have in Oniguruma's syntax and Unicode 16, and the splitters written
// by hand.
#include "text/regex.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <random>
#include <stdexcept>

#include "text/known_patterns.hpp"
#include "text/split_behavior.hpp"
#include "text/utf8.hpp"

using namespace sft::text;

namespace boost::test_tools::tt_detail {
template <>
struct print_log_value<ByteRange> {
  void operator()(std::ostream& stream, const ByteRange& range) const { stream << range.begin << "-" << range.end; }
};
}  // namespace boost::test_tools::tt_detail

namespace {

/// The matches, with a bar behind each.
std::string matches_of(const std::string& pattern, const std::string& text) {
  std::vector<ByteRange> matches;
  Regex(pattern).find_all(text, matches);
  std::string all;
  for (const ByteRange& match : matches) all += text.substr(match.begin, match.end - match.begin) + "|";
  return all;
}

std::string parts_of(SplitBehavior behavior, bool invert) {
  const std::string text = "a--b-";
  std::vector<ByteRange> parts;
  split_at({{1, 2}, {2, 3}, {4, 5}}, text.size(), behavior, invert, parts);
  std::string all;
  for (const ByteRange& part : parts) all += text.substr(part.begin, part.end - part.begin) + "|";
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(regex)

BOOST_AUTO_TEST_CASE(letters_of_newer_unicode_are_letters) {
  BOOST_TEST(matches_of(R"(\p{L}+)", "a\U00031350\U0002EBF0b\U00010D50") == "a\U00031350\U0002EBF0b\U00010D50|");
  BOOST_TEST(matches_of(R"([^\p{L}]+)", "\U00031350!") == "!|");
  BOOST_TEST(matches_of(R"(\P{L}+)", "\U00031350!") == "!|");
  BOOST_TEST(matches_of(R"(\p{^Lu}+)", "aB\uA7CB") == "a|");
}

BOOST_AUTO_TEST_CASE(classes_have_rubys_members) {
  BOOST_TEST(matches_of(R"(\s+)",
                        "a\u180Eb\u0085\u3000c\u200Bd\x1C"
                        "e \n") == "\u0085\u3000| \n|");
  BOOST_TEST(matches_of(R"([\S]+)", "ab c") == "ab|c|");
  BOOST_TEST(matches_of(R"(\w+)", "e\u0301_\u203F1\u00B2-") == "e\u0301_\u203F1\u00B2|");
  BOOST_TEST(matches_of(R"(\p{Han}+)", "\u3001\u6F22\U00031350\u3042") == "\u6F22\U00031350|");
  BOOST_TEST(matches_of(R"(\h+)", "xx fF0g") == "fF0|");
  BOOST_TEST(matches_of(R"([[:alpha:]]+)", "a\u0367\u0301\U00011F02") == "a\u0367|\U00011F02|");
  BOOST_TEST(matches_of(R"([[:alpha:]_]+)", "ab_1") == "ab_|");
  BOOST_TEST(matches_of(R"([a[bc]]+)", "xabcy") == "abc|");
  BOOST_TEST(matches_of(R"([^(\s|[.,])]+)", "a(b [c") == "a|b|[c|");
  BOOST_TEST(matches_of(R"(\bb\b)", "b ab e\u0301b b") == "b|b|");
  BOOST_TEST(matches_of("\\u0061\\x62\\x{63}\\v", "abc\x0B") == "abc\x0B|");
}

BOOST_AUTO_TEST_CASE(quantifiers_after_counts_are_quantifiers) {
  BOOST_TEST(matches_of(R"(\p{N}{1,3}+)", "1234567") == "1234567|");
  BOOST_TEST(matches_of(R"(\p{N}{1,3})", "1234567") == "123|456|7|");
  BOOST_TEST(matches_of(R"((?:ab){,2}c)", "ababc") == "ababc|");
  BOOST_TEST(matches_of(R"((a|b){2}+)", "abab") == "abab|");
  BOOST_TEST(matches_of("a{x}", "a{x}") == "a{x}|");
  BOOST_TEST(matches_of("a?+a", "aab") == "aa|");
}

BOOST_AUTO_TEST_CASE(lines_and_modes) {
  BOOST_TEST(matches_of("^x|y$", "x\nx y\ny") == "x|x|y|y|");
  BOOST_TEST(matches_of(".+", "a\nb") == "a|b|");
  BOOST_TEST(matches_of("(?m:.+)", "a\nb") == "a\nb|");
  BOOST_TEST(matches_of("(?i:'s)", "'S'\u017F") == "'S|'\u017F|");
}

BOOST_AUTO_TEST_CASE(empty_matches_do_not_follow_another_match) { BOOST_TEST(matches_of("x*", "axxb") == "|xx||"); }

BOOST_AUTO_TEST_CASE(sets_groups_and_modes_are_read_as_by_the_reference) {
  // As PyPI's tokenizers 0.23.3 splits them.
  BOOST_TEST(matches_of("[a-d&&[^c]]+", "abcd") == "ab|d|");
  BOOST_TEST(matches_of("[a[^b]]+", "abcx") == "a|cx|");
  BOOST_TEST(matches_of(R"((?<n>a)\k<n>)", "aab") == "aa|");
  BOOST_TEST(matches_of("(?x) a b # c\n", "ab a b") == "ab|");
  BOOST_TEST(matches_of(R"([\W]+)", "a, b") == ", |");
  BOOST_TEST(matches_of("[[:punct:]]+", "a.,$\U0001F600b") == ".,$\U0001F600|");
  BOOST_TEST(matches_of(R"([\p{Lu}\p{Lo}\p{M}&&[^\p{Han}]]+)", "AB\u6F22C\u3042b\U00031350") == "AB|C\u3042|");
  BOOST_TEST(matches_of("[^[:punct:]x]+", "!$ax\u00E9^") == "a|\u00E9|");
  BOOST_TEST(matches_of("[[:^punct:]]+", "!$a|\u00E9[:") == "a|\u00E9|");
  BOOST_TEST(matches_of("[]a[:digit:]]+R?", "]a1R[") == "]a1R|");
  BOOST_TEST(matches_of(R"(\R*[ab]*)", "x\na\r\n\n") == "|\na|\r\n\n|");
  BOOST_TEST(matches_of(R"(\s*\R+)", "x \n\n") == " \n\n|");
  BOOST_TEST(matches_of(R"(\X)", "e\u0301a") == "e\u0301|a|");
}

BOOST_AUTO_TEST_CASE(young_characters_have_their_category_and_block) {
  BOOST_TEST(matches_of(R"(\p{So}+)", "a\U0001FAE8\U0001FAE7!") == "\U0001FAE8\U0001FAE7|");
  BOOST_TEST(matches_of("[\U0001F300-\U0001FAFF]+", "a\U0001FAE8!") == "\U0001FAE8|");
  BOOST_TEST(matches_of(R"(\p{Lao}+)", "\u0E81\u0ECE!") == "\u0E81\u0ECE|");
  BOOST_TEST(matches_of(R"([[:alnum:]]+)", "a\u0363\U00011F50-") == "a\u0363\U00011F50|");
  BOOST_TEST(matches_of(R"(\d+)", "1\U00011F50\u0663x") == "1\U00011F50\u0663|");
  BOOST_TEST(matches_of(R"(\bb)", "a\u0897b b") == "b|");
  BOOST_TEST(matches_of("(?i)[[:upper:]]+", "A\u0363a") == "A|a|");
}

BOOST_AUTO_TEST_CASE(what_is_no_expression_is_refused) {
  for (const char* pattern : {"(", ")", "[a", "\\k<n>", "\\", "*", "\\p{Nonsense}"}) {
    BOOST_TEST_CONTEXT(pattern) { BOOST_CHECK_THROW(Regex{pattern}, std::invalid_argument); }
  }
}

BOOST_AUTO_TEST_CASE(long_matches_need_no_stack) {
  const std::string text(1000000, 'a');
  BOOST_TEST(matches_of("(?:a|b)+", text).size() == text.size() + 1);
}

BOOST_AUTO_TEST_CASE(splitters_by_hand_cut_where_the_expressions_do) {
  const std::vector<std::string> pieces = {
      "a",          "b",          "S",      "'",      "'s",     "'LL",     "'v",         "e",
      "1",          "23",         "\u00B2", " ",      "  ",     "\n",      "\r",         "\t",
      "!",          "?",          "_",      "\u00E9", "\u3000", "\u0301",  "\u4E2D",     "\u017F",
      "\U0001F642", "\U00031350", "\u00A0", "\u2028", "\u0663", "'\u017F", "\U0001E4F3", "d"};
  const std::string qwen2 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  std::string llama3 = qwen2;
  llama3.replace(llama3.find(R"(\p{N}|)"), 6, R"(\p{N}{1,3}|)");
  std::mt19937 generator(7);
  for (const std::string& pattern : {std::string(gpt2_pattern), qwen2, llama3}) {
    const WordCutter cutter = find_word_cutter(pattern);
    BOOST_REQUIRE(cutter != nullptr);
    const Regex expression(pattern);
    std::vector<ByteRange> by_hand, by_expression;
    for (int i = 0; i < 20000; ++i) {
      std::string text;
      for (std::size_t n = generator() % 12; n > 0; --n) text += pieces[generator() % pieces.size()];
      cutter(text, by_hand);
      expression.find_all(text, by_expression);
      if (by_hand != by_expression) {
        BOOST_TEST_CONTEXT(text) { BOOST_TEST(by_hand == by_expression, boost::test_tools::per_element()); }
      }
    }
  }
  BOOST_TEST((find_word_cutter("x") == nullptr));
}

BOOST_AUTO_TEST_CASE(delimiters_go_stay_or_join_a_neighbour) {
  BOOST_TEST(parts_of(SplitBehavior::removed, false) == "a|b|");
  BOOST_TEST(parts_of(SplitBehavior::removed, true) == "-|-|-|");
  BOOST_TEST(parts_of(SplitBehavior::isolated, false) == "a|-|-|b|-|");
  BOOST_TEST(parts_of(SplitBehavior::merged_with_previous, false) == "a-|-|b-|");
  BOOST_TEST(parts_of(SplitBehavior::merged_with_next, false) == "a|-|-b|-|");
  BOOST_TEST(parts_of(SplitBehavior::contiguous, false) == "a|--|b|-|");
}

BOOST_AUTO_TEST_SUITE_END()
