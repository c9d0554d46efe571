// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tokenizer of a model folder in the format of the Hugging Face hub: tokenizer.json, and tokenizer_config.json
// where there is one. Byte pair encoding (Sennrich et al., 2016) over bytes, as GPT-2, Llama 3, Qwen and SmolLM2 have
// it, or over characters with byte fallback, as Llama 2, TinyLlama and Mistral have it from sentencepiece.

#include <memory>
#include <string>

#include "sft/text/tokenizer.hpp"

namespace sft::text {

/// Ids are those of the PyPI package `tokenizers` for any text in UTF-8. In a text that is none, every maximal part
/// that is ill-formed counts as one U+FFFD (Unicode 15, section 3.9), as Python's errors="replace" makes it; its
/// offsets are those of the bytes that it replaces.
///
/// `folder` has a tokenizer.json. From its tokenizer_config.json come `specials`, tokens of `added_tokens_decoder` that
/// tokenizer.json lacks, and `add_bos_token` and `add_eos_token`, which overrule the post-processor of tokenizer.json
/// where they are there. special_tokens_map.json names roles that tokenizer_config.json does not. `truncation` and
/// `padding` of tokenizer.json are ignored.
///
/// Throws a data Error that names the file and what in it is damaged or not supported: other models than BPE, the
/// normalizers Precompiled, BertNormalizer and Nmt, the pre-tokenizers UnicodeScripts and FixedLength, and dropout.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::string& folder);

/// The texts of the files of a tokenizer's folder; empty where there is none.
struct TokenizerFiles {
  std::string name;  ///< stands in errors and becomes Tokenizer::name()
  std::string tokenizer_json;
  std::string tokenizer_config_json;
  std::string special_tokens_map_json;
};
/// What load_tokenizer makes of a folder with these files.
[[nodiscard]] std::unique_ptr<Tokenizer> make_hub_tokenizer(const TokenizerFiles& files);

}  // namespace sft::text
