// SPDX-License-Identifier: Apache-2.0
#pragma once
// The words that rows were written with and that their tokens do not tell.

#include <string>

namespace sft {

/// By name, as the tokenizer has them; all empty where rows do not say it, as those of the byte tokenizer.
struct Markup {
  std::string eos_token;      ///< that ended texts
  std::string pad_token;      ///< that fills rows
  std::string chat_template;  ///< source of the template that wrote conversations

  bool operator==(const Markup&) const = default;
};

}  // namespace sft
