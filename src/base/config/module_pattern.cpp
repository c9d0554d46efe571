// SPDX-License-Identifier: Apache-2.0
#include "sft/config/module_pattern.hpp"

#include <oniguruma.h>

#include <array>
#include <cstddef>
#include <stdexcept>

namespace sft::config {

namespace {

std::string message_of(int error, OnigErrorInfo* info = nullptr) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> message{};
  const int size = info == nullptr ? ::onig_error_code_to_str(message.data(), error)
                                   : ::onig_error_code_to_str(message.data(), error, info);
  return {reinterpret_cast<const char*>(message.data()), static_cast<std::size_t>(size)};
}

const OnigUChar* bytes_of(const std::string& text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

}  // namespace

struct ModulePattern::Compiled {
  explicit Compiled(const std::string& text) {
    std::array<OnigEncoding, 1> encodings = {ONIG_ENCODING_UTF8};
    ::onig_initialize(encodings.data(), static_cast<int>(encodings.size()));
    OnigErrorInfo info = {};
    // The longest match of all is the whole path wherever any match is.
    const int status = ::onig_new(&regex, bytes_of(text), bytes_of(text) + text.size(), ONIG_OPTION_FIND_LONGEST,
                                  ONIG_ENCODING_UTF8, ONIG_SYNTAX_PYTHON, &info);
    if (status != ONIG_NORMAL) throw std::invalid_argument(message_of(status, &info));
  }
  ~Compiled() { ::onig_free(regex); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  OnigRegex regex = nullptr;
};

ModulePattern::ModulePattern(const std::string& text) : compiled_(std::make_shared<const Compiled>(text)) {}

bool ModulePattern::matches(const std::string& module) const {
  const OnigUChar* const begin = bytes_of(module);
  const int result =
      ::onig_match(compiled_->regex, begin, begin + module.size(), begin, /*region=*/nullptr, ONIG_OPTION_NONE);
  if (result < 0 && result != ONIG_MISMATCH) throw std::invalid_argument(message_of(result));
  return result >= 0 && static_cast<std::size_t>(result) == module.size();
}

}  // namespace sft::config
