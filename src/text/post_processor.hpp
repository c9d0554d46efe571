// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is put around the tokens of a text when special tokens are wanted: the "post_processor" of tokenizer.json.

#include <vector>

#include "sft/text/tokenizer.hpp"
#include "text/json_fields.hpp"

namespace sft::text {

struct PostProcessor {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};

/// Of null: nothing. Throws std::invalid_argument with the reason if it is damaged or not supported.
[[nodiscard]] PostProcessor make_post_processor(const Json& description);

}  // namespace sft::text
