// SPDX-License-Identifier: Apache-2.0
#pragma once
// One record of a JSON-lines file -> tokens and what is trained on, with TRL's meaning of the record's shape.

#include <cstdint>
#include <map>
#include <string>

#include "sft/data/document.hpp"
#include "sft/text/tokenizer.hpp"

namespace sft::data {

struct ExampleOptions {
  bool completion_only_loss = true;  ///< of prompt/completion records: train on the completion alone
  bool assistant_only_loss = false;  ///< of conversations: train on the assistant's turns alone
};

/// How often each of some names was met. The first 64 are told apart, later ones are counted together: keys of records
/// may be data, a new one in every line.
class NameCounts {
 public:
  void add(const std::string& name);

  [[nodiscard]] const std::map<std::string, std::int64_t>& by_name() const { return by_name_; }
  [[nodiscard]] std::int64_t num_others() const { return num_others_; }

 private:
  std::map<std::string, std::int64_t> by_name_;
  std::int64_t num_others_ = 0;
};

/// What records held beside the text that is trained on.
struct RecordCensus {
  NameCounts ignored_fields;  ///< that hold a value and that nothing reads: "id", "messages[].name"
  NameCounts roles;           ///< of messages
};

/// `record` is one JSON object. Its shapes, the first that fits; a field that is null is none:
///   {"prompt": P, "completion": C}  strings: P + C and the end-of-text token; lists of messages: both as one chat, the
///                                   completion beginning with the content of its first message
///   {"messages": [{"role": R, "content": S}, ...]}  as ChatML
///   {"text": S}                     S and the end-of-text token
/// A message may have a "weight" from 0 to 1, which multiplies the loss weight of its tokens, and "train": false, which
/// means weight 0. Throws std::invalid_argument with the reason when the record has no such shape or is not JSON (RFC
/// 8259; a key that stands twice is refused), and when it holds what would change the text but has no form in ChatML:
/// tools and calls of them, reasoning apart from the content, pictures, token ids. All other fields change nothing;
/// they are counted in `census`.
[[nodiscard]] Document make_document(const std::string& record, const text::Tokenizer& tokenizer,
                                     const ExampleOptions& options, RecordCensus& census);

}  // namespace sft::data
