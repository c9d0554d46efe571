// SPDX-License-Identifier: Apache-2.0
#pragma once
// One record -> token ids and what is trained on, with TRL's meaning of the record's shape.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sft/core/markup.hpp"
#include "sft/prepare/document.hpp"
#include "sft/text/tokenizer.hpp"

namespace sft::prepare {

/// What turns text into tokens and conversations into text.
struct TextOptions {
  std::string tokenizer = "byte";  ///< or the folder of a model
  std::string chat_template_path;  ///< a Jinja file; "": the template of the folder, of "byte" ChatML
  std::string chat_template;       ///< such a template itself; "": that of the file
  std::string eos_token;           ///< name of a token of the vocabulary; "": the tokenizer's own
  std::string pad_token;           ///< as eos_token
  /// What templates print as the date of today.
  std::chrono::system_clock::time_point template_date = std::chrono::system_clock::now();
};

struct ExampleOptions {
  /// Train on the completion alone. Unset: of records with a prompt and a completion; masks of `completion_mask` are
  /// obeyed only where it is set.
  std::optional<bool> completion_only_loss = std::nullopt;
  bool assistant_only_loss = false;  ///< of conversations: train on the assistant's turns alone
  /// With assistant_only_loss: names of tokens, "eos" for the one that ends texts. A turn is what its message says and
  /// the one of these behind it, as with Axolotl; empty: what the template writes of it, as with TRL.
  std::vector<std::string> end_of_turn = {};
  /// A Jinja template that makes the prompt of every record from its fields; `output` is the completion. "": there is
  /// none. Tokens of the two are made apart. Records without an `output`, or without a field that it prints, are
  /// refused.
  std::string prompt_template = {};
  std::string dataset_text_field = "text";
  /// Fields of records that are read under another name: (theirs, ours). Before all else.
  std::vector<std::pair<std::string, std::string>> rename_fields = {};
  std::vector<std::string> columns = {};        ///< fields of records that are read, by their own names; empty: all
  std::vector<std::string> ignore_fields = {};  ///< of records and messages, to be dropped before anything is read
};

/// How often each of some names was met. The first 64 are told apart, later ones are counted together: keys of records
/// may be data, a new one in every line.
class NameCounts {
 public:
  void add(const std::string& name, std::int64_t count = 1);
  void add(const NameCounts& others);

  [[nodiscard]] const std::map<std::string, std::int64_t>& by_name() const { return by_name_; }
  [[nodiscard]] std::int64_t num_others() const { return num_others_; }

 private:
  std::map<std::string, std::int64_t> by_name_;
  std::int64_t num_others_ = 0;
};

/// What records held beside the text that is trained on, and what about them their owner may not have meant.
struct RecordCensus {
  NameCounts shapes;                      ///< "messages", "prompt-completion", ...
  NameCounts ignored_fields;              ///< that hold a value and that nothing reads: "id", "messages[].name"
  NameCounts dropped_fields;              ///< that hold a value, by `columns` and `ignore_fields`
  NameCounts roles;                       ///< of messages, after those of ShareGPT were mapped
  std::int64_t num_split_prompts = 0;     ///< whose tokens are not the first ones of prompt and completion together
  std::int64_t num_ignored_masks = 0;     ///< `completion_mask` without completion_only_loss
  std::int64_t num_empty_tool_lists = 0;  ///< `tools: []`, which some templates print
  std::int64_t num_plain_calls = 0;       ///< turns of ShareGPT that call tools by their role and not in their text
  std::int64_t num_hidden_contents = 0;   ///< messages with calls of tools whose content the template leaves out
  std::int64_t num_unmarked_chats = 0;    ///< conversations in which assistant_only_loss finds no token of an assistant

  void add(const RecordCensus& more);
};

/// Makes documents of records. Immutable: threads may use one object at the same time.
class ExampleMaker {
 public:
  /// Reads the files of the tokenizer and the chat template: a data Error where they cannot be used, a configuration
  /// Error for a name that does not exist.
  ExampleMaker(const TextOptions& text, ExampleOptions options);
  ~ExampleMaker();

  /// `record` is one JSON object. Its shapes, the first that fits; a field that is null is none:
  ///   {"input_ids": [...]}            tokens as they are, with "labels", or "completion_mask" and "assistant_masks"
  ///   {"prompt": P, "completion": C}  strings: P + C and the end-of-text token; lists of messages: both as one chat
  ///   {"messages": [{"role": R, "content": S}, ...]}  as the chat template writes it
  ///   {"conversations": [{"from": R, "value": S}, ...]}  the same, roles mapped (ShareGPT)
  ///   {"instruction": I, "input": X, "output": O}  a prompt of the user, I and X, and a completion (Alpaca)
  ///   {"text": S}                     S and the end-of-text token
  /// A message may have a "weight" from 0 to 1, which multiplies the loss weight of its tokens, and "train": false,
  /// which means weight 0; docs/data.md has the fields and roles of other formats. Throws std::invalid_argument with
  /// the reason when the record has no such shape or is not JSON (RFC 8259 with Python's NaN and Infinity; a key that
  /// stands twice is refused), when the template refuses it, and when it holds what would change the text but is not
  /// shown: pictures, turns that the template leaves out, and what it has no words for (ChatML: tools and calls of
  /// them, reasoning apart from the content), unless `ignore_fields` names the field. All other fields change nothing;
  /// they are counted in `census`. Throws an Error where the fault is the folder's, not the record's: a token that the
  /// model has no row for, no chat template, no token that ends a text.
  [[nodiscard]] Document make(std::string record, RecordCensus& census) const;

  [[nodiscard]] const text::Tokenizer& tokenizer() const;
  /// The vocabulary's size in the model's config.json where there is one, else the tokenizer's: every id is below it.
  [[nodiscard]] std::int64_t vocab_size() const;
  [[nodiscard]] std::int32_t pad_token_id() const;
  /// -1 where the tokenizer has none.
  [[nodiscard]] std::int32_t eos_token_id() const;
  /// The markup that a model trained on these documents is left with; empty for the byte tokenizer.
  [[nodiscard]] const Markup& markup() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace sft::prepare
