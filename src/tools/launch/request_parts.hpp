// SPDX-License-Identifier: Apache-2.0
#pragma once
// Helpers that the parts of a request's reader share.

#include <functional>
#include <string>

#include "sft/config/parse.hpp"
#include "sft/launch/request.hpp"

namespace sft::launch {

/// The text of a setting; an option without a value is true.
[[nodiscard]] std::string value_of(const config::PlacedOption& setting);

/// Adds the refusal of a setting.
void refuse_setting(Request& request, const config::PlacedOption& setting, const char* why,
                    const std::string& what_to_do);

/// Gives a truth value to `take`; nothing of none, and a refusal of what is no truth value.
void read_truth(Request& request, const config::PlacedOption& setting, const std::function<void(bool)>& take);

/// Takes what is said of the hub that the result is sent to. Whether the setting is about it.
bool take_hub(Request& request, const config::PlacedOption& setting);

/// The key of a size that a planner may choose, of which this is a name; empty: it is none.
[[nodiscard]] std::string size_named(const std::string& name);

/// Whether sft itself resolves the size where it is auto.
[[nodiscard]] bool is_resolved_by_sft(const std::string& size);

}  // namespace sft::launch
