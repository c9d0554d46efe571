// SPDX-License-Identifier: Apache-2.0
#pragma once
// Commands of jq that write records of another form as this program reads them, for refusals to name. Each takes a file
// of JSON lines or of one array.

#include <string>
#include <string_view>

#include "prepare/answers.hpp"
#include "prepare/record.hpp"

namespace sft::prepare {

/// "; `jq ...` puts the thoughts of 'reasoning' before 'answer'", which makes a conversation of the question, that is a
/// text or a list of messages.
[[nodiscard]] std::string advice_on_thoughts(const Json& record, const std::string& question, const Thoughts& thoughts);

/// `jq -c '(arrays[], objects) | PROGRAM' FILE`
[[nodiscard]] std::string jq_command(std::string_view program);

/// The field of a record in a program of jq: .["chat"]
[[nodiscard]] std::string jq_field(const std::string& name);

}  // namespace sft::prepare
