// SPDX-License-Identifier: Apache-2.0
#pragma once
// A number of things in words.

#include <cstdint>
#include <string>

namespace sft {

/// "1 row", "2 rows": for nouns that take an s.
[[nodiscard]] inline std::string plural(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace sft
