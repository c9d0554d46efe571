// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which variable a name means.

#include "jinja/syntax.hpp"

namespace sft::jinja {

/// Binds every name of `syntax` to a place and fills the scopes, by Jinja's rules: loops, macros and blocks with an end
/// of their own have a scope, conditions have none; a scope sees the variables of those around it and assigns to its
/// own; what no scope assigns is looked up in the context. Refuses, by line, filters and tests that do not exist,
/// unless a condition may keep them from being used.
void bind_names(Syntax& syntax);

}  // namespace sft::jinja
