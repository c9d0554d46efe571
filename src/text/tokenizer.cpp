// SPDX-License-Identifier: Apache-2.0
#include "sft/text/tokenizer.hpp"

#include "sft/core/error.hpp"
#include "sft/text/byte_tokenizer.hpp"

namespace sft::text {

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  throw_config_error("unknown tokenizer '" + name + "'", "this release knows: byte", "use --tokenizer byte");
}

}  // namespace sft::text
