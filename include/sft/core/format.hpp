// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers as people read them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace sft {

/// What snprintf writes, up to 255 characters.
template <class... Arguments>
[[nodiscard]] std::string format_text(const char* pattern, Arguments... arguments) {
  std::array<char, 256> buffer;
  std::snprintf(buffer.data(), buffer.size(), pattern, arguments...);
  return buffer.data();
}

/// "1.25 GiB", "310.0 MiB", "17 B"
[[nodiscard]] std::string format_bytes(std::size_t bytes);

/// "1.25 M", "40.1 k", "812"
[[nodiscard]] std::string format_count(double count);

/// "1:02:03", "4:05"
[[nodiscard]] std::string format_duration(double time_s);

/// "0.42 s"
[[nodiscard]] std::string format_seconds(double time_s);

/// "1 row", "2 rows": for nouns that take an s.
[[nodiscard]] std::string plural(std::int64_t count, const std::string& noun);

}  // namespace sft
