// SPDX-License-Identifier: Apache-2.0
#pragma once
// Training targets where a turn is the text of its message and the token after it that ends the turn.

#include <span>
#include <vector>

#include "prepare/record.hpp"
#include "sft/jinja/template.hpp"
#include "sft/text/tokenizer.hpp"

namespace sft::prepare {

/// For each token of `encoding`, of the text `rendered` of `messages`, whether the assistant is trained on it as
/// Axolotl does: what its message says, and the first of the tokens `ends` where it stands at most three tokens behind
/// that. Of a message with tool calls what the template writes around them is trained on as well, as far as `within`,
/// the tokens of the assistant's turns, has it.
[[nodiscard]] std::vector<bool> tokens_said(const Json& messages, const jinja::Rendered& rendered,
                                            const text::Encoding& encoding, std::vector<bool> within,
                                            std::span<const text::TokenId> ends);

}  // namespace sft::prepare
