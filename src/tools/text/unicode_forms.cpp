// SPDX-License-Identifier: Apache-2.0
#include "text/aligned_text.hpp"

#include <unicode/bytestream.h>
#include <unicode/edits.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <string>

namespace sft::text {

namespace {

void check(UErrorCode status) {
  if (U_FAILURE(status) != 0) throw std::runtime_error(std::string("ICU: ") + u_errorName(status));
}

const icu::Normalizer2* plain_normalizer(Form form, UErrorCode& status) {
  switch (form) {
    case Form::nfc:
      return icu::Normalizer2::getNFCInstance(status);
    case Form::nfd:
      return icu::Normalizer2::getNFDInstance(status);
    case Form::nfkc:
      return icu::Normalizer2::getNFKCInstance(status);
    case Form::nfkd:
      return icu::Normalizer2::getNFKDInstance(status);
  }
  throw std::logic_error("no normalization form");
}

/// Characters that were there in Unicode 9.
const icu::UnicodeSet& old_characters() {
  static const std::unique_ptr<const icu::UnicodeSet> characters = [] {
    UErrorCode status = U_ZERO_ERROR;
    auto set = std::make_unique<icu::UnicodeSet>(icu::UnicodeString::fromUTF8("[:age=9.0:]"), status);
    check(status);
    set->freeze();
    return set;
  }();
  return *characters;
}

const icu::FilteredNormalizer2& normalizer_for(Form form) {
  static const std::array<std::unique_ptr<const icu::FilteredNormalizer2>, 4> normalizers = [] {
    std::array<std::unique_ptr<const icu::FilteredNormalizer2>, 4> made;
    for (const Form each : {Form::nfc, Form::nfd, Form::nfkc, Form::nfkd}) {
      UErrorCode status = U_ZERO_ERROR;
      const icu::Normalizer2* const plain = plain_normalizer(each, status);
      check(status);
      made[static_cast<std::size_t>(each)] = std::make_unique<icu::FilteredNormalizer2>(*plain, old_characters());
    }
    return made;
  }();
  return *normalizers[static_cast<std::size_t>(form)];
}

/// Whether no byte can begin a character that the form changes: all below U+0300 for NFC, ASCII for the others.
bool is_trivially_normal(Form form, std::string_view text) {
  const unsigned char limit = form == Form::nfc ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [limit](char c) { return static_cast<unsigned char>(c) < limit; });
}

}  // namespace

TextView to_unicode_form(Form form, const TextView& text, TextStore& store, bool with_origins) {
  if (is_trivially_normal(form, text.text)) return text;
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized);
  icu::Edits edits;
  UErrorCode status = U_ZERO_ERROR;
  normalizer_for(form).normalizeUTF8(0, icu::StringPiece(text.text.data(), static_cast<std::int32_t>(text.text.size())),
                                     sink, &edits, status);
  check(status);
  if (!edits.hasChanges()) return text;
  AlignedText& changed = store.emplace_back(text, with_origins);
  const std::string_view all = normalized;
  for (icu::Edits::Iterator edit = edits.getFineIterator(); edit.next(status) != 0;) {
    const std::size_t begin = edit.sourceIndex();
    const std::size_t end = begin + static_cast<std::size_t>(edit.oldLength());
    if (edit.hasChange() != 0) {
      changed.append(
          all.substr(static_cast<std::size_t>(edit.destinationIndex()), static_cast<std::size_t>(edit.newLength())),
          begin, end);
    } else {
      changed.append_source(begin, end);
    }
  }
  check(status);
  return changed.view();
}

}  // namespace sft::text
