// SPDX-License-Identifier: Apache-2.0
#include "text/aligned_text.hpp"

#include <fmt/core.h>

#include "sft/core/error.hpp"
#include "text/utf8.hpp"

namespace sft::text {

namespace {

// No honest rule makes texts much longer: the longest decomposition of Unicode has 11 times the bytes.
constexpr std::size_t max_growth = 64;
constexpr std::size_t min_limit_bytes = std::size_t{1} << 16;

}  // namespace

ByteRange TextView::origin(std::size_t begin, std::size_t end) const {
  if (begin < end) {
    while (begin > 0 && is_continuation(text[begin])) --begin;
    while (end < text.size() && is_continuation(text[end])) ++end;
  }
  if (origins == nullptr) return {input_begin + begin, input_begin + end};
  if (begin < end) return {origins[begin].begin, origins[end - 1].end};
  const std::size_t place = begin > 0 ? origins[begin - 1].end : text.empty() ? 0 : origins[0].begin;
  return {place, place};
}

AlignedText::AlignedText(const TextView& source, bool with_origins)
    : source_(source),
      max_bytes_(source.max_bytes > 0 ? source.max_bytes : max_growth * source.text.size() + min_limit_bytes),
      with_origins_(with_origins) {}

AlignedText AlignedText::repaired(std::string_view input, bool with_origins) {
  AlignedText aligned({.text = input, .at_input_begin = true}, with_origins);
  for (std::size_t place = 0; place < input.size();) {
    const std::size_t size = well_formed_size(input.substr(place));
    aligned.append_source(place, place + size);
    place += size;
    if (place == input.size()) break;
    const std::size_t ill_formed_size = utf8_part_at(input, place).size;
    aligned.append_from(replacement_character, {place, place + ill_formed_size});
    place += ill_formed_size;
  }
  return aligned;
}

void AlignedText::note_begin(std::size_t size, std::size_t source_begin) {
  if (text_.empty() && size > 0) begins_with_source_ = source_begin == 0;
}

void AlignedText::append_source(std::size_t begin, std::size_t end) {
  note_begin(end - begin, begin);
  text_ += source_.text.substr(begin, end - begin);
  if (!with_origins_) return;
  for (std::size_t i = begin; i < end; ++i) {
    origins_.push_back(source_.origins == nullptr ? ByteRange{source_.input_begin + i, source_.input_begin + i + 1}
                                                  : source_.origins[i]);
  }
}

void AlignedText::append(std::string_view bytes, std::size_t begin, std::size_t end) {
  note_begin(bytes.size(), begin);
  append_from(bytes, with_origins_ ? source_.origin(begin, end) : ByteRange{});
}

void AlignedText::append_from(std::string_view bytes, ByteRange origin) {
  if (text_.size() + bytes.size() > max_bytes_) {
    throw_data_error(fmt::format("a text grows to more than {} times its size", max_growth),
                     "the normalizer of its tokenizer makes it so long", "check the normalizer of tokenizer.json");
  }
  text_ += bytes;
  if (with_origins_) origins_.insert(origins_.end(), bytes.size(), origin);
}

TextView AlignedText::view() const {
  return {.text = text_,
          .origins = with_origins_ ? origins_.data() : nullptr,
          .input_begin = source_.input_begin,
          .at_input_begin = source_.at_input_begin && begins_with_source_,
          .max_bytes = max_bytes_};
}

void AlignedText::release() {
  text_ = {};
  origins_ = {};
}

}  // namespace sft::text
