// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/adapter_config.hpp"

#include <oniguruma.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "sft/config/config.hpp"

namespace sft::hub {

namespace {

std::string message_of(int error, OnigErrorInfo* info = nullptr) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> message{};
  const int size = info == nullptr ? ::onig_error_code_to_str(message.data(), error)
                                   : ::onig_error_code_to_str(message.data(), error, info);
  return {reinterpret_cast<const char*>(message.data()), static_cast<std::size_t>(size)};
}

const OnigUChar* bytes_of(const std::string& text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

}  // namespace

/// A regular expression of Python.
struct TargetModules::Pattern {
  explicit Pattern(const std::string& text) {
    std::array<OnigEncoding, 1> encodings = {ONIG_ENCODING_UTF8};
    ::onig_initialize(encodings.data(), static_cast<int>(encodings.size()));
    OnigErrorInfo info = {};
    // The longest match of all is the whole path wherever any match is.
    const int status = ::onig_new(&regex, bytes_of(text), bytes_of(text) + text.size(), ONIG_OPTION_FIND_LONGEST,
                                  ONIG_ENCODING_UTF8, ONIG_SYNTAX_PYTHON, &info);
    if (status != ONIG_NORMAL) throw std::invalid_argument(message_of(status, &info));
  }
  ~Pattern() { ::onig_free(regex); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  [[nodiscard]] bool matches(const std::string& module) const {
    const OnigUChar* const begin = bytes_of(module);
    const int result = ::onig_match(regex, begin, begin + module.size(), begin, /*region=*/nullptr, ONIG_OPTION_NONE);
    if (result < 0 && result != ONIG_MISMATCH) throw std::invalid_argument(message_of(result));
    return result >= 0 && static_cast<std::size_t>(result) == module.size();
  }

  OnigRegex regex = nullptr;
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
