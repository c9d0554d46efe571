// SPDX-License-Identifier: Apache-2.0
#include "amounts.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::apps {

std::uint64_t parse_size(const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 9> units{{{"", 1.0},
                                                                 {"B", 1.0},
                                                                 {"KB", 1e3},
                                                                 {"MB", 1e6},
                                                                 {"GB", 1e9},
                                                                 {"TB", 1e12},
                                                                 {"KIB", 0x1p10},
                                                                 {"MIB", 0x1p20},
                                                                 {"GIB", 0x1p30}}};
  double number = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  std::string unit(stop, end);
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size() : unit.find_first_not_of(' '));
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto found = std::ranges::find_if(units, [&](const auto& known) { return unit == known.first; });
  const double bytes = found == units.end() ? 0.0 : number * found->second;
  if (error != std::errc{} || !(bytes >= 1.0 && bytes <= 0x1p62)) {
    throw_config_error(fmt::format("\"{}\" is no size", text),
                       "a size is a number with B, KB, MB, GB, TB, KiB, MiB or GiB", "give one such as 5GB");
  }
  return static_cast<std::uint64_t>(bytes);
}

std::int64_t parse_row_length(const std::string& text) {
  constexpr std::int64_t kibi = 1024, most = std::int64_t{1} << 30;
  const bool is_kibi = !text.empty() && (text.back() == 'k' || text.back() == 'K');
  std::int64_t length = 0;
  try {
    config::read(is_kibi ? text.substr(0, text.size() - 1) : text, length);
  } catch (const std::invalid_argument&) {
    length = 0;
  }
  if (length < 1 || length > most) {
    throw_config_error(fmt::format("`--max_length {}` is no length of a row", text),
                       "it is a whole number of tokens from 1", "give one such as 8192 or 32k");
  }
  return is_kibi ? length * kibi : length;
}

}  // namespace sft::apps
