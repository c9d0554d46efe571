// SPDX-License-Identifier: Apache-2.0
#pragma once
// tokenizer_config.json and its neighbours in a folder that is being written.

#include <cstdint>
#include <optional>
#include <string>

namespace sft::hub {

/// Rewrites what transformers 5 saved so that version 4, and with it llama.cpp's converter, makes the same ids of a
/// text: classes and fields that only version 5 has get the names of version 4, which version 5 reads as well. Files of
/// version 4, and what is no JSON, stay as they are.
void make_tokenizer_readable(const std::string& folder);
/// Whether that changes nothing.
[[nodiscard]] bool is_tokenizer_readable(const std::string& folder);

/// Tokens and a template that a tokenizer gets in place of its own; empty: it keeps that.
struct TokenizerChanges {
  std::string eos_token, pad_token;  ///< names of tokens of its vocabulary
  std::string chat_template;         ///< in place of all templates of the folder
};
void change_tokenizer(const std::string& folder, const TokenizerChanges& changes);

/// Tokens of the tokenizer that a model was trained with.
struct TokenIds {
  std::optional<std::int32_t> eos, bos, pad;
  bool is_new_eos = false;  ///< the run chose another eos than the tokenizer had
};
/// Writes them to config.json and generation_config.json of the folder as TRL 1.16 and transformers 5.24 do: a chosen
/// eos takes the place of the one in config.json, and is put first in the list of generation_config.json, which keeps
/// those that it has; another one is added where it is missing; bos and pad replace what is there. A folder without
/// generation_config.json gets one; where it has no config.json either, as that of an adapter, it gets none. A data
/// Error names a file that is no JSON object.
void write_token_ids(const std::string& folder, const TokenIds& ids);

}  // namespace sft::hub
