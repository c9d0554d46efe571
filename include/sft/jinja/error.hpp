// SPDX-License-Identifier: Apache-2.0
#pragma once
// What templates are refused with.

#include <stdexcept>
#include <string>

namespace sft::jinja {

/// An error of a template, of its data or of a limit, on one line with the grammar `problem (why it is one): what to
/// do`. The one kind of error that the library throws for what users give it.
class TemplateError : public std::runtime_error {
 public:
  TemplateError(const std::string& problem, const std::string& why, const std::string& what_to_do)
      : std::runtime_error(problem + " (" + why + "): " + what_to_do) {}
};

}  // namespace sft::jinja
