// SPDX-License-Identifier: Apache-2.0
// Characters that Unicode 14 does not know, as characters that it does.

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <vector>

#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace sft::text {

namespace {

struct Range {
  char32_t first, last;
};

/// Marks that have got the property Alphabetic since Unicode 14, young ones and older ones.
constexpr std::array<Range, 21> newly_alphabetic = {
    {{0x363, 0x36f},     {0x897, 0x897},     {0xc04, 0xc04},     {0xcf3, 0xcf3},     {0xf82, 0xf83},
     {0x1dd3, 0x1de6},   {0x10d69, 0x10d69}, {0x10efc, 0x10efc}, {0x11080, 0x11081}, {0x11241, 0x11241},
     {0x113b8, 0x113c0}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca}, {0x113cc, 0x113cd},
     {0x11f00, 0x11f01}, {0x11f03, 0x11f03}, {0x11f34, 0x11f3a}, {0x11f3e, 0x11f40}, {0x1611e, 0x1612e},
     {0x1e08f, 0x1e08f}}};

/// Code points of UTF-8 of one length.
constexpr std::array<Range, 4> lengths = {{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, 0x10FFFF}}};

bool is_newly_alphabetic(char32_t c) {
  return std::any_of(newly_alphabetic.begin(), newly_alphabetic.end(),
                     [c](const Range& range) { return c >= range.first && c <= range.last; });
}

/// What regular expressions ask of a character.
struct Kind {
  std::uint32_t category = 0;  ///< mask of one category
  bool is_alphabetic = false;
  friend bool operator==(const Kind&, const Kind&) = default;
};

constexpr std::uint32_t letter_like = U_GC_L_MASK | U_GC_NL_MASK;

std::uint32_t mask_of(std::string_view category) {
  constexpr std::array<std::pair<std::string_view, std::uint32_t>, 13> masks = {{{"Cf", U_GC_CF_MASK},
                                                                                 {"Ll", U_GC_LL_MASK},
                                                                                 {"Lm", U_GC_LM_MASK},
                                                                                 {"Lo", U_GC_LO_MASK},
                                                                                 {"Lu", U_GC_LU_MASK},
                                                                                 {"Mc", U_GC_MC_MASK},
                                                                                 {"Mn", U_GC_MN_MASK},
                                                                                 {"Nd", U_GC_ND_MASK},
                                                                                 {"No", U_GC_NO_MASK},
                                                                                 {"Pd", U_GC_PD_MASK},
                                                                                 {"Po", U_GC_PO_MASK},
                                                                                 {"Sm", U_GC_SM_MASK},
                                                                                 {"So", U_GC_SO_MASK}}};
  const auto* const found =
      std::find_if(masks.begin(), masks.end(), [category](const auto& entry) { return entry.first == category; });
  return found == masks.end() ? 0 : found->second;
}

/// The kind of a character that Unicode 14 knows, that has not changed since and can stand for others; nothing for any
/// other.
std::optional<Kind> kind_of_old(char32_t c) {
  UVersionInfo age = {};
  u_charAge(static_cast<UChar32>(c), age);
  if (age[0] == 0 || age[0] > 14 || is_newly_alphabetic(c)) return std::nullopt;
  const Kind kind = {U_GET_GC_MASK(static_cast<UChar32>(c)),
                     u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC) != 0};
  // A mark or symbol that has another case would match what the character that it stands for does not.
  const bool is_cased = u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CHANGES_WHEN_CASEMAPPED) != 0;
  return is_cased && (kind.category & letter_like) == 0 ? std::nullopt : std::optional(kind);
}

/// The nearest one to `range` that is of this kind and as long; `range.first` if there is none.
char32_t stand_in_of(const Range& range, const Kind& kind) {
  const auto* const length =
      std::find_if(lengths.begin(), lengths.end(), [&](const Range& each) { return range.first <= each.last; });
  for (char32_t distance = 1; distance <= length->last; ++distance) {
    if (range.first >= length->first + distance && kind_of_old(range.first - distance) == kind) {
      return range.first - distance;
    }
    if (range.last + distance <= length->last && kind_of_old(range.last + distance) == kind) {
      return range.last + distance;
    }
  }
  return range.first;
}

struct StandIn {
  Range range;
  char32_t character;
};

/// In order of their ranges.
std::vector<StandIn> make_stand_ins() {
  std::vector<std::pair<char32_t, Kind>> young;
  for (const UnicodeAddition& addition : unicode_additions()) {
    const std::uint32_t category = mask_of(addition.category);
    for (char32_t c = addition.first; c <= addition.last; ++c) {
      young.push_back({c, {category, (category & letter_like) != 0 || is_newly_alphabetic(c)}});
    }
  }
  for (const Range& range : newly_alphabetic) {
    for (char32_t c = range.first; c <= range.last; ++c) {
      UVersionInfo age = {};
      u_charAge(static_cast<UChar32>(c), age);
      if (age[0] != 0 && age[0] <= 14) young.push_back({c, {U_GET_GC_MASK(static_cast<UChar32>(c)), true}});
    }
  }
  std::ranges::sort(young, {}, [](const auto& each) { return each.first; });
  std::vector<StandIn> stand_ins;
  for (std::size_t begin = 0; begin < young.size();) {
    std::size_t end = begin + 1;
    while (end < young.size() && young[end].first == young[end - 1].first + 1 &&
           young[end].second == young[begin].second)
      ++end;
    const Range range = {young[begin].first, young[end - 1].first};
    stand_ins.push_back({range, stand_in_of(range, young[begin].second)});
    begin = end;
  }
  return stand_ins;
}

}  // namespace

std::string replace_young_characters(std::string_view text) {
  static const std::vector<StandIn> stand_ins = make_stand_ins();
  std::string replaced;
  std::size_t done = 0;
  for (std::size_t place = 0; place < text.size(); ++place) {
    const auto byte = static_cast<unsigned char>(text[place]);
    if (byte < 0xE0 && byte != 0xCD) continue;  // of two bytes, only some of those that begin with 0xCD
    const Character c = character_at(text, place);
    const auto next =
        std::upper_bound(stand_ins.begin(), stand_ins.end(), c.code_point,
                         [](char32_t code_point, const StandIn& each) { return code_point < each.range.first; });
    if (next == stand_ins.begin() || c.code_point > std::prev(next)->range.last) continue;
    replaced += text.substr(done, place - done);
    append_character(replaced, std::prev(next)->character);
    done = place + c.size;
  }
  if (done > 0) replaced += text.substr(done);
  return replaced;
}

}  // namespace sft::text
