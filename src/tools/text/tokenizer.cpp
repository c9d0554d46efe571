// SPDX-License-Identifier: Apache-2.0
#include "sft/text/tokenizer.hpp"

#include <fmt/core.h>
#include <filesystem>

#include "sft/core/error.hpp"
#include "sft/text/byte_tokenizer.hpp"
#include "sft/text/hub_tokenizer.hpp"

namespace sft::text {

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  return encode(text, {.split_special_tokens = true});
}

std::vector<TokenId> Tokenizer::encode_markup(std::string_view text) const { return encode(text, EncodeOptions{}); }

TokenId Tokenizer::eos() const {
  if (specials().eos) return *specials().eos;
  throw_config_error(fmt::format("the tokenizer {} has no token that ends a text", name()),
                     "its tokenizer_config.json names no eos_token", "name one there");
}

TokenId Tokenizer::pad() const { return specials().pad ? *specials().pad : eos(); }

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  if (std::filesystem::is_directory(name)) return load_tokenizer(name);
  throw_config_error(fmt::format("unknown tokenizer '{}'", name), "it is neither \"byte\" nor a folder",
                     "give byte, or a folder with a tokenizer.json");
}

}  // namespace sft::text
