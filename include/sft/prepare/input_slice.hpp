// SPDX-License-Identifier: Apache-2.0
#pragma once
// A part of an input, as the library `datasets` writes it behind the name of a split: [:1000], [10%:20%], [-500:].

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace sft::prepare {

/// Where a slice begins or ends. Negative values count from the end.
struct SliceBound {
  std::int64_t value = 0;
  bool is_percent = false;
};

struct InputSlice {
  std::optional<SliceBound> begin, end;  ///< none: that of the input

  /// The half-open range [begin, end) of `count` records. Shares are rounded to the nearest record, halves to even, as
  /// `datasets` does; bounds beyond the input are its own.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range_of(std::int64_t count) const;
  /// "A:B", as parse_input_slice() reads it.
  [[nodiscard]] std::string text() const;
};

/// Reads "A:B", each a number, a percentage or nothing; none: the text is no slice.
[[nodiscard]] std::optional<InputSlice> parse_input_slice(const std::string& text);

}  // namespace sft::prepare
