// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/input_slice.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace sft::prepare {

namespace {

/// Reads one side of a slice into `bound`. Whether it can be one.
bool read_bound(std::string_view text, std::optional<SliceBound>& bound) {
  if (text.empty()) return true;
  SliceBound read;
  read.is_percent = text.back() == '%';
  if (read.is_percent) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read.value);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  constexpr std::int64_t whole = 100;
  if (read.is_percent && std::abs(read.value) > whole) return false;
  bound = read;
  return true;
}

std::int64_t position_of(const SliceBound& bound, std::int64_t count) {
  constexpr double percent = 100.0;
  const std::int64_t position =
      bound.is_percent ? std::llrint(static_cast<double>(bound.value) * static_cast<double>(count) / percent)
                       : bound.value;
  return std::clamp(position < 0 ? position + count : position, std::int64_t{0}, count);
}

}  // namespace

std::pair<std::int64_t, std::int64_t> InputSlice::range_of(std::int64_t count) const {
  const std::int64_t first = begin ? position_of(*begin, count) : 0;
  return {first, std::max(first, end ? position_of(*end, count) : count)};
}

std::string InputSlice::text() const {
  const auto of_bound = [](const std::optional<SliceBound>& bound) {
    return bound ? std::to_string(bound->value) + (bound->is_percent ? "%" : "") : std::string();
  };
  return of_bound(begin) + ":" + of_bound(end);
}

std::optional<InputSlice> parse_input_slice(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  InputSlice slice;
  const std::string_view all = text;
  if (!read_bound(all.substr(0, colon), slice.begin) || !read_bound(all.substr(colon + 1), slice.end)) {
    return std::nullopt;
  }
  return slice;
}

}  // namespace sft::prepare
