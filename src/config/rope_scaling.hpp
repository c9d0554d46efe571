// SPDX-License-Identifier: Apache-2.0
#pragma once
// The `rope_scaling` object of a Hugging Face config.json <-> RopeScaling.

#include <string>

#include "sft/config/config.hpp"

namespace sft::config {

/// Reads the JSON object; "", "none", "null" and {"rope_type": "default"} mean no scaling. The older field name `type`
/// is read too. Throws std::invalid_argument that says what is wrong: no JSON object, unknown kind or field, a field
/// missing, no number, or out of range.
[[nodiscard]] RopeScaling parse_rope_scaling(const std::string& text);

/// The inverse; empty without scaling.
[[nodiscard]] std::string to_json(const RopeScaling& scaling);

}  // namespace sft::config
