// SPDX-License-Identifier: Apache-2.0
#pragma once
// The methods of strings.

#include <map>
#include <string_view>

#include "jinja/value.hpp"

namespace sft::jinja {

/// By name.
[[nodiscard]] const std::map<std::string_view, Method>& text_methods();

}  // namespace sft::jinja
