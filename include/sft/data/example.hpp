#pragma once
// One record of a JSON-lines file -> tokens and what is trained on, with TRL's meaning of the record's shape.

#include <string>

#include "sft/data/document.hpp"
#include "sft/text/tokenizer.hpp"

namespace sft::data {

struct ExampleOptions {
  bool completion_only_loss = true;  ///< of prompt/completion records: train on the completion alone
  bool assistant_only_loss = false;  ///< of conversations: train on the assistant's turns alone
};

/// `record` is one JSON object. Its shapes, the first that fits; other keys are ignored:
///   {"prompt": P, "completion": C}  strings: P + C and the end-of-text token; lists of messages: both as one chat, the
///                                   completion beginning with the content of its first message
///   {"messages": [{"role": R, "content": S}, ...]}  as ChatML
///   {"text": S}                     S and the end-of-text token
/// Throws std::invalid_argument with the reason when it is none of them, or not JSON.
[[nodiscard]] Document make_document(const std::string& record, const text::Tokenizer& tokenizer,
                                     const ExampleOptions& options);

}  // namespace sft::data
