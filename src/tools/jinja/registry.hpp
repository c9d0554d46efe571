// SPDX-License-Identifier: Apache-2.0
#pragma once
// The filters, tests, methods and global names that templates may use.

#include <map>
#include <string_view>

#include "jinja/syntax.hpp"

namespace sft::jinja {

/// nullptr if there is none of that name.
[[nodiscard]] FilterFunction find_filter(std::string_view name);
[[nodiscard]] TestFunction find_test(std::string_view name);

/// What `value.name` is as a method of the value's type.
struct MethodLookup {
  enum class Kind : std::uint8_t {
    none,         ///< the type has no attribute of that name
    method,       ///< `call`
    forbidden,    ///< it would change the value: undefined, as in Jinja's sandbox
    unsupported,  ///< Python has it, and this engine has not
  };
  Kind kind = Kind::none;
  Method call = nullptr;
};
[[nodiscard]] MethodLookup find_method(const Value& value, std::string_view name);
/// The methods of strings, by name.
[[nodiscard]] const std::map<std::string_view, Method>& text_methods();

/// The value of a global name; nullptr if there is none of that name.
[[nodiscard]] const Value* find_global(std::string_view name);

}  // namespace sft::jinja
