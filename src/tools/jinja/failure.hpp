// SPDX-License-Identifier: Apache-2.0
#pragma once
// What goes wrong inside a template, before the line is known.

#include <stdexcept>
#include <string>

namespace sft::jinja {

/// Thrown by operations on values; whoever knows the line makes it a TemplateError.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& why, std::string what_to_do = "correct the data or the template");
  [[nodiscard]] const std::string& what_to_do() const { return what_to_do_; }

 private:
  std::string what_to_do_;
};

/// Throws the TemplateError `the template fails at line LINE (WHY): WHAT_TO_DO`, on one line of text.
[[noreturn]] void throw_at_line(int line, const std::string& why, const std::string& what_to_do);

/// Throws the Failure `WHAT is not supported`: for what Jinja or Python has and this engine has not.
[[noreturn]] void fail_unsupported(const std::string& what);

}  // namespace sft::jinja
