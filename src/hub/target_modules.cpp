// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/target_modules.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "sft/config/config.hpp"

namespace sft::hub {

namespace {

std::string pcre2_message(int error) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  ::pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

PCRE2_SPTR bytes_of(const std::string& text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

/// A regular expression of Python, which PCRE2 reads alike as far as names of modules go.
struct TargetModules::Pattern {
  explicit Pattern(const std::string& text) {
    int error = 0;
    PCRE2_SIZE place = 0;
    code = ::pcre2_compile(bytes_of(text), text.size(), PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error, &place,
                           nullptr);
    if (code == nullptr)
      throw std::invalid_argument(pcre2_message(error) + " at character " + std::to_string(place + 1));
  }
  ~Pattern() { ::pcre2_code_free(code); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  [[nodiscard]] bool matches(const std::string& module) const {
    const std::unique_ptr<pcre2_match_data, decltype(&::pcre2_match_data_free)> data(
        ::pcre2_match_data_create_from_pattern(code, nullptr), &::pcre2_match_data_free);
    const int result = ::pcre2_match(code, bytes_of(module), module.size(), 0, 0, data.get(), nullptr);
    if (result < 0 && result != PCRE2_ERROR_NOMATCH) throw std::invalid_argument(pcre2_message(result));
    return result >= 0;
  }

  pcre2_code* code = nullptr;
};

TargetModules TargetModules::named(std::vector<std::string> names) {
  TargetModules targets;
  targets.names_ = std::move(names);
  return targets;
}

TargetModules TargetModules::matching(const std::string& pattern) {
  TargetModules targets;
  targets.pattern_ = std::make_shared<const Pattern>(pattern);
  return targets;
}

TargetModules TargetModules::all_linear() { return named(config::linear_layer_names()); }

bool TargetModules::contains(const std::string& module) const {
  if (pattern_ != nullptr) return pattern_->matches(module);
  return std::ranges::any_of(names_,
                             [&](const std::string& name) { return module == name || module.ends_with("." + name); });
}

}  // namespace sft::hub
