// SPDX-License-Identifier: Apache-2.0
#pragma once
// The `rope_scaling` object of a Hugging Face config.json <-> RopeScaling.

#include <string>
#include <vector>

#include "sft/config/config.hpp"

namespace sft::config {

/// Reads the JSON object; "", "none", "null" and {"rope_type": "default"} mean no scaling. The older field name `type`
/// is read too; the attention_factor of yarn and longrope follows from the other fields where it is not given. Throws
/// std::invalid_argument that says what is wrong: no JSON object, unknown kind or field, a field missing, no number, or
/// out of range.
[[nodiscard]] RopeScaling parse_rope_scaling(const std::string& text);

/// The fields beside rope_type that parse_rope_scaling knows in an object of this kind. Throws as it does for a kind
/// that is not supported.
[[nodiscard]] std::vector<std::string> rope_scaling_fields(const std::string& kind);

/// The inverse of parse_rope_scaling; empty without scaling.
[[nodiscard]] std::string to_json(const RopeScaling& scaling);

}  // namespace sft::config
