// SPDX-License-Identifier: Apache-2.0
#pragma once
// The names of a record's fields tell what they hold where nothing else does.

#include <string>
#include <string_view>
#include <vector>

namespace sft::prepare {

/// The words of a name, in small letters: "messages[].isTrained" is messages, "", "", is, trained.
[[nodiscard]] std::vector<std::string> words_of_name(std::string_view name);

/// Whether a field of this name holds what a model thinks before it answers: "deepseek_reasoning", "Complex_CoT".
[[nodiscard]] bool names_thoughts(std::string_view name);

/// Whether a field of this name holds an answer: "deepseek_solution", "Response".
[[nodiscard]] bool names_answer(std::string_view name);

}  // namespace sft::prepare
